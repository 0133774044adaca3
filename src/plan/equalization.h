// What the user wishes of the passes that scale the channels of a float model: cross-layer
// equalization (rewrite/equalize.h) and SmoothQuant (rewrite/smooth.h). Plain data.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace bitpress::plan {

struct QuantConfig;

// What becomes of a pair of layers with a Clip(0, limit) such as ReLU6 between them: its limit no
// longer is the same for all channels once these are scaled.
enum class ClipHandling {
  kBound,  // a Min with one limit a channel behind it: exact, but one more operator
  kKeep,   // the pair is left alone
};

struct EqualizeOptions {
  ClipHandling clips = ClipHandling::kBound;
  // Pairs that need such a Min are left alone where they would gain fewer bits than this, of both
  // weights together. Measured in docs/equalization.md.
  double least_clip_gain_bits = 1;
  // Rounds over all pairs; -1: until no factor changes by more than a thousandth. Quark's CLESteps.
  int64_t num_steps = -1;
  // How much of a channel's bias its range includes, 0 to 1: all of it keeps channels of small
  // weights and large biases from becoming large activations. Quark's CLEScaleAppendBias takes
  // a twentieth.
  double bias_share = 1;

  bool operator==(const EqualizeOptions&) const = default;
};

// SmoothQuant (rewrite/smooth.h): how much of an activation's range moves into the weights.
struct SmoothWish {
  std::optional<double> alpha = 0.5;  // 0 to 1; nothing: the best for each activation

  bool operator==(const SmoothWish&) const = default;
};

// Whether and how the layers of a model are equalized before it is quantized with this
// configuration. Where the user does not say: where weights are integers with one scale for a whole
// tensor, which lose most when the ranges of channels differ.
std::optional<EqualizeOptions> ResolveEqualization(const QuantConfig& config);

std::string_view ClipHandlingName(ClipHandling handling);
ClipHandling ParseClipHandling(std::string_view word);

}  // namespace bitpress::plan
