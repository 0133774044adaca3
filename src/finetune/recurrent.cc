#include "finetune/recurrent.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "plan/quant_plan.h"

namespace bitpress::finetune {
namespace {

using graph::Model;
using graph::Node;

// Appends nodes to the graph or body that contains a node.
class Chain {
 public:
  Chain(Model& model, const Node& beside) : model_(model), beside_(beside) {}

  std::string Add(const std::string& op_type, std::vector<std::string> inputs,
                  const std::string& output,
                  std::vector<std::pair<std::string, graph::Attribute>> attributes = {}) {
    const std::string fresh = model_.FreshName(output);
    model_.InsertNode({fresh, op_type, "", std::move(inputs), {fresh}, std::move(attributes)},
                      std::nullopt, beside_);
    return fresh;
  }

  std::string Reshape(const std::string& value, const std::vector<int64_t>& shape,
                      const std::string& output) {
    const std::string name = model_.FreshName(output + "_shape");
    const auto count = static_cast<int64_t>(shape.size());
    model_.SetInitializer(name, DataType::kInt64, std::vector<int64_t>{count},
                          std::as_bytes(std::span<const int64_t>(shape)));
    return Add("Reshape", {value, name}, output);
  }

  // Reorders [time, directions, batch, features] to [time, batch, directions * features].
  void JoinDirections(const std::string& value, const std::string& output) {
    const std::string moved =
        Add("Transpose", {value}, output + "_moved", {{"perm", std::vector<int64_t>{0, 2, 1, 3}}});
    Reshape(moved, {0, 0, -1}, output);
  }

 private:
  Model& model_;
  Node beside_;
};

void AddProduct(Model& model, const LinearLayer& layer, const Reading& reading, Node node) {
  BITPRESS_DCHECK(node.GetInt("layout", 0) == 0);
  Chain chain(model, node);
  if (layer.recurrent == RecurrentWeight::kInputs) {
    const std::string rows =
        chain.Reshape(layer.weight, {layer.rows, layer.columns}, reading.output + "_rows");
    const std::string columns = chain.Add("Transpose", {rows}, reading.output + "_columns",
                                          {{"perm", std::vector<int64_t>{1, 0}}});
    chain.Add("MatMul", {node.input(0), columns}, reading.output);
    return;
  }
  if (node.output(0).empty()) node.set_output(0, model.FreshName(reading.states + "_given"));
  const std::string& states = node.output(0);
  chain.JoinDirections(states, reading.states);
  const std::string columns = chain.Add("Transpose", {layer.weight}, reading.output + "_columns",
                                        {{"perm", std::vector<int64_t>{0, 2, 1}}});
  const std::string product = chain.Add("MatMul", {states, columns}, reading.output + "_apart");
  chain.JoinDirections(product, reading.output);
}

}  // namespace

void AddProducts(Model& model, std::span<const LinearLayer> layers) {
  const plan::NodeIndex index(model);
  for (const LinearLayer& layer : layers) {
    if (layer.recurrent == RecurrentWeight::kNone) continue;
    for (const Reading& reading : layer.readings) {
      AddProduct(model, layer, reading, index.Find({reading.node, layer.op_type, 0}));
    }
  }
}

}  // namespace bitpress::finetune
