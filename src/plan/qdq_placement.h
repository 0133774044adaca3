// The places of Q/DQ pairs in an integer model (placement qdq). ONNX Runtime puts an integer kernel
// in the place of each group DQ -> operator -> Q. So pairs stand on the inputs and outputs of the
// operators that have such kernels, but not between operators that ONNX Runtime fuses (Conv and
// Relu). An operator that only moves elements (MaxPool, Reshape, Concat, ...) has the same scale on
// both sides. Pure.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "graph/model.h"

namespace bitpress::plan {

// A value that gets a pair.
struct QdqValue {
  std::string name;
  // The value whose scale and zero point this one takes; empty: it has its own. `shares` of that
  // other value is always empty.
  std::string shares;
  bool is_graph_output = false;
  // The readers that get it quantized. They are all readers if an operator on integers gives the
  // value. Otherwise the model computes a float anyway, and readers on floats go on reading that.
  std::vector<graph::Use> readers;
};

// Returns the float activations that get a pair, in graph order, those in the bodies of control
// flow too. `node_reason` says why a node is left alone, `value_reason` why a value is; "" if it is
// not.
//
// The result of a matrix product stays float unless operators on integers read it. ONNX Runtime's
// kernels give floats as fast, and rounding a classifier's scores or the terms of a residual sum
// costs accuracy.
std::vector<QdqValue> PlaceQdq(const graph::Model& model,
                               const std::function<std::string(const graph::Node&)>& node_reason,
                               const std::function<std::string(const std::string&)>& value_reason);

// The part of the chosen values that operators on integers need.
struct NeededQdq {
  std::vector<QdqValue> values;     // in graph order
  std::set<std::string> operators;  // the operators that multiply integers, by their first output
};

// Returns what is left of the placement if only `quantized` may get a pair. An operator whose input
// or output is not among them computes in float, and pairs that only such operators read or give
// are left out.
NeededQdq NeededValues(const graph::Model& model, std::set<std::string> quantized);

}  // namespace bitpress::plan
