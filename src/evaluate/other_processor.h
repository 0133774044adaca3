// Measures how much the outputs of a model differ between x86 processors with and without VNNI. It
// runs the model as this machine computes it, and a model that computes as the other kind does
// (simulate_products.h), on the same samples.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "base/fields.h"
#include "base/scratch_folder.h"
#include "base/tensor.h"
#include "evaluate/metrics.h"
#include "processors/integer_products.h"
#include "processors/simulate_products.h"
#include "runtime/session.h"

namespace bitpress::evaluate {

// The difference between kinds of processors. If `nodes` is empty, all processors give the same
// outputs, up to the order in which floats are added.
struct ProcessorReport {
  processors::ProcessorKind processor = processors::ProcessorKind::kExact;
  bool is_simulated = false;
  std::vector<processors::SaturatingNode> nodes;
  size_t num_samples = 0;
  std::optional<double> sqnr_db;
  std::vector<std::string> not_simulated;

  // Returns whether saturation costs much: more than quantization to 8 bits should, and more than a
  // quarter of the noise that the model has beside its reference, if that is known (`of_model`, in
  // dB).
  bool is_harmful(std::optional<double> of_model) const {
    constexpr double kQuarter = 6;
    return sqnr_db && *sqnr_db < 30 && (!of_model || *sqnr_db < *of_model + kQuarter);
  }
};
constexpr auto FieldsOf(const ProcessorReport*) {
  return std::tuple(
      Field{"kind", &ProcessorReport::processor,
            "The kind of processor that the other figures are for: 'exact' sums of 8-bit products, "
            "or 'saturating' ones, as of x86 without VNNI."},
      Field{"is_simulated", &ProcessorReport::is_simulated,
            "That is another kind of processor than this machine's."},
      Field{"saturating_nodes", &ProcessorReport::nodes,
            "Nodes that saturate for some activations.", "nodes"},
      Field{"num_samples", &ProcessorReport::num_samples, "Samples whose outputs were compared."},
      ComputedField{"is_compared",
                    [](const ProcessorReport& report) { return report.sqnr_db.has_value(); }},
      Field{"sqnr_db", &ProcessorReport::sqnr_db,
            "SQNR in dB of saturated against exact outputs. Infinite if they are the same, None if "
            "they were not compared."},
      Field{"not_simulated", &ProcessorReport::not_simulated,
            "Nodes whose saturation is not simulated, or why nothing is simulated."});
}
// Returns a sentence for people: "sums of 8-bit products can saturate in 3 operators; on 20 samples
// outputs are 12.1 dB (SQNR) from those with VNNI". REQUIRES: report.nodes is not empty.
std::string DescribeSaturation(const ProcessorReport& report);
// The warning of a report that is harmful.
inline constexpr std::string_view kHarmfulWarning =
    "this model is wrong on x86 processors without VNNI; quantize the float model with "
    "integer_kernels=safe (the default)";
// The same of a model that was quantized so.
inline constexpr std::string_view kBeyondSamplesWarning =
    "this model is wrong on x86 processors without VNNI where activations are larger than in the "
    "samples: give more samples, or more varied ones";

// Returns the nodes of a model file that can saturate. Fast if the model has no int8 constant.
std::vector<processors::SaturatingNode> SaturatingNodesOf(const std::filesystem::path& model);

// Returns a file that computes on this machine as `model` does on a processor of `kind`: `model`
// itself, or a new file in `folder`. Describes the new file in `simulated`.
std::filesystem::path ModelAs(const std::filesystem::path& model, processors::ProcessorKind kind,
                              const std::filesystem::path& folder,
                              processors::SimulatedModel& simulated);

// Compares a model's outputs with those on the other kind of processor, run by run.
class OtherProcessor {
 public:
  // `report.processor` is the kind that computes the outputs given to Compare. Nodes that cannot be
  // simulated are added to `report` and are no error. `report` must outlive this object.
  OtherProcessor(const std::filesystem::path& model, const runtime::SessionOptions& options,
                 ProcessorReport& report);
  // Runs the inputs on the other kind, compares with `outputs`, and writes the result to the
  // report. `num_samples` is the number of samples in the inputs without filled-up copies.
  void Compare(const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs,
               size_t num_samples);

 private:
  ProcessorReport& report_;
  ScratchFolder folder_;
  std::optional<runtime::Session> session_;
  OutputComparison comparison_;
};

}  // namespace bitpress::evaluate
