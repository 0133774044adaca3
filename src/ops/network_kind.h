// The kind of a network: which operators compute most of its products. `auto` chooses by it what to
// try. Pure.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>

#include "base/words.h"
#include "graph/model.h"

namespace bitpress::ops {

enum class NetworkKind : uint8_t {
  kConvolutional,
  kEncoder,    // a transformer that reads a whole sequence
  kDecoder,    // a transformer that predicts the next token
  kRecurrent,  // LSTM, GRU or RNN
  kTabular,    // products of rows of numbers only, or none
  kMixed,      // two or more of convolutions, attention and recurrence have much to compute
};
inline constexpr std::array<std::pair<std::string_view, NetworkKind>, 6> kNetworkKindWords{
    {{"convolutional", NetworkKind::kConvolutional},
     {"transformer encoder", NetworkKind::kEncoder},
     {"transformer decoder", NetworkKind::kDecoder},
     {"recurrent", NetworkKind::kRecurrent},
     {"tabular", NetworkKind::kTabular},
     {"mixed", NetworkKind::kMixed}}};
constexpr Words<NetworkKind> FieldWords(const NetworkKind*) { return kNetworkKindWords; }

// Returns the kind of a network. REQUIRES: its shapes were inferred as far as they can be.
NetworkKind KindOf(const graph::Model& model);

}  // namespace bitpress::ops
