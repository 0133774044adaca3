// The choice among the files of a model folder: one file for each float model, which keep a budget
// together. Plain data; all functions are pure.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "base/fields.h"
#include "tasks/auto_goals.h"

namespace bitpress::tasks {

struct HubFile;

struct HubChoice {
  std::string budget;              // as it was given
  std::vector<std::string> files;  // in the order of the float models; empty: see why_not
  uint64_t num_bytes = 0;          // of all together
  std::optional<double> sqnr_db;   // of the worst; nothing: all give the float models' outputs
  std::string why_not;
};
constexpr auto FieldsOf(const HubChoice*) {
  return std::tuple(
      Field{"budget", &HubChoice::budget, "The budget as it was given."},
      Field{"files", &HubChoice::files,
            "One for each float model; empty if no choice keeps the budget."},
      Field{"num_bytes", &HubChoice::num_bytes, "Of these files together."},
      Field{"sqnr_db", &HubChoice::sqnr_db,
            "SQNR in dB of the one that is farthest off. None if all give the outputs "
            "of the float models."},
      Field{"why_not", &HubChoice::why_not, "Why no choice keeps the budget. '' if one does."});
}

// A budget, "bytes<=60MB,loss<=1%".
struct HubBudget {
  std::string text;
  Limits limits;
};
// Reads a budget. Throws Error(kInvalidArgument) with what may be written; times are not measured.
HubBudget ParseHubBudget(std::string_view text);

// Chooses among files, which come in the order of their float models. A limit of bytes is that of
// all files together, or its share of the float models: it takes those whose worst one is closest,
// and spends the bytes that are left on closer files. A limit of the loss, the energy of the error
// as a share of that of the outputs, is that of each file; alone it takes the smallest files. Files
// that were not compared, or that lost all numbers, are not chosen.
HubChoice ChooseFiles(std::span<const HubFile> files, const HubBudget& budget);

}  // namespace bitpress::tasks
