// Pass rotate: turns the inputs of matrix products in blocks, and their weights likewise, by an
// orthogonal matrix (Ashkboos et al., "QuaRot", 2024; Egiazarian et al., "Bridging the Gap between
// Promise and Performance for Microscaling FP4 Quantization", 2025):
//
//   x W = (x R) (R' W)    R = diag(H, H, ...), H a Hadamard matrix of the block's size / sqrt(size)
//
// A large element of a block is spread over all of its elements, so that a few bits and one scale
// for the block lose less. Blocks as large as those of the format keep the ranges of different
// blocks apart. The model computes the same but for float rounding. Rotations stand in the graph as
// nodes `bitpress.Rotate_<size>`, functions of standard operators.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/fields.h"
#include "graph/model.h"

namespace bitpress::rewrite {

struct RotateReport {
  int64_t block_size = 0;
  size_t num_layers = 0;  // layers whose weights were turned
  size_t num_values = 0;  // inputs that are turned while the model runs
  // The products with constant weights that stay as they are, with the reason.
  std::vector<std::pair<std::string, std::string>> left_alone;
};
constexpr auto FieldsOf(const RotateReport*) {
  return std::tuple(Field{"num_layers", &RotateReport::num_layers},
                    Field{"block_size", &RotateReport::block_size},
                    Field{"left_alone", &RotateReport::left_alone});
}

// Rotates MatMul and Gemm of the main graph whose first input is computed and whose second one is a
// constant FLOAT matrix that nothing else reads. The sum has to be over whole blocks. The rotated
// form of a value is called `<value>_rotated`, and all layers that read the value share it.
// Older models are brought to opset 21 before, as far as they can be raised. REQUIRES:
// `block_size` is a power of two.
RotateReport Rotate(graph::Model& model, int64_t block_size);

}  // namespace bitpress::rewrite
