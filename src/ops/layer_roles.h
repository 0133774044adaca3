// The roles of layers in transformers: embeddings, the projections of attention, the layers of
// MLPs, and the head, with the number of the layer that they stand in. Rules select by them
// (`roles=attn_v layers=0-3`), and plans show them. Pure.
//
// Roles follow from the graph alone (ops/value_sources.h), so that names do not matter: models of
// torch and Optimum, of ONNX Runtime GenAI and of ONNX's own Attention get the same ones.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "graph/model.h"

namespace bitpress::ops {

enum class LayerRole {
  kEmbedding,  // a lookup of tokens, positions or types whose rows become the stream
  kAttnQ,      // the queries of an attention
  kAttnK,      // its keys
  kAttnV,      // its values
  kAttnKV,     // keys and values in one matrix
  kAttnQKV,    // all three in one matrix
  kAttnO,      // the projection behind an attention
  kMlpGate,    // the half of a gated MLP that the activation function is applied to
  kMlpUp,      // the other half, or the first layer of an MLP without a gate
  kMlpGateUp,  // both halves in one matrix
  kMlpDown,    // the last layer of an MLP
  kLmHead,     // gives a number for each word of the vocabulary
};

// Returns the words of users, such as "attn_q", in the order of help texts.
std::span<const std::pair<std::string_view, LayerRole>> LayerRoleWords();
std::string_view LayerRoleName(LayerRole role);
// Throws Error(kInvalidArgument) naming all words and the nearest.
LayerRole ParseLayerRole(std::string_view word);

// The place of a node in a transformer.
struct LayerPlace {
  LayerRole role = LayerRole::kEmbedding;
  // The number of the layer, from 0. In a model of encoder and decoder the decoder's layers follow
  // the encoder's. Each body (of an If) counts from 0. Embeddings and heads are in no layer.
  std::optional<int64_t> layer;
  // The number of the attention or MLP that it belongs to, in the whole model. A layer of a decoder
  // that reads an encoder has two attentions.
  std::optional<int64_t> block;
  bool operator==(const LayerPlace&) const = default;
};

// The nodes of a model that have roles: those that read the weight.
class LayerRoles {
 public:
  LayerRoles() = default;
  explicit LayerRoles(const graph::Model& model);

  // Returns the place of a node of that model; nothing if it has none.
  std::optional<LayerPlace> Of(const graph::Node& node) const;
  // Returns the number of the layer of a node without a role, such as an attention: the last one of
  // the nodes with a layer that its inputs come from.
  std::optional<int64_t> LayerBefore(const graph::Model& model, const graph::Node& node) const;
  // Returns whether nodes compute the value from constants alone.
  bool IsConstant(std::string_view value) const { return constants_.contains(value); }
  // Returns the places by the first outputs of the nodes.
  const std::map<std::string, LayerPlace, std::less<>>& all() const { return places_; }

 private:
  std::map<std::string, LayerPlace, std::less<>> places_;
  std::set<std::string, std::less<>> constants_;
};

}  // namespace bitpress::ops
