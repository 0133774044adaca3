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
  std::string budget;              // in words
  std::vector<std::string> files;  // in the order of the float models; empty: see why_not
  uint64_t num_bytes = 0;          // of all together
  std::optional<double> sqnr_db;   // of the worst; infinite: all are the float models
  std::string why_not;
};
constexpr auto FieldsOf(const HubChoice*) {
  return std::tuple(
      Field{"budget", &HubChoice::budget, "The budget in words."},
      Field{"files", &HubChoice::files,
            "One for each float model; empty if no choice keeps the budget."},
      Field{"num_bytes", &HubChoice::num_bytes, "Of these files together."},
      Field{"sqnr_db", &HubChoice::sqnr_db,
            "SQNR in dB of the one that is farthest off. None if all are float."},
      Field{"why_not", &HubChoice::why_not, "Why no choice keeps the budget. '' if one does."});
}

// Reads "bytes<=60MB,loss<=1%". Throws Error(kInvalidArgument) with what may be written; times are
// not measured.
Limits ParseHubBudget(std::string_view text);

// Chooses among files, which come in the order of their float models. A limit of bytes is that of
// all files together, or its share of the float models, and takes those whose worst one is closest.
// A limit of the loss, the energy of the error as a share of that of the outputs, is that of each
// file; alone it takes the smallest files. Files that were not compared are not chosen.
HubChoice ChooseFiles(std::span<const HubFile> files, const Limits& limits);

}  // namespace bitpress::tasks
