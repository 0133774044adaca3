#include "evaluate/class_scores.h"

#include <algorithm>
#include <cstdint>
#include <set>

#include "base/error.h"
#include "evaluate/metrics.h"

namespace bitpress::evaluate {
namespace {

[[noreturn]] void FailNoScores(const Output& output, const std::string& name) {
  Fail(ErrorCode::kInvalidArgument,
       "output '{}' has the shape [{}], expected [samples, classes] of floating-point scores", name,
       fmt::join(output.dims, ", "));
}

bool HasProbabilities(const Output& output, size_t num_rows) {
  for (size_t i = 0; i < num_rows; ++i) {
    if (!AreProbabilities(output.Row(i, num_rows))) return false;
  }
  return true;
}

// A softmax of numbers that differ by hundreds is the largest one alone.
bool MayBeScores(const Output& output) {
  constexpr double kMostSpread = 200;
  const auto [least, most] = std::ranges::minmax(output.values);
  return !(most - least > kMostSpread);
}

// Returns whether numbers without a dimension for samples are scores: they are probabilities, or
// they are all that the model gives, and always as many. Steps of time are more or fewer.
bool AreOfClasses(const Output& output, std::span<const runtime::ValueDescription> all) {
  if (AreProbabilities(output.values)) return true;
  constexpr int64_t kLeastClasses = 9;  // fewer are a regression
  return all.size() == 1 && all[0].dims == output.dims && output.dims[0] >= kLeastClasses &&
         MayBeScores(output);
}

}  // namespace

std::optional<size_t> FindClassOutput(std::span<const runtime::ValueDescription> descriptions,
                                      const std::vector<const Output*>& outputs, size_t batch_size,
                                      const std::string& name, bool has_labels) {
  std::set<int64_t> steps;  // numbers of columns that are no classes
  for (const Output* const output : outputs) {
    const bool is_other = output->HasClassScores(batch_size) && !MayBeScores(*output);
    if (is_other && !has_labels) steps.insert(output->dims[1]);
  }
  std::optional<size_t> first;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!name.empty() && descriptions[i].name != name) continue;
    if (outputs[i]->IsOneRow(batch_size) &&
        (!name.empty() || AreOfClasses(*outputs[i], descriptions))) {
      return i;
    }
    if (!outputs[i]->HasClassScores(batch_size)) {
      if (!name.empty()) FailNoScores(*outputs[i], name);
      continue;
    }
    // The four numbers of a box have the shape of four classes, and may come before the classes.
    if (!name.empty() || HasProbabilities(*outputs[i], batch_size)) return i;
    if (!first && !steps.contains(outputs[i]->dims[1])) first = i;
  }
  if (name.empty()) return first;
  std::vector<std::string> names;
  for (const auto& description : descriptions) names.push_back(description.name);
  Fail(ErrorCode::kInvalidArgument, "the model has no output '{}'; it has: {}", name,
       fmt::join(names, ", "));
}

void CountClasses(const Output& scores, const Output* reference, const data::Batch& batch,
                  size_t batch_size, const std::string& name, EvaluationState& state) {
  if (!scores.HasClassScores(batch_size) && !scores.IsOneRow(batch_size)) {
    FailNoScores(scores, name);
  }
  const bool is_compared = reference != nullptr && !reference->values.empty();
  for (size_t i = 0; i < batch.num_samples; ++i) {
    const auto row = scores.Row(i, batch_size);
    if (is_compared) {
      const auto wanted = reference->Row(i, batch_size);
      const auto top = TopClass(row);
      const bool agrees = top && top == TopClass(wanted);
      state.agreements.Add(agrees ? std::optional<size_t>(0) : std::nullopt);
      state.expected.Add(wanted, row);
    }
    if (batch.labels.empty()) continue;
    const int64_t label = batch.labels[i];
    if (label < 0 || label >= static_cast<int64_t>(row.size())) {
      Fail(ErrorCode::kInvalidArgument,
           "'{}' has class {}, but output '{}' has the classes 0 to {}",
           i < batch.names.size() ? batch.names[i] : "a sample", label, name, row.size() - 1);
    }
    state.ranks.Add(RankOf(row, static_cast<size_t>(label)));
    if (is_compared) {
      state.reference_ranks.Add(RankOf(reference->Row(i, batch_size), static_cast<size_t>(label)));
    }
  }
}

}  // namespace bitpress::evaluate
