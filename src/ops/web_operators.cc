#include "ops/web_operators.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

namespace bitpress::ops {
namespace {

using Operator = std::pair<std::string_view, std::string_view>;

constexpr auto kWebOperators = std::to_array<Operator>({
#define BITPRESS_WEB_RUNTIME(version)
#define BITPRESS_WEB_OPERATOR(domain, name) {domain, name},
#include "ops/web_operators.inc"
#undef BITPRESS_WEB_RUNTIME
#undef BITPRESS_WEB_OPERATOR
});
static_assert(std::is_sorted(kWebOperators.begin(), kWebOperators.end()));

}  // namespace

std::string_view WebRuntimeVersion() {
  return
#define BITPRESS_WEB_RUNTIME(version) version
#define BITPRESS_WEB_OPERATOR(domain, name)
#include "ops/web_operators.inc"
#undef BITPRESS_WEB_RUNTIME
#undef BITPRESS_WEB_OPERATOR
      ;
}

bool IsInWeb(const graph::Node& node) {
  const std::string& domain = node.domain();
  const Operator wanted{domain == "ai.onnx" ? "" : std::string_view(domain), node.op_type()};
  return std::binary_search(kWebOperators.begin(), kWebOperators.end(), wanted);
}

std::vector<std::string> OperatorsMissingInWeb(const graph::Model& model) {
  std::set<std::string> missing;
  for (const graph::Node& node : model.AllNodes()) {
    const std::string& domain = node.domain();
    if (IsInWeb(node) || model.HasFunction(domain, node.op_type())) continue;
    missing.insert(domain.empty() ? node.op_type() : domain + "::" + node.op_type());
  }
  return {missing.begin(), missing.end()};
}

}  // namespace bitpress::ops
