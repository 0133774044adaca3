#include "interop/layer_decisions.h"

#include <algorithm>
#include <map>

#include "ops/operator_traits.h"

namespace bitpress::interop {

bool IsBias(const Decision& decision) {
  return !decision.uses.empty() &&
         std::ranges::all_of(decision.uses, [&](const plan::TensorUse& use) {
           return use.input == 2 && ops::TraitsNamed(use.op_type).is_product();
         });
}

std::vector<LayerDecision> LayersOf(const Decisions& decisions) {
  std::vector<LayerDecision> layers;
  std::map<std::string, size_t> of_node;
  for (const Decision& decision : decisions.tensors) {
    for (const plan::TensorUse& use : decision.uses) {
      const auto [at, is_new] = of_node.try_emplace(use.node, layers.size());
      if (is_new) layers.push_back({.node = use.node, .op_type = use.op_type});
      LayerDecision& layer = layers[at->second];
      const Decision*& place = !decision.is_constant ? layer.activation
                               : IsBias(decision)    ? layer.bias
                                                     : layer.weight;
      if (place == nullptr) place = &decision;
    }
  }
  return layers;
}

}  // namespace bitpress::interop
