// The values that hold angles of positions, as rotary and sinusoidal embeddings compute them:
// numbers that follow from integers alone, such as positions and frequencies, up to the Sin or Cos
// that reads them. Angles grow with the position, and a wave keeps what rounding takes from its
// angle, so that these values need all their digits. Pure.
#pragma once

#include <set>
#include <string>

#include "graph/model.h"

namespace bitpress::ops {

// Returns the values that operators on elements and products compute of integers and constants, and
// that lead to a Sin or Cos through such operators. Whatever follows from activations is none.
// REQUIRES: types are inferred; values of unknown type count as activations.
std::set<std::string> AnglesOfPositions(const graph::Model& model);

}  // namespace bitpress::ops
