// The choice of how blocks of integer weights get their scales, by the outputs of the model. Which
// method is best depends on the inputs of the layers and on how errors meet in the outputs, so
// weights with weight_range=auto are tried with a few samples, where there are some. One method is
// chosen for all of them, so that few samples can decide. Results do not depend on the number of
// threads.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "base/fields.h"
#include "base/thread_pool.h"
#include "bitpress/progress.h"
#include "data/source.h"
#include "graph/model.h"
#include "plan/resolved_plan.h"

namespace bitpress::calibrate {

struct TriedRange {
  std::string method;
  double sqnr_db = 0;
};
constexpr auto FieldsOf(const TriedRange*) {
  return std::tuple(Field{"method", &TriedRange::method},
                    Field{"sqnr_db", &TriedRange::sqnr_db,
                          "SQNR in dB of the worst output with weights alone quantized."});
}

struct WeightRangeReport {
  size_t num_samples = 0;
  std::string method;             // that all weights with weight_range=auto have now
  std::vector<TriedRange> tried;  // auto comes first
};
constexpr auto FieldsOf(const WeightRangeReport*) {
  using Report = WeightRangeReport;
  return std::tuple(
      Field{"num_samples", &Report::num_samples, "Samples that it was measured with."},
      Field{"method", &Report::method, "The method that weights with weight_range=auto have."},
      Field{"tried", &Report::tried, "What was measured, auto first."});
}

struct WeightRangeOptions {
  data::Source* source = nullptr;  // opened for the model's inputs
  size_t num_threads = 0;          // threads of ONNX Runtime; 0: one per core
  ProgressSink progress = {};      // counts methods; may be empty
};

// Returns whether ChooseWeightRange has something to choose: blocks of integers with
// weight_range=auto, which are not learned from samples afterwards.
bool HasWeightRangeToChoose(const plan::ResolvedPlan& resolved);

// Gives the weights of HasWeightRangeToChoose the method with the best worst output. auto stays if
// no other one gains at least kLeastRangeGainDb, and nothing is measured (and returned) if a few
// runs of the model would take longer than about two seconds.
std::optional<WeightRangeReport> ChooseWeightRange(plan::ResolvedPlan& resolved,
                                                   const graph::Model& model, ThreadPool& pool,
                                                   const WeightRangeOptions& options);

}  // namespace bitpress::calibrate
