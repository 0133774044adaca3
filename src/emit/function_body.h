// A builder for the body of a model-local function, node by node. Use it to write an operator in
// standard ONNX operators. The caller names the values. The name of a constant says its number. The
// builder handles nodes that operator sets spell differently. Not thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "graph/model.h"

namespace bitpress::emit {

class FunctionBody {
 public:
  using Attributes = std::vector<std::pair<std::string, graph::Attribute>>;

  // Starts an empty body. `number_rank` is the number of dimensions of the constants from Number.
  FunctionBody(int64_t opset, size_t number_rank) : opset_(opset), number_rank_(number_rank) {}

  // Adds a node with one output. Returns the output's name: the prefix and `output`. REQUIRES: no
  // other value has that name.
  std::string Add(std::string op_type, std::string output, std::vector<std::string> inputs,
                  Attributes attributes = {});

  // Returns the name of a float32 constant with number_rank dimensions of 1. The rank should be
  // that of the tensors that the constant meets. With a lower rank ONNX Runtime takes one element
  // at a time if the last dimension of the tensor is 1.
  std::string Number(double value);
  std::string Scalar(double value);  // the same without dimensions, for Clip
  std::string Integers(const std::vector<int64_t>& values);  // an int64 vector
  std::string IntegerAttribute(const std::string& name);     // the calling node's, as a scalar

  // Adds a ReduceMax that keeps the dimension. Its axes are an input from operator set 18 on.
  std::string ReduceMax(std::string output, const std::string& input, int64_t axis);
  // Adds a Reshape. `dims` may have zeros from operator set 14 on; before that, 0 meant "as the
  // input".
  std::string Reshape(std::string output, const std::string& input, const std::string& dims);

  // Sets the prefix for the names of later values. Names of constants have no prefix.
  void SetPrefix(std::string prefix) { prefix_ = std::move(prefix); }

  std::vector<graph::NodeSpec> TakeNodes() { return std::move(nodes_); }

 private:
  std::string Constant(const std::string& name, const std::string& attribute,
                       graph::Attribute value);

  int64_t opset_;
  size_t number_rank_;
  std::string prefix_;
  std::vector<graph::NodeSpec> nodes_;
  std::vector<std::string> constants_;  // names of the constants in nodes_
};

}  // namespace bitpress::emit
