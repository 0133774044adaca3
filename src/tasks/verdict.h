// What a user has to know about a quantized model before anything else: its size, how close its
// outputs are, how fast it is, what computes how, and what is wrong with it.
#pragma once

#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "base/fields.h"
#include "tasks/quantize.h"

namespace bitpress::tasks {

// Something that a user of the model would want to have been told.
struct Warning {
  // What it is about, for programs: "nothing_quantized", "far", "lost_values", "poor_samples",
  // "unrepresented", "overflow", "whole_items", "slower", "larger", "left_float", "no_effect",
  // "not_run", "not_checked", "rules", "target" or "processors".
  std::string_view kind;
  std::string text;  // one line, with the one thing to do
};
constexpr auto FieldsOf(const Warning*) {
  return std::tuple(Field{"kind", &Warning::kind}, Field{"text", &Warning::text});
}

struct Verdict {
  // Three lines: size; closeness and time; the shares of products and constants. A fourth one if
  // layers are slower than in the given model.
  std::vector<std::string> lines;
  std::vector<Warning> warnings;  // the worst first
};
constexpr auto FieldsOf(const Verdict*) {
  return std::tuple(Field{"lines", &Verdict::lines}, Field{"warnings", &Verdict::warnings});
}

// Returns the verdict as text: the lines, then "  WARNING: ..." for each warning.
std::string Describe(const Verdict& verdict);

// Returns which layers take at least a tenth longer than in the given model, and a hundredth of its
// time, "slower than in the given model on this machine: 2 of 9 layers, ..."; "" if none does.
// `layers` has those first that lose most.
std::string SlowerLayers(const std::vector<deploy::LayerTime>& layers);

// Returns how many products would be faster on this machine in the fastest order of sums, which was
// not asked for.
size_t NumSlowerSums(const QuantizeReport& report);

// Returns "with 3 weights decoded, ..." for the end of a sentence that the runtime runs a model; ""
// if it runs the weights as they are.
std::string DecodedText(const deploy::TargetReport& report);

}  // namespace bitpress::tasks
