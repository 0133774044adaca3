// The numbers of products that operators compute: they say how much of a model's time an operator
// stands for. The guard, the check, sensitivity and the closeness of outputs count here. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "graph/model.h"

namespace bitpress::ops {

// Shapes around a node that multiplies. A dimension that is not known is 1; a shape that is not
// known is empty.
struct ProductShapes {
  std::vector<int64_t> data;    // of the activation
  std::vector<int64_t> weight;  // of the weight, the second matrix, or the keys of an attention
  std::vector<int64_t> states;  // of the second weight of a recurrent operator, or of experts
  std::vector<int64_t> output;
};

// Returns the inputs that hold the first and the second weight of such a node, or the second matrix
// and what an operator has behind it.
std::pair<size_t, size_t> WeightInputs(const graph::Node& node);

// Returns the products of a node with these shapes. Operators on codes and ours count like those
// that they stand for. Returns 0 for operators that do not multiply, and if shapes are missing.
double MultiplyAdds(const graph::Node& node, const ProductShapes& shapes);

// Returns the dimensions of a value, with unknown ones as 1; none if its shape is not known.
std::vector<int64_t> KnownDims(const graph::Model& model, const std::string& value);

// Returns the shapes that the model knows.
ProductShapes KnownShapes(const graph::Model& model, const graph::Node& node);

// Returns the products that a model computes, with unknown dimensions as 1. REQUIRES: its shapes
// were inferred.
double CountProducts(const graph::Model& model);

// Returns what the unknown dimensions are in all, by the input that has most of them.
// `num_elements` are those of the model's inputs, in their order.
double UnknownDimensions(const graph::Model& model, std::span<const double> num_elements);

}  // namespace bitpress::ops
