// The body of a model-local function, written node by node. Values have the names they are given,
// constants names that say their number; nodes that the operator sets spell differently are spelled
// here. Not thread-safe.
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

  // `number_rank`: dimensions of the constants that Number gives.
  FunctionBody(int64_t opset, size_t number_rank) : opset_(opset), number_rank_(number_rank) {}

  // Adds a node with one output and gives the output's name: `output` behind the prefix. REQUIRES:
  // no other value has that name.
  std::string Add(std::string op_type, std::string output, std::vector<std::string> inputs,
                  Attributes attributes = {});

  // A float32 constant with number_rank dimensions of 1: as many as the tensors it meets, because
  // ONNX Runtime takes one element at a time where a constant with fewer meets a tensor whose last
  // dimension is 1.
  std::string Number(double value);
  std::string Scalar(double value);  // the same with no dimensions: what Clip asks for
  std::string Integers(const std::vector<int64_t>& values);  // an int64 vector
  std::string IntegerAttribute(const std::string& name);     // of the node that calls, as a scalar

  // ReduceMax, whose axes became an input in operator set 18. Keeps the dimension.
  std::string ReduceMax(std::string output, const std::string& input, int64_t axis);
  // Where `dims` may have zeros (from operator set 14 on; 0 meant "as the input" before).
  std::string Reshape(std::string output, const std::string& input, const std::string& dims);

  // What the names of the values to come begin with; those of constants do not.
  void SetPrefix(std::string prefix) { prefix_ = std::move(prefix); }

  std::vector<graph::NodeSpec> TakeNodes() { return std::move(nodes_); }

 private:
  std::string Constant(const std::string& name, const std::string& attribute,
                       graph::Attribute value);

  int64_t opset_;
  size_t number_rank_;
  std::string prefix_;
  std::vector<graph::NodeSpec> nodes_;
  std::vector<std::string> constants_;  // names of those that are there
};

}  // namespace bitpress::emit
