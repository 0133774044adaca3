#include "ops/kv_caches.h"

#include <string_view>

namespace bitpress::ops {
namespace {

using graph::Model;
using graph::Node;

// The inputs and outputs of keys and values of an attention operator; those of values follow.
struct AttentionForm {
  std::string_view domain;
  std::string_view op_type;
  size_t past;
  size_t present;
  size_t appended;
};
constexpr AttentionForm kForms[] = {
    {"com.microsoft", "GroupQueryAttention", 3, 1, 1},
    {"com.microsoft", "MultiHeadAttention", 6, 1, 1},
    {"", "Attention", 4, 1, 1},
};

// Returns whether the node has such an input and output, and both are the model's.
bool IsCache(const Model& model, const Node& node, size_t past, size_t present) {
  return past < node.num_inputs() && present < node.num_outputs() &&
         model.IsInput(node.input(past)) && model.IsOutput(node.output(present));
}

void AddOfAttention(const Model& model, const Node& node, std::vector<KvCache>& caches) {
  for (const AttentionForm& form : kForms) {
    if (node.domain() != form.domain || node.op_type() != form.op_type) continue;
    const bool is_grouped = node.op_type() == "GroupQueryAttention";
    for (const size_t side : {size_t{0}, size_t{1}}) {
      if (!IsCache(model, node, form.past + side, form.present + side)) continue;
      const size_t appended = form.appended + side;
      const bool turns = side == 0 && node.GetInt("do_rotary", 0) != 0;
      const bool has_input = appended < node.num_inputs() && !node.input(appended).empty();
      caches.push_back({.node = node,
                        .past = form.past + side,
                        .present = form.present + side,
                        .appended = has_input && !turns ? std::optional(appended) : std::nullopt,
                        .channel_axis = -1,
                        .takes_integers = is_grouped});
    }
  }
}

void AddOfConcat(const Model& model, const Node& node, std::vector<KvCache>& caches) {
  const bool joins_two =
      node.domain().empty() && node.op_type() == "Concat" && node.num_inputs() == 2;
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
