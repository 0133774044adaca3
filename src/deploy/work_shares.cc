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

// Returns the first shape of a list such as [{"float":[1,3,8,8]},{"uint8":[]}].
Shape FirstShape(const Json& args, const char* key) {
  const Json list = args.value(key, Json::array());
  return list.empty() || list.front().empty() ? Shape() : list.front().front().get<Shape>();
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

// Returns whether the node is a convolution: Conv, QLinearConv, FusedConv, ours, of any layout.
bool IsImage(const graph::Node& node) { return node.op_type().find("Conv") != std::string::npos; }

// Returns the shape of an input as the model knows it. ONNX Runtime's profile leaves out constants
// whose kernels hold a copy in another layout.
Shape KnownShape(const graph::Model& graph, const graph::Node& node, size_t input) {
  Shape shape;
  if (input >= node.num_inputs()) return shape;
  for (const graph::Dimension& dim : graph.InfoOf(node.input(input)).shape) {
    shape.push_back(std::max<int64_t>(1, dim.value));
  }
  return shape;
}

// Returns the products of a convolution: each element of the output, or of the input where that is
// spread, meets a filter.
double ImageProducts(const graph::Model& graph, const graph::Node& node, const Shape& input,
                     const Shape& output) {
  const ops::IntegerSignature* const integer = ops::IntegerSignatureOf(node);
  Shape weight = node.GetInts("shape");  // of the codes that our operators read
  if (weight.empty()) {
    weight = KnownShape(graph, node, integer == nullptr ? 1 : static_cast<size_t>(integer->weight));
  }
  if (node.op_type() == "ConvTranspose") {
    return weight.empty()
               ? 0
               : ElementsOf(input) * ElementsOf(weight) / static_cast<double>(weight.front());
  }
  const bool is_channels_last = node.GetInt("channels_last", 0) != 0;
  const double num_channels = static_cast<double>(is_channels_last ? input.back() : input.at(1)) /
                              static_cast<double>(std::max<int64_t>(1, node.GetInt("group", 1)));
  Shape kernel = node.GetInts("kernel_shape");
  if (kernel.empty() && weight.size() > 2) kernel.assign(weight.begin() + 2, weight.end());
  return ElementsOf(output) * num_channels * ElementsOf(kernel);
}

// Returns the products of an operator that multiplies, and 0 for others. Input 0 is an activation,
// so that the profile knows its shape.
double ProductsOf(const graph::Model& graph, const graph::Node& node, const Shape& input,
                  const Shape& output) {
  const std::string& op = node.op_type();
  const bool is_known = ops::TakesMostTime(op) || IsOurProduct(node) || op == "MatMulNBits" ||
                        op == "ConvInteger" || ops::IntegerSignatureOf(node) != nullptr;
  if (!is_known || input.empty()) return 0;
  if (IsImage(node)) return input.size() > 1 ? ImageProducts(graph, node, input, output) : 0;
  if (ops::IsRecurrent(op) || op == "DynamicQuantizeLSTM") {
    // Each step multiplies its input by one weight and the state by the other.
    const double steps =
        ElementsOf(input) / static_cast<double>(std::max<int64_t>(1, input.back()));
    return steps *
           (ElementsOf(KnownShape(graph, node, 1)) + ElementsOf(KnownShape(graph, node, 2)));
  }
  const bool is_transposed = node.GetInt("transA", 0) != 0 && input.size() == 2;
  return ElementsOf(output) * static_cast<double>(is_transposed ? input.front() : input.back());
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
      ShareOf(node->second, shares) +=
          ProductsOf(graph, node->second, FirstShape(args, "input_type_shape"),
                     FirstShape(args, "output_type_shape"));
    }
  } catch (const std::exception& error) {
    Fail(ErrorCode::kRuntime, "the profile of ONNX Runtime cannot be read: {}", error.what());
  }
  return shares;
}

}  // namespace bitpress::deploy
