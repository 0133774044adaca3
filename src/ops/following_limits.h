// The limits of a Relu or Clip, and one that follows an operator and may be computed with it. Pure.
#pragma once

#include <limits>
#include <optional>
#include <string>

#include "graph/model.h"

namespace bitpress::ops {

struct Limits {
  float least = -std::numeric_limits<float>::infinity();
  float largest = std::numeric_limits<float>::infinity();
};

// Returns the limits of a Relu or Clip. Returns nothing for other operators, and if a limit is no
// constant or the lower one is above the upper one.
std::optional<Limits> LimitsOf(const graph::Model& model, const graph::Node& node);

// A node that limits a value and that alone reads it.
struct FollowingLimits : Limits {
  graph::Node node;
};

// Returns the Relu, or the Clip with constant limits, that alone reads a value; nothing if there is
// none.
std::optional<FollowingLimits> LimitsBehind(const graph::Model& model, const std::string& value);

}  // namespace bitpress::ops
