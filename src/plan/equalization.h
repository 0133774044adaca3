// The user's settings for the passes that change a float model without changing what it computes:
// cross-layer equalization (rewrite/equalize.cc), rotations (rewrite/rotate.cc) and SmoothQuant
// (rewrite/smooth.h). Plain data.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace bitpress::plan {

struct QuantConfig;

// The handling of a pair of layers with a Clip(0, limit) such as ReLU6 between them. Its limit is
// no longer the same for all channels once these are scaled.
enum class ClipHandling {
  kBound,  // a Min with one limit a channel stands behind it: exact, but one more operator
  kKeep,   // the pair is left alone
};

// The settings of cross-layer equalization.
struct EqualizeOptions {
  ClipHandling clips = ClipHandling::kBound;
  // The least gain, in bits of both weights together, for which a pair gets such a Min. Pairs that
  // would gain less are left alone. The default was measured (docs/equalization.md).
  double least_clip_gain_bits = 1;
  // The number of rounds over all pairs; -1: until no factor changes by more than a thousandth.
  // AMD Quark calls it CLESteps.
  int64_t num_steps = -1;
  // The share of a channel's bias that its range includes, 0 to 1. A share of 1 keeps channels of
  // small weights and large biases from becoming large activations. AMD Quark's CLEScaleAppendBias
  // takes a twentieth.
  double bias_share = 1;

  bool operator==(const EqualizeOptions&) const = default;
};

// SmoothQuant (rewrite/smooth.h): how much of an activation's range moves into the weights.
struct SmoothWish {
  // The exponent that says how much of an activation's range moves into the weights, 0 to 1.
  // Nothing: each activation gets the best.
  std::optional<double> alpha = 0.5;

  bool operator==(const SmoothWish&) const = default;
};

// The wish for a network of FLOAT16 (rewrite/narrow_network.cc).
struct HalfWish {
  std::vector<std::string> float_nodes = {};  // regular expressions for names that keep FLOAT
  std::vector<std::string> float_op_types = {};

  bool operator==(const HalfWish&) const = default;
};

// The changes that the preparation of a model makes to its layers.
struct Rewrites {
  std::optional<EqualizeOptions> equalization = {};  // nothing: layers are not equalized
  int64_t rotation = 0;  // size of the blocks that are rotated; 0: layers are not rotated
  // A FLOAT16 network becomes one of FLOAT (graph/widen_half.h), because activations become
  // integers.
  bool widens_half = false;
  std::optional<HalfWish> half = {};  // nothing: the network is not made FLOAT16
  // The passes of the preparation that run on request, as "fuse=all" (rewrite/passes.h).
  std::vector<std::string> passes = {};

  bool operator==(const Rewrites&) const = default;
};

// Returns what is done to the layers of a model before it is quantized with this configuration. If
// the user does not say, they are equalized where weights are integers with one scale for a whole
// tensor: these lose most when the ranges of channels differ.
Rewrites ResolveRewrites(const QuantConfig& config);

// Returns the word for a handling, and reads it back. The parser throws Error(kInvalidArgument)
// with the allowed words.
std::string_view ClipHandlingName(ClipHandling handling);
ClipHandling ParseClipHandling(std::string_view word);

}  // namespace bitpress::plan
