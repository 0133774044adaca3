#include "tasks/whole_items.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "evaluate/outputs.h"
#include "graph/stored_bytes.h"
#include "ops/batch.h"
#include "runtime/session.h"

namespace bitpress::tasks {
namespace {

using evaluate::Output;

// The most bytes of constants of a model that is opened to try a sample.
constexpr uint64_t kMostTriedBytes = 500'000'000;
// Rows that run beside each other.
constexpr size_t kRows = 4;

// Returns the outputs of a run; nothing if it fails.
std::optional<std::vector<Output>> RunOnce(runtime::Session& session,
                                           const std::vector<Tensor>& inputs) {
  try {
    std::vector<Output> outputs;
    for (const Tensor& result : session.Run(inputs)) {
      outputs.push_back(evaluate::ToOutput(result));
    }
    return outputs;
  } catch (const Error&) {
    return std::nullopt;
  }
}

// Returns whether two results differ by more than rounding in batches of other sizes explains.
bool Differ(std::span<const double> a, std::span<const double> b) {
  constexpr double kShare = 0.01;
  double energy = 0, error = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    energy += a[i] * a[i];
    error += (a[i] - b[i]) * (a[i] - b[i]);
  }
  return error > kShare * energy;
}

// Returns whether an output of several rows has other values than those of the first and the last
// row alone; nothing if it does not tell.
std::optional<bool> IsOfAllRows(const Output& first, const Output& last, const Output& together) {
  if (first.values.empty() || first.dims != last.dims) return std::nullopt;
  if (first.dims == together.dims) {  // one result, whatever the number of rows
    const bool differs =
        Differ(first.values, together.values) || Differ(last.values, together.values);
    return differs ? std::optional(true) : std::nullopt;
  }
  std::vector<int64_t> dims = first.dims;
  if (dims.empty() || dims[0] != 1) return std::nullopt;
  dims[0] = kRows;
  if (dims != together.dims) return std::nullopt;
  return Differ(first.values, together.Row(0, kRows)) ||
         Differ(last.values, together.Row(kRows - 1, kRows));
}

// Pictures and other inputs of four dimensions always have one for the batch, and a model may say
// itself that its first dimension is one.
bool MayHoldOneThing(const graph::Model& model) {
  constexpr size_t kMostDims = 3;
  return std::ranges::none_of(model.InputNames(), [&](const std::string& input) {
    const graph::ValueInfo info = model.InfoOf(input);
    return info.shape.size() > kMostDims ||
           (!info.shape.empty() && ToLower(info.shape.front().symbol).starts_with("batch"));
  });
}

// Returns whether the rows give something else beside each other than alone, in every output that
// tells. Random numbers tell nothing.
bool ChangeEachOther(runtime::Session& session, const data::Batch& rows) {
  const auto first = RunOnce(session, rows.Rows(0, 1).inputs);
  const auto again = RunOnce(session, rows.Rows(0, 1).inputs);
  const auto last = RunOnce(session, rows.Rows(kRows - 1, 1).inputs);
  const auto together = RunOnce(session, rows.inputs);
  if (!first || !again || !last || !together) return false;
  bool is_found = false;
  for (size_t i = 0; i < first->size(); ++i) {
    if ((*first)[i].dims != (*again)[i].dims || Differ((*first)[i].values, (*again)[i].values)) {
      return false;
    }
    const std::optional<bool> is_of_all = IsOfAllRows((*first)[i], (*last)[i], (*together)[i]);
    if (is_of_all && !*is_of_all) return false;
    is_found |= is_of_all.has_value();
  }
  return is_found;
}

// Returns whether the names are those of rows of one item.
bool AreOfOneItem(const std::vector<std::string>& names) {
  const auto item = [](const std::string& name) { return name.substr(0, name.rfind('[')); };
  return std::ranges::all_of(names, [&](const std::string& name) {
    return name.ends_with(']') && item(name) == item(names.front());
  });
}

}  // namespace

bool RowsBelongTogether(const graph::Model& model, const RunOptions& run) {
  // A fixed number of rows a run says what belongs together.
  if (!run.samples.tokens.empty() || !run.samples.image.empty() || ops::FixedBatchOf(model) > 0 ||
      graph::MeasureParts(model).constants > kMostTriedBytes) {
    return false;
  }
  try {
    data::SampleSpec first = run.samples.First(1);
    first.shard = {};
    data::SourceOptions options = data::ToSourceOptions(first, model);
    options.num_threads = 1;
    options.kept = nullptr;  // it is not known yet how the items are read
    const std::optional<data::Batch> row = data::OpenSource(options)->Next(1);
    const bool is_row = row && row->HasRows() && row->failed.empty() && row->labels.empty() &&
                        row->names.front().ends_with(']');
    if (!is_row) return false;
    runtime::Session session = runtime::Session::FromModel(
        model, {.num_threads = 1, .optimization = runtime::Optimization::kNone});
    if (RunOnce(session, row->inputs)) {
      if (!MayHoldOneThing(model)) return false;
      options.limit = kRows;
      const std::optional<data::Batch> rows = data::OpenSource(options)->Next(kRows);
      const bool are_rows =
          rows && rows->num_samples == kRows && rows->failed.empty() && AreOfOneItem(rows->names);
      if (!are_rows || !ChangeEachOther(session, *rows)) return false;
      options.limit = 1;
    }
    options.use_whole_items = true;
    const std::optional<data::Batch> item = data::OpenSource(options)->Next(1);
    return item && item->failed.empty() && RunOnce(session, item->inputs).has_value();
  } catch (const Error&) {
    return false;
  }
}

}  // namespace bitpress::tasks
