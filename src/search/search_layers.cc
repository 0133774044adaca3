#include "search/search_layers.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string_view>

#include "base/error.h"
#include "ops/operator_traits.h"
#include "plan/node_rules.h"

namespace bitpress::search {
namespace {

// Returns the keys of the nodes that a rule selects, if it has words.
std::set<std::string> NodesOf(plan::Rule rule, std::string_view option, const graph::Model& model) {
  std::set<std::string> keys;
  if (rule.names.empty() && rule.op_types.empty()) return keys;
  rule.exclude = true;
  const plan::NodeIndex index(model);
  WithContext(option, [&] {
    plan::QuantConfig config;
    config.rules.push_back(rule);
    const plan::NodeRules rules(config, model);
    for (const graph::Node& node : model.AllNodes()) {
      if (!rules.For(node).excluded.empty()) keys.insert(index.KeyOf(node));
    }
  });
  return keys;
}

}  // namespace

SearchLayers FindSearchLayers(const graph::Model& model,
                              const std::vector<plan::ResolvedPlan>& parts,
                              const LayerSelection& selection) {
  SearchLayers layers;
  const plan::NodeIndex index(model);
  const std::set<std::string> typed =
      NodesOf({.op_types = selection.op_types, .is_optional = true}, "layer_types", model);
  const std::set<std::string> named = NodesOf({.names = selection.names}, "layer_names", model);
  const std::set<std::string> kept = NodesOf({.names = selection.kept_names}, "kept_layers", model);
  const auto is_selected = [&](const SearchLayer& layer) {
    return (selection.op_types.empty() || typed.contains(layer.node)) &&
           (selection.names.empty() || named.contains(layer.node)) && !kept.contains(layer.node);
  };
  for (const graph::Node& node : model.AllNodes()) {
    if (!ops::TraitsOf(node).multiplies()) continue;
    if (const auto owner = model.Owner(node)) {
      layers.left_out.emplace_back(index.KeyOf(node), fmt::format("it stands in a body of {} '{}'",
                                                                  owner->op_type(), owner->name()));
      continue;
    }
    SearchLayer layer{index.KeyOf(node), node.op_type(), {}};
    if (!is_selected(layer)) {
      layers.left_out.emplace_back(layer.node, "it is not selected");
      continue;
    }
    bool has_any = false;
    for (const plan::ResolvedPlan& part : parts) {
      const bool is_there =
          std::ranges::any_of(part.plan.tensors, [&](const plan::TensorPlan& row) {
            return row.is_quantized() &&
                   std::ranges::any_of(row.uses, [&](const plan::TensorUse& use) {
                     return use.node == layer.node && use.op_type == layer.op_type;
                   });
          });
      layer.has_part.push_back(is_there);
      has_any = has_any || is_there;
    }
    if (!has_any) {
      layers.left_out.emplace_back(layer.node, "no candidate quantizes anything of it");
    } else if (!node.name().empty() && node.name() != layer.node) {
      layers.left_out.emplace_back(
          layer.node, "its name is that of another node too, which no rule can tell apart");
    } else {
      layers.found.push_back(std::move(layer));
    }
  }
  return layers;
}

}  // namespace bitpress::search
