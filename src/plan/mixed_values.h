// The values that a Concat makes of scores and of other numbers, as heads of detectors put scores
// beside boxes in pixels. In a block of both, the scores become zeros. Pure.
#pragma once

#include <set>
#include <string>

#include "graph/model.h"

namespace bitpress::plan {

// Returns what such a Concat gives, and what operators that only move elements make of it. Scores
// are what Sigmoid, HardSigmoid and Softmax give: numbers from 0 to 1.
std::set<std::string> MixedValues(const graph::Model& model);

}  // namespace bitpress::plan
