// The space of a search: the formats that layers may get (candidates), and the sides of a layer
// that they are for. Sensitivity and search measure its parts, and tell the planner a choice by the
// rules made here. All functions are pure.
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

// The side of a layer that gets a candidate's format.
enum class Side { kBoth, kWeights, kActivations };
std::string_view SideName(Side side);  // "both", "weights", "activations"

// Settings by key, such as "activations" -> "int8".
using Settings = std::vector<std::pair<std::string, std::string>>;

// A format, or a preset with its formats and their settings, or a variant of the base.
struct Candidate {
  std::string name;          // the name as the user gave it
  plan::QuantConfig config;  // the configuration; that of "float" quantizes nothing
  // The settings that a variant changes in the base, and no others. Null: it is no variant, and
  // brings all settings of its configuration along.
  std::optional<Settings> changes = std::nullopt;
};

// Reads "mx9,mx6,float". Throws Error(kInvalidArgument) naming the word that is no configuration,
// that learns weights, that holds rules, or that appears twice.
std::vector<Candidate> ParseCandidates(std::string_view text);

// Reads "activations=int8, weights=int4". Throws Error(kInvalidArgument) naming a word that is no
// assignment.
Settings ParseSettings(std::string_view text);

// A candidate for a side of a layer. Its loss is measured.
struct Part {
  Side side = Side::kBoth;
  Candidate candidate;
};

// The choices for each layer: one of several combinations of parts.
struct Space {
  // The configuration of everything that no choice is about: general settings, and operators that
  // are no layers.
  plan::QuantConfig base;
  std::vector<Part> parts;
  // Indices of parts that go together: {both} or {weights, activations}.
  std::vector<std::vector<size_t>> combinations;
  // The parts are variants of the base, and the first combination leaves a layer as the base has
  // it.
  bool has_variants = false;
};

// Returns the space of these candidates. Both sides of a layer get a candidate of `both` together.
// If `weights` or `activations` are not empty, each side is chosen for itself; an empty list then
// has the candidates of `both`, or of the other side. If `base` is not given, it is the first
// candidate with the most bits. Throws Error(kInvalidArgument) if there is no candidate.
Space MakeSpace(std::span<const Candidate> both, std::span<const Candidate> weights,
                std::span<const Candidate> activations, std::optional<plan::QuantConfig> base);

// Returns the space in which a layer is as the base has it, or has one of these changes on both
// sides. A change keeps every setting of the base that it does not name. Throws
// Error(kInvalidArgument) for a change that no rule can make.
Space MakeVariantSpace(plan::QuantConfig base, std::span<const Settings> changes);

// Returns the configuration with this part everywhere and all else float. General settings and
// exclusions are those of the base. A variant has the rules of the base too.
plan::QuantConfig PartConfig(const Space& space, const Part& part);

// Returns the settings of a rule that gives a layer these parts. Empty: it needs no rule.
Settings RuleSettings(const Space& space, std::span<const size_t> combination);

// Adds the rule that makes a choice for layers. It counts more than the configuration's rules for
// nodes, and less than those for single tensors.
void AddChoice(plan::QuantConfig& config, plan::Rule rule);

}  // namespace bitpress::search
