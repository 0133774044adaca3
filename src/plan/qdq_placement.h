// Where Q/DQ pairs stand in an integer model, so that ONNX Runtime puts its integer kernels in the
// place of DQ -> operator -> Q groups: on the inputs and outputs of the operators that have such
// kernels, not between operators that it fuses (Conv and Relu), and with one scale where an
// operator only moves elements (MaxPool, Reshape, Concat, ...). Pure.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "graph/model.h"

namespace bitpress::plan {

struct QdqValue {
  std::string name;
  // The value whose scale and zero point it takes; empty: its own. Always one that comes with
  // `shares` empty.
  std::string shares;
  bool is_graph_output = false;
  // Who reads it quantized. All its readers where an operator on integers gives it; others compute
  // a float anyway, which those that compute on floats go on reading.
  std::vector<graph::Use> readers;
};

// Float activations that get a pair, in graph order, those in the bodies of control flow too.
// `node_reason` says why a node is left alone, `value_reason` why a value is, or "". What a matrix
// product gives stays float but where operators on integers read it: ONNX Runtime's kernels give
// floats as fast, and rounding a classifier's scores or the terms of a residual sum costs accuracy.
std::vector<QdqValue> PlaceQdq(const graph::Model& model,
                               const std::function<std::string(const graph::Node&)>& node_reason,
                               const std::function<std::string(const std::string&)>& value_reason);

}  // namespace bitpress::plan
