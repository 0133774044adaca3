#include "deploy/work_shares.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/atomic_file.h"
#include "base/error.h"
#include "graph/own_domain.h"
#include "ops/compute_ops.h"
#include "ops/integer_operators.h"

namespace bitpress::deploy {
namespace {

using Json = nlohmann::json;
using Shape = std::vector<int64_t>;

// Returns the shapes of a list such as [{"float":[1,3,8,8]},{"uint8":[]}].
std::vector<Shape> ShapesOf(const Json& args, const char* key) {
  std::vector<Shape> shapes;
  for (const Json& entry : args.value(key, Json::array())) {
    shapes.push_back(entry.empty() ? Shape() : entry.front().get<Shape>());
  }
  return shapes;
}

double ElementsOf(const Shape& shape) {
  double count = 1;
  for (const int64_t dim : shape) count *= static_cast<double>(dim);
  return count;
}

bool IsOurProduct(const graph::Node& node) {
  const std::string& op = node.op_type();
  return node.domain() == graph::kOwnDomain && (op.starts_with("MatMul") || op.starts_with("Conv"));
}

bool IsImage(const graph::Node& node) {
  const ops::IntegerSignature* const integer = ops::IntegerSignatureOf(node);
  return ops::HasKernel(node) || (integer != nullptr && integer->is_image) ||
         node.op_type() == "ConvInteger" ||
         (IsOurProduct(node) && node.op_type().starts_with("Conv"));
}

// Returns the products of a convolution: each element of the larger side meets a filter.
double ImageProducts(const graph::Node& node, const std::vector<Shape>& inputs,
                     const Shape& output) {
  const ops::IntegerSignature* const integer = ops::IntegerSignatureOf(node);
  const Shape& weight = inputs.at(integer == nullptr ? 1 : static_cast<size_t>(integer->weight));
  const bool is_channels_last = node.GetInt("channels_last", 0) != 0;
  if (node.op_type() == "ConvTranspose") {
    return ElementsOf(inputs[0]) * ElementsOf(weight) /
           static_cast<double>(std::max<int64_t>(1, weight.at(0)));
  }
  double filter = static_cast<double>(is_channels_last ? inputs[0].back() : inputs[0].at(1)) /
                  static_cast<double>(std::max<int64_t>(1, node.GetInt("group", 1)));
  Shape kernel = node.GetInts("kernel_shape");
  if (kernel.empty() && weight.size() > 2) kernel.assign(weight.begin() + 2, weight.end());
  return ElementsOf(output) * filter * ElementsOf(kernel);
}

// Returns the products of an operator that multiplies, and 0 for others.
double ProductsOf(const graph::Node& node, const std::vector<Shape>& inputs,
                  const std::vector<Shape>& outputs) {
  const std::string& op = node.op_type();
  const bool is_known = ops::TakesMostTime(op) || IsOurProduct(node) || op == "MatMulNBits" ||
                        op == "ConvInteger" || ops::IntegerSignatureOf(node) != nullptr;
  if (!is_known || inputs.size() < 2 || outputs.empty() || inputs[0].empty()) return 0;
  if (IsImage(node)) {
    return inputs[0].size() > 1 ? ImageProducts(node, inputs, outputs[0]) : 0;
  }
  if (ops::IsRecurrent(op) || op == "DynamicQuantizeLSTM") {
    // Each step multiplies its input by one weight and the state by the other.
    const double steps = ElementsOf(inputs[0]) / static_cast<double>(inputs[0].back());
    return steps * (ElementsOf(inputs[1]) + (inputs.size() > 2 ? ElementsOf(inputs[2]) : 0));
  }
  const bool is_transposed = node.GetInt("transA", 0) != 0 && inputs[0].size() == 2;
  return ElementsOf(outputs[0]) *
         static_cast<double>(is_transposed ? inputs[0].front() : inputs[0].back());
}

double& ShareOf(const graph::Node& node, WorkShares& shares) {
  if (IsOurProduct(node) || node.op_type() == "MatMulNBits") return shares.codes;
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
      ShareOf(node->second, shares) += ProductsOf(node->second, ShapesOf(args, "input_type_shape"),
                                                  ShapesOf(args, "output_type_shape"));
    }
  } catch (const std::exception& error) {
    Fail(ErrorCode::kRuntime, "the profile of ONNX Runtime cannot be read: {}", error.what());
  }
  return shares;
}

nlohmann::ordered_json ToJson(const WorkShares& shares) {
  return {{"integers", shares.integers}, {"codes", shares.codes}, {"floats", shares.floats}};
}

WorkShares WorkSharesFromJson(const nlohmann::ordered_json& json) {
  return {json.at("integers").get<double>(), json.at("codes").get<double>(),
          json.at("floats").get<double>()};
}

}  // namespace bitpress::deploy
