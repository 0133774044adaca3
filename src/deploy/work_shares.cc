#include "deploy/work_shares.h"

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/atomic_file.h"
#include "base/error.h"
#include "graph/own_domain.h"
#include "ops/integer_operators.h"
#include "ops/multiply_adds.h"

namespace bitpress::deploy {
namespace {

using Json = nlohmann::json;
using Shape = std::vector<int64_t>;

// Returns the first shape of a list such as [{"float":[1,3,8,8]},{"uint8":[]}].
Shape FirstShape(const Json& args, const char* key) {
  const Json list = args.value(key, Json::array());
  return list.empty() || list.front().empty() ? Shape() : list.front().front().get<Shape>();
}

bool IsOurProduct(const graph::Node& node) {
  const std::string& op = node.op_type();
  return node.domain() == graph::kOwnDomain && (op.starts_with("MatMul") || op.starts_with("Conv"));
}

double& ShareOf(const graph::Node& node, WorkShares& shares) {
  if (IsOurProduct(node) || node.op_type() == "MatMulNBits" || node.op_type() == "QMoE")
    return shares.codes;
  return ops::IsIntegerOperator(node) ? shares.integers : shares.floats;
}

}  // namespace

WorkShares CountWork(const graph::Model& graph, const std::filesystem::path& profile) {
  std::map<std::string, graph::Node> nodes;
  for (const graph::Node& node : graph.AllNodes()) {
    if (!ops::GivesIndices(graph, node)) nodes.emplace(node.name(), node);
  }
  const Json events = Json::parse(ReadFile(profile), nullptr, false);
  if (!events.is_array()) Fail(ErrorCode::kRuntime, "the profile of ONNX Runtime is no JSON array");
  constexpr std::string_view kEnd = "_kernel_time";
  WorkShares shares;
  try {
    for (const Json& event : events) {
      const std::string name = event.value("name", "");
      if (event.value("cat", "") != "Node" || !name.ends_with(kEnd)) continue;
      const auto node = nodes.find(name.substr(0, name.size() - kEnd.size()));
      if (node == nodes.end()) continue;
      const Json& args = event.at("args");
      // The profile leaves out constants whose kernels hold a copy in another layout.
      ops::ProductShapes shapes = ops::KnownShapes(graph, node->second);
      shapes.data = FirstShape(args, "input_type_shape");
      shapes.output = FirstShape(args, "output_type_shape");
      ShareOf(node->second, shares) += ops::MultiplyAdds(node->second, shapes);
    }
  } catch (const std::exception& error) {
    Fail(ErrorCode::kRuntime, "the profile of ONNX Runtime cannot be read: {}", error.what());
  }
  return shares;
}

}  // namespace bitpress::deploy
