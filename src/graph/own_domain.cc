#include "graph/own_domain.h"

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
