#include "evaluate/other_processor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "base/text.h"
#include "evaluate/outputs.h"

namespace bitpress::evaluate {

std::vector<processors::SaturatingNode> SaturatingNodesOf(const std::filesystem::path& path) {
  return processors::FindSaturatingNodes(graph::Model::Load(path));
}

std::filesystem::path ModelAs(const std::filesystem::path& model, processors::ProcessorKind kind,
                              const std::filesystem::path& folder,
                              processors::SimulatedModel& simulated) {
  const std::filesystem::path out = folder / "simulated.onnx";
  simulated = processors::SimulateProducts(model, kind, out);
  return simulated.is_changed() ? out : model;
}

OtherProcessor::OtherProcessor(const std::filesystem::path& model,
                               const runtime::SessionOptions& options, ProcessorReport& report)
    : report_(report) {
  try {
    processors::SimulatedModel simulated;
    const std::filesystem::path path =
        ModelAs(model, processors::OtherKind(report.processor), folder_.path(), simulated);
    // If the figures are of a simulated kind, the other kind is that of this machine itself.
    if (simulated.is_changed() || report.is_simulated) session_.emplace(path, options);
    report.not_simulated.insert(report.not_simulated.end(), simulated.left.begin(),
                                simulated.left.end());
    if (!session_ && simulated.left.empty()) {
      report.sqnr_db = std::numeric_limits<double>::infinity();
    }
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kIo) throw;  // the disk failed, not the model
    report.not_simulated.emplace_back(error.what());
  }
}

void OtherProcessor::Compare(const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs,
                             size_t num_samples) {
  if (!session_) return;
  const std::vector<Tensor> others = session_->Run(inputs);
  for (size_t i = 0; i < std::min(outputs.size(), others.size()); ++i) {
    const Output here = ToOutput(outputs[i]);
    const Output there = ToOutput(others[i]);
    if (here.values.empty() || here.values.size() != there.values.size()) continue;
    const bool is_exact = report_.processor == processors::ProcessorKind::kExact;
    comparison_.Add(is_exact ? here.values : there.values, is_exact ? there.values : here.values);
  }
  if (comparison_.num_samples() == 0) return;
  report_.num_samples += num_samples;
  report_.sqnr_db = comparison_.SqnrDb();
}

std::string DescribeSaturation(const ProcessorReport& report) {
  BITPRESS_DCHECK(!report.nodes.empty());
  const std::string where = fmt::format("sums of 8-bit products can saturate in {}",
                                        WithNoun(report.nodes.size(), "operator"));
  if (!report.sqnr_db) return where + "; what that costs was not measured";
  const std::string samples =
      report.num_samples == 1 ? "the sample" : WithNoun(report.num_samples, "sample");
  if (std::isinf(*report.sqnr_db)) {
    return fmt::format("{}; on {} none does, outputs are the same", where, samples);
  }
  return fmt::format("{}; on {} outputs are {:.1f} dB (SQNR) from those with VNNI", where, samples,
                     *report.sqnr_db);
}

}  // namespace bitpress::evaluate
