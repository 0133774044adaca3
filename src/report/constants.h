// The numbers of a model's constants, however they are stored.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "graph/model.h"

namespace bitpress::report {

struct Constant {
  std::vector<int64_t> dims;
  std::vector<double> values;
};

// A float initializer. Nothing if it is none.
std::optional<Constant> ReadFloats(const graph::Model& model, const std::string& name);

// An initializer of 8, 16 or 32 bit integers, at most 2^31 of them. Nothing if it is none.
std::optional<std::vector<double>> ReadIntegers(const graph::Model& model, const std::string& name);

// What a node reads as its input `index`, if it depends on constants only: an initializer, a packed
// weight, one behind a DequantizeLinear. Nodes between are computed by ONNX Runtime. Throws Error
// if it cannot.
std::optional<Constant> ReadInput(const graph::Model& model, const graph::Node& node, size_t index,
                                  ThreadPool& pool);

// A weight whose codes operators on integers read: `<weight>_codes` or `<weight>_quantized` with
// `<weight>_scale` and `<weight>_zero_point`: one scale, one for each slice of `axis`, or one for
// each place in the first dimensions. Nothing if there are none, or not so.
std::optional<Constant> ReadCodes(const graph::Model& model, const std::string& weight,
                                  std::optional<int64_t> axis);

}  // namespace bitpress::report
