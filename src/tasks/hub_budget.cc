#include "tasks/hub_budget.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "tasks/hub.h"

namespace bitpress::tasks {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

// The files of one float model that may be chosen.
using Candidates = std::vector<const HubFile*>;

double SqnrOf(const HubFile& file) { return file.sqnr_db.value_or(kInfinite); }
// An SQNR of minus infinity stands for NaN or infinity where the float model gives numbers.
bool IsCandidate(const HubFile& file) {
  return file.why_not_compared.empty() && SqnrOf(file) > -kInfinite;
}

// The candidates of each float model, and the bytes of these models.
struct FolderCandidates {
  std::vector<Candidates> of_models;
  uint64_t float_bytes = 0;
};
FolderCandidates CandidatesOf(std::span<const HubFile> files) {
  FolderCandidates found;
  for (size_t i = 0; i < files.size(); ++i) {
    if (i == 0 || files[i].model != files[i - 1].model) {
      found.of_models.emplace_back();
      found.float_bytes += files[i].float_bytes;
    }
    if (IsCandidate(files[i])) found.of_models.back().push_back(&files[i]);
  }
  return found;
}

// Returns the smallest file that is at least so close; null: none is.
const HubFile* SmallestOf(const Candidates& candidates, double least_sqnr) {
  const HubFile* found = nullptr;
  for (const HubFile* const file : candidates) {
    if (SqnrOf(*file) < least_sqnr) continue;
    const auto rank = [](const HubFile& of) { return std::pair(of.num_bytes, -SqnrOf(of)); };
    if (found == nullptr || rank(*file) < rank(*found)) found = file;
  }
  return found;
}

// Returns the smallest files that all are at least so close; empty: a model has none.
Candidates SmallestOfAll(std::span<const Candidates> of_models, double least_sqnr) {
  Candidates chosen;
  for (const Candidates& candidates : of_models) {
    const HubFile* const file = SmallestOf(candidates, least_sqnr);
    if (file == nullptr) return {};
    chosen.push_back(file);
  }
  return chosen;
}

uint64_t BytesOf(const Candidates& files) {
  uint64_t sum = 0;
  for (const HubFile* const file : files) sum += file->num_bytes;
  return sum;
}

// Spends bytes that are left on closer files, for the one that is farthest off first.
void SpendRest(Candidates& chosen, std::span<const Candidates> of_models, double most_bytes) {
  std::vector<size_t> order(chosen.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, {}, [&](size_t i) { return SqnrOf(*chosen[i]); });
  for (const size_t i : order) {
    const double others = static_cast<double>(BytesOf(chosen) - chosen[i]->num_bytes);
    for (const HubFile* const file : of_models[i]) {
      const bool fits = others + static_cast<double>(file->num_bytes) <= most_bytes;
      if (fits && SqnrOf(*file) > SqnrOf(*chosen[i])) chosen[i] = file;
    }
  }
}

// Returns the choice within these limits; empty: none keeps them.
Candidates ChosenOf(std::span<const Candidates> of_models, double most_bytes, double least_sqnr) {
  if (std::isinf(most_bytes)) return SmallestOfAll(of_models, least_sqnr);
  std::set<double, std::greater<>> levels;  // all SQNR, the best one first
  for (const Candidates& candidates : of_models) {
    for (const HubFile* const file : candidates) levels.insert(SqnrOf(*file));
  }
  for (const double level : levels) {
    if (level < least_sqnr) break;
    Candidates found = SmallestOfAll(of_models, level);
    if (found.empty() || static_cast<double>(BytesOf(found)) > most_bytes) continue;
    SpendRest(found, of_models, most_bytes);
    return found;
  }
  return {};
}

}  // namespace

HubBudget ParseHubBudget(std::string_view text) {
  HubBudget budget{std::string(text), ParseLimits(text)};
  if (budget.limits.time) {
    Fail(ErrorCode::kInvalidArgument,
         "'{}': hub measures no times; write bytes<=60MB, bytes<=30%, loss<=1% or bytes and loss",
         text);
  }
  return budget;
}

HubChoice ChooseFiles(std::span<const HubFile> files, const HubBudget& budget) {
  const Limits& limits = budget.limits;
  HubChoice choice;
  choice.budget = budget.text;
  const auto [of_models, float_bytes] = CandidatesOf(files);
  for (const Candidates& candidates : of_models) {
    if (!candidates.empty()) continue;
    choice.why_not =
        "a model has no file that was compared and gives numbers: give samples (--data, --tokens, "
        "--text), or other dtypes";
    return choice;
  }
  const double most_bytes =
      std::min(limits.bytes.value_or(kInfinite),
               limits.byte_share.value_or(kInfinite) * static_cast<double>(float_bytes));
  const double least_sqnr = limits.loss ? -10 * std::log10(*limits.loss) : -kInfinite;
  const Candidates chosen = ChosenOf(of_models, most_bytes, least_sqnr);
  if (chosen.empty()) {
    const Candidates smallest = SmallestOfAll(of_models, -kInfinite);
    choice.why_not = fmt::format("no choice of these dtypes keeps it; the smallest takes {}",
                                 HumanBytes(BytesOf(smallest)));
    return choice;
  }
  double worst = kInfinite;
  for (const HubFile* const file : chosen) {
    choice.files.push_back(file->file);
    worst = std::min(worst, SqnrOf(*file));
  }
  choice.num_bytes = BytesOf(chosen);
  if (std::isfinite(worst)) choice.sqnr_db = worst;
  return choice;
}

}  // namespace bitpress::tasks
