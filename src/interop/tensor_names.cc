#include "interop/tensor_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

namespace bitpress::interop {
namespace {

using ops::LayerRole;

constexpr auto kParts = std::to_array<std::string_view>(
    {"q_proj", "k_proj", "v_proj", "qkv_proj", "o_proj", "gate_proj", "up_proj", "gate_up_proj",
     "down_proj", "embed_tokens", "lm_head", "q_norm", "k_norm", "input_layernorm",
     "post_attention_layernorm", "pre_feedforward_layernorm", "post_feedforward_layernorm", "norm",
     "final_norm_layernorm"});

constexpr auto kGgufParts = std::to_array<std::pair<std::string_view, std::string_view>>(
    {{"token_embd", "embed_tokens"},
     {"output", "lm_head"},
     {"output_norm", "norm"},
     {"attn_norm", "input_layernorm"},
     {"attn_q", "q_proj"},
     {"attn_k", "k_proj"},
     {"attn_v", "v_proj"},
     {"attn_qkv", "qkv_proj"},
     {"attn_output", "o_proj"},
     {"attn_q_norm", "q_norm"},
     {"attn_k_norm", "k_norm"},
     {"ffn_gate", "gate_proj"},
     {"ffn_up", "up_proj"},
     {"ffn_down", "down_proj"},
     {"post_attention_norm", "post_attention_layernorm"},
     {"post_ffw_norm", "post_feedforward_layernorm"}});

constexpr auto kRoleParts =
    std::to_array<std::pair<LayerRole, std::string_view>>({{LayerRole::kEmbedding, "embed_tokens"},
                                                           {LayerRole::kAttnQ, "q_proj"},
                                                           {LayerRole::kAttnK, "k_proj"},
                                                           {LayerRole::kAttnV, "v_proj"},
                                                           {LayerRole::kAttnQKV, "qkv_proj"},
                                                           {LayerRole::kAttnO, "o_proj"},
                                                           {LayerRole::kMlpGate, "gate_proj"},
                                                           {LayerRole::kMlpUp, "up_proj"},
                                                           {LayerRole::kMlpGateUp, "gate_up_proj"},
                                                           {LayerRole::kMlpDown, "down_proj"},
                                                           {LayerRole::kLmHead, "lm_head"}});

std::vector<std::string_view> Split(std::string_view name) {
  std::vector<std::string_view> words;
  while (true) {
    const size_t end = name.find_first_of("./");
    if (end != 0) words.push_back(name.substr(0, end));
    if (end == std::string_view::npos) return words;
    name.remove_prefix(end + 1);
  }
}

std::optional<int64_t> NumberOf(std::string_view word) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  if (error != std::errc() || end != word.data() + word.size() || number < 0) return std::nullopt;
  return number;
}

}  // namespace

std::string Describe(const TensorPlace& place) {
  std::string text = place.part;
  if (place.is_bias) text += "'s bias";
  if (place.layer) text += fmt::format(" of layer {}", *place.layer);
  return text;
}

std::optional<TensorPlace> PlaceOfName(std::string_view name) {
  const std::vector<std::string_view> words = Split(name);
  TensorPlace place;
  for (size_t i = 0; i < words.size(); ++i) {
    // Other networks beside the decoder have layers of the same names.
    for (const std::string_view other : {"vision", "visual", "audio"}) {
      if (words[i].starts_with(other)) return std::nullopt;
    }
    if (!place.layer && i > 0 && words[i - 1] == "layers") place.layer = NumberOf(words[i]);
    if (place.part.empty() && std::ranges::find(kParts, words[i]) != kParts.end()) {
      place.part = words[i];
    }
  }
  if (place.part.empty()) return std::nullopt;
  if (place.part == "final_norm_layernorm") {  // GenAI's builder counts it as one more layer
    place.part = "norm";
    place.layer.reset();
  }
  place.is_bias = words.back() == "bias";
  return place;
}

std::optional<TensorPlace> PlaceOfGgufName(std::string_view name, bool has_post_norms) {
  std::vector<std::string_view> words = Split(name);
  TensorPlace place;
  if (words.size() == 4 && words[0] == "blk") {
    place.layer = NumberOf(words[1]);
    if (!place.layer) return std::nullopt;
    words.erase(words.begin(), words.begin() + 2);
  }
  if (words.size() != 2 || (words[1] != "weight" && words[1] != "bias")) return std::nullopt;
  place.is_bias = words[1] == "bias";
  if (words[0] == "ffn_norm") {
    place.part = has_post_norms ? "pre_feedforward_layernorm" : "post_attention_layernorm";
    return place;
  }
  const auto* const found =
      std::ranges::find(kGgufParts, words[0], &decltype(kGgufParts)::value_type::first);
  if (found == kGgufParts.end()) return std::nullopt;
  place.part = found->second;
  return place;
}

std::optional<TensorPlace> PlaceOfRole(const ops::LayerPlace& role) {
  const auto* const found =
      std::ranges::find(kRoleParts, role.role, &decltype(kRoleParts)::value_type::first);
  if (found == kRoleParts.end()) return std::nullopt;
  return TensorPlace{role.layer, std::string(found->second), false};
}

std::vector<TensorPlace> PartsOf(const TensorPlace& place) {
  std::vector<std::string> parts = {place.part};
  if (place.part == "qkv_proj") parts = {"q_proj", "k_proj", "v_proj"};
  if (place.part == "gate_up_proj") parts = {"gate_proj", "up_proj"};
  std::vector<TensorPlace> places;
  for (std::string& part : parts) places.push_back({place.layer, std::move(part), place.is_bias});
  return places;
}

}  // namespace bitpress::interop
