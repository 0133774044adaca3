// Helpers of this room's tests: models from ONNX's text form, errors, bytes.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/test_support.h"
#include "graph/model.h"
#include "onnx/defs/parser.h"
#include "onnx/onnx_pb.h"

namespace bitpress::graph {

inline onnx::ModelProto ProtoFromText(const std::string& text) {
  onnx::ModelProto proto;
  onnx::OnnxParser parser(text.c_str());
  const auto status = parser.Parse(proto);
  EXPECT_TRUE(status.IsOK()) << status.ErrorMessage();
  return proto;
}

inline Model FromProto(const onnx::ModelProto& proto, const std::filesystem::path& folder = ".") {
  return Model::Parse(proto.SerializeAsString(), folder);
}

inline Model FromText(const std::string& text) { return FromProto(ProtoFromText(text)); }

// Does the same, and makes the values that the text declares and no node gives constants of zeros.
// They keep models of many weights short: `<float[64,8] table>`.
inline Model FromTextWithConstants(const std::string& text) {
  onnx::ModelProto proto = ProtoFromText(text);
  onnx::GraphProto& graph = *proto.mutable_graph();
  std::set<std::string> given;
  for (const onnx::NodeProto& node : graph.node()) {
    given.insert(node.output().begin(), node.output().end());
  }
  for (const onnx::ValueInfoProto& value : graph.value_info()) {
    if (given.contains(value.name())) continue;
    onnx::TensorProto& tensor = *graph.add_initializer();
    tensor.set_name(value.name());
    tensor.set_data_type(value.type().tensor_type().elem_type());
    size_t num_bytes = ElementBits(static_cast<DataType>(tensor.data_type())) / 8;
    for (const auto& dim : value.type().tensor_type().shape().dim()) {
      tensor.add_dims(dim.dim_value());
      num_bytes *= static_cast<size_t>(dim.dim_value());
    }
    tensor.set_raw_data(std::string(num_bytes, '\0'));
  }
  graph.clear_value_info();
  Model model = FromProto(proto);
  model.InferShapes();
  return model;
}

inline onnx::ModelProto ToProto(const Model& model) {
  onnx::ModelProto proto;
  EXPECT_TRUE(proto.ParseFromString(model.Serialize()));
  return proto;
}

// Returns the Error that `function()` throws.
template <typename Function>
Error ErrorOf(Function&& function) {
  try {
    function();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "no error was thrown";
  return {ErrorCode::kRuntime, ""};
}

inline std::vector<std::byte> Bytes(std::string_view text) {
  const auto bytes = std::as_bytes(std::span<const char>(text));
  return {bytes.begin(), bytes.end()};
}

template <typename T>
std::vector<std::byte> BytesOf(const std::vector<T>& values) {
  const auto bytes = std::as_bytes(std::span<const T>(values));
  return {bytes.begin(), bytes.end()};
}

inline Node FindNode(const Model& model, std::string_view name) {
  for (const Node& node : model.Nodes()) {
    if (node.name() == name) return node;
  }
  throw Error(ErrorCode::kInvalidArgument, "no such node");
}

inline std::vector<std::string> NodeNames(const Model& model) {
  std::vector<std::string> names;
  for (const Node& node : model.Nodes()) names.push_back(node.name());
  return names;
}

// A model whose `x` and `w` are read only inside branches, where `inner` is defined. One branch
// holds another If.
inline constexpr const char* kBranches = R"(<ir_version: 8, opset_import: ["" : 17]>
agraph (float[N,4] x, bool c) => (float[N,4] y)
<float[4] w = {1.0, 2.0, 3.0, 4.0}>
{
  [abs] a = Abs(x)
  [choose] y = If (c) <
    then_branch = g1 () => (float[N,4] t) { inner = Mul(a, w)  t = Relu(inner) },
    else_branch = g2 () => (float[N,4] e) {
      d = Not(c)
      e = If (d) <
        then_branch = g3 () => (float[N,4] t3) { t3 = Add(a, a) },
        else_branch = g4 () => (float[N,4] e4) { e4 = Identity(x) }
      >
    }
  >
}
)";

}  // namespace bitpress::graph
