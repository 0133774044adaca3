// How far values inside a quantized model are from those of its float model.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/progress.h"
#include "data/source.h"
#include "graph/model.h"

namespace bitpress::report {

// One value under its names in both models. Neither may be an input of the graph.
struct ValuePair {
  std::string reference;
  std::string quantized;
  uint64_t num_elements = 0;  // in one run, about; decides how many are looked at together
};

struct CompareOptions {
  size_t num_threads = 0;  // of ONNX Runtime; 0: one per core
  // Elements of both models that are held at once, at least one pair's. Beyond that the samples are
  // run several times.
  uint64_t most_elements = 128'000'000;
  ProgressSink progress;  // may be empty; counts samples
};

// Runs all samples of `source` through both models, one at a time: for each pair the energy of the
// error in parts of that of the float value, with the errors of everything before it. Nothing for
// values of other types than floats, or whose shapes differ. Throws Error: a model that does not
// run, samples that do not fit.
std::vector<std::optional<double>> CompareValues(const graph::Model& reference,
                                                 const graph::Model& quantized,
                                                 std::span<const ValuePair> pairs,
                                                 data::Source& source,
                                                 const CompareOptions& options = {});

}  // namespace bitpress::report
