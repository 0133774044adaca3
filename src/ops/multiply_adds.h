// The numbers of products that operators compute: they say how much of a model's time an operator
// stands for. The guard, the check, sensitivity and the closeness of outputs count here. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/model.h"

namespace bitpress::ops {

// Shapes around a node that multiplies. A dimension that is not known is 1; a shape that is not
// known is empty.
struct ProductShapes {
  std::vector<int64_t> data;    // of the activation
  std::vector<int64_t> weight;  // of the weight, the second matrix, or the keys of an attention
  std::vector<int64_t> states;  // of the second weight of a recurrent operator
  std::vector<int64_t> output;
};

// Returns the products of a node with these shapes. Operators on codes and ours count like those
// that they stand for. Returns 0 for operators that do not multiply, and if shapes are missing.
double MultiplyAdds(const graph::Node& node, const ProductShapes& shapes);

// Returns the shapes that the model knows.
ProductShapes KnownShapes(const graph::Model& model, const graph::Node& node);

}  // namespace bitpress::ops
