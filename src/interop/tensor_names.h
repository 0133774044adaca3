// The places of weights in a decoder, and the names that files and models give them: those of
// Hugging Face's checkpoints and of what is exported from them, and those of llama.cpp. Pure.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ops/layer_roles.h"

namespace bitpress::interop {

// The place of a tensor in a decoder.
struct TensorPlace {
  std::optional<int64_t> layer;  // nothing: it is in none, as embeddings are
  std::string part;              // the word of Hugging Face's checkpoints, such as "q_proj"
  bool is_bias = false;
  auto operator<=>(const TensorPlace&) const = default;
};
// Returns it for messages: "q_proj of layer 3".
std::string Describe(const TensorPlace& place);

// Returns the place that a name tells: of a tensor in a checkpoint, or of an initializer or node in
// an exported model ("model.layers.3.self_attn.q_proj.weight",
// "/model/layers.3/attn/q_proj/MatMul"). Nothing: it tells none.
std::optional<TensorPlace> PlaceOfName(std::string_view name);

// Returns the place that a name of llama.cpp tells ("blk.3.attn_q.weight"). `has_post_norms`: the
// file has norms behind attention and feed-forward, so that ffn_norm is that before the latter.
std::optional<TensorPlace> PlaceOfGgufName(std::string_view name, bool has_post_norms);

// Returns the place of the weight that a node with a role reads. Nothing: no file has such a part.
std::optional<TensorPlace> PlaceOfRole(const ops::LayerPlace& role);

// Returns the places of the parts that a fused matrix joins, first rows first; the place itself
// alone if it is none.
std::vector<TensorPlace> PartsOf(const TensorPlace& place);

}  // namespace bitpress::interop
