// The comparison of values inside a quantized model with those of its float model. A report shows
// it for each layer.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bitpress/progress.h"
#include "data/source.h"
#include "graph/model.h"

namespace bitpress::report {

// A value under its names in both models. Neither name may be an input of the graph.
struct ValuePair {
  std::string reference;
  std::string quantized;
  uint64_t num_elements = 0;  // about as many in one run; decides how many pairs run together
};

// The settings of a comparison.
struct CompareOptions {
  size_t num_threads = 0;  // threads of ONNX Runtime; 0: one per core
  // The most elements of both models that are held at once, but at least one pair. For more
  // elements the samples run several times.
  uint64_t most_elements = 128'000'000;
  ProgressSink progress;  // may be empty; counts samples
};

// Runs all samples of `source` through both models, one at a time. Returns for each pair the energy
// of the error in parts of that of the float value; the errors of everything before it count.
// Returns nothing for values of other types than floats, and for those whose shapes differ. Throws
// Error if a model does not run or samples do not fit.
std::vector<std::optional<double>> CompareValues(const graph::Model& reference,
                                                 const graph::Model& quantized,
                                                 std::span<const ValuePair> pairs,
                                                 data::Source& source,
                                                 const CompareOptions& options = {});

}  // namespace bitpress::report
