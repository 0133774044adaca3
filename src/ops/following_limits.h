// A Relu or Clip that follows an operator and may be computed with it. Pure.
#pragma once

#include <limits>
#include <optional>
#include <string>

#include "graph/model.h"

namespace bitpress::ops {

// A node that limits a value and that alone reads it.
struct FollowingLimits {
  graph::Node node;
  float least = -std::numeric_limits<float>::infinity();
  float largest = std::numeric_limits<float>::infinity();
};

// Returns the Relu, or the Clip with constant limits, that alone reads a value; nothing if there is
// none.
std::optional<FollowingLimits> LimitsBehind(const graph::Model& model, const std::string& value);

}  // namespace bitpress::ops
