#include "graph/own_domain.h"

#include <bit>
#include <charconv>
#include <string_view>

#include "base/error.h"
#include "graph/model_impl.h"

namespace bitpress::graph {
namespace {

template <typename Nodes>
void RefuseInternalIn(const Nodes& nodes) {
  for (const onnx::NodeProto& node : nodes) {
    if (node.domain() == kObserverDomain) {
      Fail(ErrorCode::kInvalidModel,
           "{} has the domain '{}', whose operators Bitpress puts into models while it works; no "
           "model in a file may have them",
           DescribeNode(node), kObserverDomain);
    }
    ForEachOwnBody(node, [](const onnx::GraphProto& body) { RefuseInternalIn(body.node()); });
  }
}

}  // namespace

int64_t RotationSize(const Node& node) {
  constexpr std::string_view kPrefix = kRotationPrefix;
  const std::string& op_type = node.op_type();
  if (node.domain() != kOwnDomain || !op_type.starts_with(kPrefix)) return 0;
  uint64_t size = 0;
  const char* const end = op_type.data() + op_type.size();
  const auto parsed = std::from_chars(op_type.data() + kPrefix.size(), end, size);
  const bool is_whole = parsed.ec == std::errc() && parsed.ptr == end;
  return is_whole && std::has_single_bit(size) ? static_cast<int64_t>(size) : 0;
}

void RefuseInternalOperators(const Model& model) {
  const onnx::ModelProto& proto = ModelAccess::Impl(model).proto;
  RefuseInternalIn(proto.graph().node());
  for (const onnx::FunctionProto& function : proto.functions()) {
    if (function.domain() == kObserverDomain) {
      Fail(ErrorCode::kInvalidModel,
           "the function '{}' has the domain '{}', which Bitpress keeps for itself",
           function.name(), kObserverDomain);
    }
    RefuseInternalIn(function.node());
  }
}

}  // namespace bitpress::graph
