// The formats that layers may get: candidates, the sides of a layer that they are for, and how a
// choice is said to the planner. All functions are pure.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plan/quant_config.h"
#include "plan/rule.h"

namespace bitpress::search {

// What of a layer gets a candidate's format.
enum class Side { kBoth, kWeights, kActivations };
std::string_view SideName(Side side);  // "both", "weights", "activations"

// A format, or a preset: its formats with their settings.
struct Candidate {
  std::string name;          // as given
  plan::QuantConfig config;  // "float": nothing is quantized
};

// Reads "mx9,mx6,float". Throws Error(kInvalidArgument) naming the word that is no configuration,
// that learns weights, that holds rules, or that appears twice.
std::vector<Candidate> ParseCandidates(std::string_view text);

// One thing that a layer may get, and whose loss is measured.
struct Part {
  Side side = Side::kBoth;
  Candidate candidate;
};

// What is to be decided for each layer: one of several combinations of parts.
struct Space {
  // Of everything that no choice is about: general settings, and operators that are no layers.
  plan::QuantConfig base;
  std::vector<Part> parts;
  // Indices of parts that go together: {both} or {weights, activations}.
  std::vector<std::vector<size_t>> combinations;
};

// The same candidates for both sides of a layer, together; or, if `weights` or `activations` are
// not empty, each side of its own (an empty one has the candidates of `both`, or of the other).
// Without a base it is the first candidate with the most bits. Throws Error(kInvalidArgument) if
// there is no candidate.
Space MakeSpace(std::span<const Candidate> both, std::span<const Candidate> weights,
                std::span<const Candidate> activations, std::optional<plan::QuantConfig> base);

// Only this part everywhere, all else float, with the base's general settings and exclusions.
plan::QuantConfig PartConfig(const Space& space, const Part& part);

// The settings of a rule that gives a layer these parts.
std::vector<std::pair<std::string, std::string>> RuleSettings(const Space& space,
                                                              std::span<const size_t> combination);

}  // namespace bitpress::search
