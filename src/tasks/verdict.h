// What a user has to know about a quantized model before anything else: its size, how close its
// outputs are, how fast it is, what computes how, and what is wrong with it.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "tasks/quantize.h"

namespace bitpress::tasks {

// Something that a user of the model would want to have been told.
struct Warning {
  // What it is about, for programs: "nothing_quantized", "far", "lost_values", "poor_samples",
  // "unrepresented", "overflow", "whole_items", "slower", "larger", "left_float", "not_run",
  // "not_checked", "rules", or "processors".
  std::string_view kind;
  std::string text;  // one line, with the one thing to do
};

struct Verdict {
  // Three lines: size; closeness and time; the shares of products and constants.
  std::vector<std::string> lines;
  std::vector<Warning> warnings;  // the worst first
};

Verdict VerdictOf(const QuantizeReport& report);

// Returns the verdict as text: the three lines, then "  WARNING: ..." for each warning.
std::string Describe(const Verdict& verdict);

// Returns {"lines": [...], "warnings": [{"kind", "text"}, ...]}.
nlohmann::ordered_json ToJson(const Verdict& verdict);

}  // namespace bitpress::tasks
