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
};

// Float activations that get a pair, in graph order, in bodies too. `node_reason` says why a
// node is left alone, `value_reason` why a value is, or "". The outputs of a model that a matrix
// product gives stay float: nothing reads them as integers, and rounding a classifier's scores
// costs accuracy.
std::vector<QdqValue> PlaceQdq(const graph::Model& model,
                               const std::function<std::string(const graph::Node&)>& node_reason,
                               const std::function<std::string(const std::string&)>& value_reason);

}  // namespace bitpress::plan
