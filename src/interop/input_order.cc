#include "interop/input_order.h"

#include <algorithm>
#include <span>

#include "base/check.h"

namespace bitpress::interop {
namespace {

using graph::Model;
using graph::Node;
using graph::Use;

// Returns the name of a constant with these numbers.
std::string OrderConstant(Model& model, const std::string& value,
                          const std::vector<int64_t>& order) {
  const auto bytes = std::as_bytes(std::span<const int64_t>(order));
  for (const std::string& name : model.InitializerNames()) {
    if (name.find("_order") == std::string::npos || model.IsDeferred(name)) continue;
    const graph::InitializerView view = model.Initializer(name);
    if (view.type == DataType::kInt64 && std::ranges::equal(view.bytes, bytes)) return name;
  }
  const std::string name = model.FreshName(value + "_order");
  model.SetInitializer(name, DataType::kInt64, std::vector{static_cast<int64_t>(order.size())},
                       bytes);
  return name;
}

// Returns what the Gather gives that puts a value into this order already, "" if there is none.
std::string OrderedBy(const Model& model, const std::string& x, const std::string& order) {
  for (const Use& use : model.AllUses(x)) {
    const Node& node = use.node;
    if (node.op_type() == "Gather" && use.input_index == 0 && node.input(1) == order) {
      return node.output(0);
    }
  }
  return "";
}

}  // namespace

std::string WhyNoInputOrder(const Model& model, const std::string& value) {
  for (const Use& use : model.AllUses(value)) {
    const Node& node = use.node;
    const bool is_product = (node.op_type() == "MatMul" || node.op_type() == "Gemm") &&
                            use.input_index == 1 && node.GetInt("transA", 0) == 0;
    if (!is_product) {
      return fmt::format("{} cannot take inputs in another order (act-order)", node.op_type());
    }
  }
  return "";
}

void OrderInputs(Model& model, const std::string& value, const std::vector<int64_t>& order) {
  BITPRESS_DCHECK(WhyNoInputOrder(model, value).empty());
  const std::string constant = OrderConstant(model, value, order);
  for (const Use& use : model.AllUses(value)) {
    Node node = use.node;
    const std::string x = node.input(0);
    std::string ordered = OrderedBy(model, x, constant);
    if (ordered.empty()) {
      ordered = model.FreshName(x + "_ordered");
      // Right behind the value it is in front of all of its readers.
      model.InsertNode({model.FreshNodeName(ordered),
                        "Gather",
                        "",
                        {x, constant},
                        {ordered},
                        {{"axis", int64_t{-1}}}},
                       model.NodeBehind(x));
      model.SetInfo(ordered, model.InfoOf(x));
    }
    node.set_input(0, ordered);
  }
}

}  // namespace bitpress::interop
