// The user's settings for the passes that change a float model without changing what it computes:
// cross-layer equalization (rewrite/equalize.cc), rotations (rewrite/rotate.cc) and SmoothQuant
// (rewrite/smooth.h). Plain data.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace bitpress::plan {

struct QuantConfig;

// The handling of a pair of layers with a Clip(0, limit) such as ReLU6 between them. Its limit is
// no longer the same for all channels once these are scaled.
enum class ClipHandling {
  kBound,  // a Min with one limit a channel stands behind it: exact, but one more operator
  kKeep,   // the pair is left alone
};

// The settings of cross-layer equalization, `equalize_...`.
struct EqualizeOptions {
#define BITPRESS_EQUALIZE_SETTING(type, field, key, value, ...) type field = value;
#include "plan/settings.inc"

  bool operator==(const EqualizeOptions&) const = default;
};

// SmoothQuant (rewrite/smooth.h): how much of an activation's range moves into the weights.
struct SmoothRequest {
  // The exponent that says how much of an activation's range moves into the weights, 0 to 1.
  // Nothing: each activation gets the best.
  std::optional<double> alpha = 0.5;

  bool operator==(const SmoothRequest&) const = default;
};

// The request for a network of FLOAT16 (rewrite/narrow_network.cc).
struct HalfRequest {
  std::vector<std::string> float_nodes = {};  // regular expressions for names that keep FLOAT
  std::vector<std::string> float_op_types = {};
  // Values that left the range of FLOAT16 in samples, sorted: what gives or reads one keeps FLOAT.
  std::vector<std::string> wide_values = {};

  bool operator==(const HalfRequest&) const = default;
};

// The changes that the preparation of a model makes to its layers.
struct Rewrites {
  std::optional<EqualizeOptions> equalization = {};  // nothing: layers are not equalized
  int64_t rotation = 0;  // size of the blocks that are rotated; 0: layers are not rotated
  // A FLOAT16 network becomes one of FLOAT (graph/widen_half.h), because activations become
  // integers.
  bool widens_half = false;
  std::optional<HalfRequest> half = {};  // nothing: the network is not made FLOAT16
  // The passes of the preparation that run on request, as "fuse=all" (rewrite/passes.h).
  std::vector<std::string> passes = {};

  bool operator==(const Rewrites&) const = default;
};

// Returns what is done to the layers of a model before it is quantized with this configuration. If
// the user does not say, they are equalized where weights are integers with one scale for a whole
// tensor: these lose most when the ranges of channels differ.
Rewrites ResolveRewrites(const QuantConfig& config);

}  // namespace bitpress::plan
