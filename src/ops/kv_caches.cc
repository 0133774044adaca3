#include "ops/kv_caches.h"

#include "ops/operator_traits.h"

namespace bitpress::ops {
namespace {

using graph::Model;
using graph::Node;

// Returns whether the node has such an input and output, and both are the model's.
bool IsCache(const Model& model, const Node& node, size_t past, size_t present) {
  return past < node.num_inputs() && present < node.num_outputs() &&
         model.IsInput(node.input(past)) && model.IsOutput(node.output(present));
}

void AddOfAttention(const Model& model, const Node& node, std::vector<KvCache>& caches) {
  const CacheSlots& slots = TraitsOf(node).cache;
  if (slots.past < 0) return;
  for (const size_t side : {size_t{0}, size_t{1}}) {
    const size_t past = static_cast<size_t>(slots.past) + side;
    const size_t present = static_cast<size_t>(slots.present) + side;
    const size_t appended = static_cast<size_t>(slots.appended) + side;
    if (!IsCache(model, node, past, present)) continue;
    const bool turns = side == 0 && node.GetInt("do_rotary", 0) != 0;
    const bool has_input = appended < node.num_inputs() && !node.input(appended).empty();
    caches.push_back({.node = node,
                      .past = past,
                      .present = present,
                      .appended = has_input && !turns ? std::optional(appended) : std::nullopt,
                      .channel_axis = -1,
                      .takes_integers = slots.takes_codes});
  }
}

void AddOfConcat(const Model& model, const Node& node, std::vector<KvCache>& caches) {
  const bool joins_two = TraitsOf(node).on_integers == OnIntegers::kJoins && node.num_inputs() == 2;
  if (!joins_two || !IsCache(model, node, 0, 0)) return;
  // Keys and values of heads have three axes at least: samples or heads, positions, channels.
  const auto rank = static_cast<int64_t>(model.InfoOf(node.input(0)).shape.size());
  if (rank < 3) return;
  const int64_t axis = node.GetInt("axis", 0);
  const bool joins_last = axis == -1 || axis == rank - 1;
  caches.push_back({.node = node,
                    .past = 0,
                    .present = 0,
                    .appended = 1,
                    .channel_axis = joins_last ? -2 : -1,
                    .takes_integers = false});
}

}  // namespace

std::vector<KvCache> FindKvCaches(const Model& model) {
  std::vector<KvCache> caches;
  for (const Node& node : model.Nodes()) {
    AddOfAttention(model, node, caches);
    AddOfConcat(model, node, caches);
  }
  return caches;
}

}  // namespace bitpress::ops
