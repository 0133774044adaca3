// The numbers of a model's constants, however they are stored. A report compares the weights of a
// quantized and a float model with them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "graph/model.h"

namespace bitpress::report {

// A constant's numbers.
struct Constant {
  std::vector<int64_t> dims;
  std::vector<double> values;
};

// Reads a float initializer; nothing if it is none.
std::optional<Constant> ReadFloats(const graph::Model& model, const std::string& name);

// Reads an initializer of 8, 16 or 32 bit integers, at most 2^31 of them; nothing if it is none.
std::optional<std::vector<double>> ReadIntegers(const graph::Model& model, const std::string& name);

// Returns the numbers that a node reads as its input `index`; nothing unless they depend on
// constants only. They may be an initializer, a packed weight, or come from a DequantizeLinear.
// ONNX Runtime computes the nodes between. Throws Error if it cannot.
std::optional<Constant> ReadInput(const graph::Model& model, const graph::Node& node, size_t index,
                                  ThreadPool& pool);

// Reads a weight whose codes are read by operators on integers: `<weight>_codes` or
// `<weight>_quantized` with `<weight>_scale` and `<weight>_zero_point`. There may be one scale, one
// for each slice of `axis`, or one for each place in the first dimensions. Returns nothing for
// anything else.
std::optional<Constant> ReadCodes(const graph::Model& model, const std::string& weight,
                                  std::optional<int64_t> axis);

}  // namespace bitpress::report
