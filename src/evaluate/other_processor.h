// How much the outputs of a model differ between processors with and without VNNI: the model as
// this machine computes it beside the model as the other kind does, on the same samples.
#pragma once

#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/scratch_folder.h"
#include "base/tensor.h"
#include "evaluate/integer_products.h"
#include "evaluate/metrics.h"
#include "evaluate/simulate_products.h"
#include "runtime/session.h"

namespace bitpress::evaluate {

// Holds what was found. If `nodes` is empty, every processor gives the same, up to the order of
// additions of floats.
struct ProcessorReport {
  ProcessorKind processor = ProcessorKind::kExact;  // that the figures beside this are of
  bool is_simulated = false;                        // not this machine's own kind
  std::vector<SaturatingNode> nodes;                // that saturate for some activations
  size_t num_samples = 0;                           // whose outputs were compared
  // Of the saturated outputs against the exact ones; +infinity where they are the same. Nothing:
  // not compared.
  std::optional<double> sqnr_db;
  // Nodes whose saturation is not simulated, or why nothing is.
  std::vector<std::string> not_simulated;

  // Whether outputs on some processors are much further from the exact ones than 8 bits ask for.
  bool is_harmful() const { return sqnr_db && *sqnr_db < 30; }
};
nlohmann::ordered_json ToJson(const ProcessorReport& report);
// For people: "sums of 8-bit products can saturate in 3 operators; on 20 samples outputs are 12.1
// dB (SQNR) from those with VNNI". REQUIRES: there are nodes.
std::string DescribeSaturation(const ProcessorReport& report);

// The nodes of a model file that can saturate; quick where it has no int8 constant.
std::vector<SaturatingNode> SaturatingNodesOf(const std::filesystem::path& model);

// The file that gives on this machine what `model` gives on a processor of `kind`: itself, or one
// in `folder`.
std::filesystem::path ModelAs(const std::filesystem::path& model, ProcessorKind kind,
                              const std::filesystem::path& folder, SimulatedModel& simulated);

// Compares outputs with those of the other kind, run by run.
class OtherProcessor {
 public:
  // `report.processor` says which kind the outputs to come are of. Notes in it what cannot be
  // simulated; never throws for that.
  OtherProcessor(const std::filesystem::path& model, const runtime::SessionOptions& options,
                 ProcessorReport& report);
  // Runs the same inputs. `num_samples` of them count.
  void Compare(const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs,
               size_t num_samples);

 private:
  ProcessorReport& report_;
  ScratchFolder folder_;
  std::optional<runtime::Session> session_;
  OutputComparison comparison_;
};

}  // namespace bitpress::evaluate
