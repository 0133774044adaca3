#include "plan/masked_values.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "ops/operator_traits.h"

namespace bitpress::plan {
namespace {

using graph::Model;
using graph::Node;

// Returns whether a number masks what it is added to.
bool IsMask(float value) {
  constexpr float kMask = -1e4F;
  return value <= kMask || std::isinf(value);
}
// Likewise of a FLOAT16, by its code. -10000 is 0xF0E2, and the codes of smaller numbers follow.
bool IsMask(uint16_t half) {
  constexpr uint16_t kMask = 0xF0E2;
  constexpr uint16_t kInfinity = 0x7C00;
  return half == kInfinity || (half >= kMask && half <= (kInfinity | 0x8000U));
}

class MaskSearch {
 public:
  explicit MaskSearch(const Model& model) : model_(model) {}

  std::set<std::string> Run() {
    // Nodes are in topological order.
    for (const Node& node : model_.AllNodes()) {
      if (node.num_outputs() > 0 && IsMasked(node)) masked_.insert(node.output(0));
    }
    return std::move(masked_);
  }

 private:
  bool IsMasked(const Node& node) const {
    const bool is_masking = ops::TraitsOf(node).Is(ops::kMasks);
    if (!is_masking && !ops::PassesElementsOn(node)) return false;
    for (size_t i = 0; i < node.num_inputs(); ++i) {
      const std::string& value = node.input(i);
      if (masked_.contains(value) || (is_masking && IsMaskConstant(value))) return true;
    }
    return false;
  }

  bool IsMaskConstant(const std::string& value) const {
    if (value.empty() || !model_.IsInitializer(value) || model_.IsDeferred(value)) return false;
    const graph::InitializerView view = model_.Initializer(value);
    const auto is_mask = [](auto x) { return IsMask(x); };
    if (view.type == DataType::kFloat) return std::ranges::any_of(view.values<float>(), is_mask);
    return view.type == DataType::kFloat16 && std::ranges::any_of(view.values<uint16_t>(), is_mask);
  }

  const Model& model_;
  std::set<std::string> masked_;
};

}  // namespace

std::set<std::string> MaskedValues(const Model& model) { return MaskSearch(model).Run(); }

}  // namespace bitpress::plan
