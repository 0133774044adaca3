#include "ops/network_kind.h"

#include <algorithm>

#include "ops/kv_caches.h"
#include "ops/layer_roles.h"
#include "ops/multiply_adds.h"
#include "ops/operator_traits.h"

namespace bitpress::ops {
namespace {

// Products by what sums them, and the roles of transformers that the layers have.
struct Work {
  double convolutions = 0, recurrences = 0, matrices = 0;
  bool has_attention = false, has_head = false;
};

bool IsOfAttention(LayerRole role) {
  switch (role) {
    case LayerRole::kAttnQ:
    case LayerRole::kAttnK:
    case LayerRole::kAttnV:
    case LayerRole::kAttnKV:
    case LayerRole::kAttnQKV:
    case LayerRole::kAttnO:
      return true;
    default:
      return false;
  }
}

Work WorkOf(const graph::Model& model) {
  Work work;
  for (const graph::Node& node : model.AllNodes()) {
    const OperatorTraits& traits = TraitsOf(node);
    // A node whose shapes are not known computes something, too.
    const double products = std::max(1.0, MultiplyAdds(node, KnownShapes(model, node)));
    switch (traits.product) {
      case Product::kConv:
      case Product::kConvTranspose:
        work.convolutions += products;
        break;
      case Product::kRecurrent:
        work.recurrences += products;
        break;
      case Product::kNone:
        break;
      default:
        work.matrices += products;
    }
    if (traits.attention != Attention::kNone) work.has_attention = true;
  }
  const LayerRoles roles(model);
  for (const auto& [value, place] : roles.all()) {
    work.has_attention = work.has_attention || IsOfAttention(place.role);
    work.has_head = work.has_head || place.role == LayerRole::kLmHead;
  }
  return work;
}

}  // namespace

NetworkKind KindOf(const graph::Model& model) {
  constexpr double kMuch = 0.15;  // of all products
  const Work work = WorkOf(model);
  const double all = work.convolutions + work.recurrences + work.matrices;
  if (work.has_head && !FindKvCaches(model).empty()) return NetworkKind::kDecoder;
  const bool has_convolutions = work.convolutions > kMuch * all;
  // A recurrent operator computes step after step: few products of it take long.
  const bool has_recurrences = work.recurrences > 0;
  const bool has_attention = work.has_attention && work.matrices > kMuch * all;
  if (has_convolutions + has_recurrences + has_attention > 1) return NetworkKind::kMixed;
  if (has_attention) return work.has_head ? NetworkKind::kDecoder : NetworkKind::kEncoder;
  if (has_recurrences) return NetworkKind::kRecurrent;
  return has_convolutions ? NetworkKind::kConvolutional : NetworkKind::kTabular;
}

}  // namespace bitpress::ops
