#include "tasks/write_model.h"

#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/messages.h"
#include "base/paths.h"
#include "base/text.h"
#include "deploy/check_process.h"
#include "graph/staged_model.h"
#include "tasks/check.h"
#include "tasks/compared_runs.h"

namespace bitpress::tasks {
namespace {

using deploy::CheckOutcome;
using deploy::TargetReport;

// Returns the first samples. The model is right even if nothing can be read: samples that nothing
// else needed. It is checked with a made-up sample then.
std::vector<std::vector<Tensor>> SamplesOrNone(const graph::Model& model,
                                               const WriteModelOptions& options) {
  try {
    return FirstSamples(model, options.samples, kMostToCompare,
                        [&](const std::vector<Tensor>& first) {
                          return SamplesToCompare(model, options.num_products, first);
                        });
  } catch (const Error&) {
    return {};
  }
}

// Returns what a report says against the model, and that it says something different from the
// report about the given model; "" if nothing.
std::string Objection(const TargetReport& report, const TargetReport* given) {
  const auto differs = [&](bool is_right_there) { return given == nullptr || is_right_there; };
  if (!report.crash.empty()) return fmt::format("it crashes ONNX Runtime: {}", report.error);
  if (!report.is_loaded && differs(given != nullptr && given->is_loaded)) {
    return fmt::format("it does not load in {}: {}", report.runtime, report.error);
  }
  if (report.is_loaded && !report.is_run && differs(given != nullptr && given->is_run)) {
    return fmt::format("it loads in {} and does not run: {}", report.runtime, report.error);
  }
  if (!report.checker_error.empty() && differs(given != nullptr && given->checker_error.empty())) {
    return report.checker_error;
  }
  return "";
}

// Checks the staged file. Throws Error(kRuntime).
void Check(const graph::StagedModel& staged, std::vector<std::vector<Tensor>> samples,
           bool are_made_up, const WriteModelOptions& options, WrittenModel& written) {
  deploy::CheckRequest request{.model = staged.path(),
                               .num_bytes = staged.num_bytes(),
                               .samples = std::move(samples),
                               .are_made_up = are_made_up,
                               .given = options.given,
                               .wanted_db = options.wanted_db,
                               .is_described = staged.num_bytes() <= kMostDescribedBytes};
  CheckOutcome outcome = deploy::CheckInSubprocess(request);
  if (!outcome.report) {
    written.why_not_checked = outcome.why_not;
    return;
  }
  for (std::string* text : {&outcome.report->error, &outcome.report->checker_error}) {
    // The name that the file has for now is replaced.
    *text = Replaced(std::move(*text), PathText(staged.path()), PathText(options.output));
  }
  if (!Objection(*outcome.report, nullptr).empty()) {
    request.model = options.given;
    request.given.clear();
    request.is_described = false;
    const CheckOutcome given = deploy::CheckInSubprocess(request);
    const std::string objection =
        Objection(*outcome.report, given.report ? &*given.report : nullptr);
    if (!objection.empty()) {
      Fail(ErrorCode::kRuntime,
           "'{}' was not written, because the check refused it ({} can switch the check off): {}",
           PathText(options.output), OptionName("check"), objection);
    }
  }
  written.target = std::move(outcome.report);
}

}  // namespace

WrittenModel WriteModel(graph::Model model, const WriteModelOptions& options) {
  model.Check();
  WrittenModel written;
  std::vector<std::vector<Tensor>> samples;
  if (options.is_checked) samples = SamplesOrNone(model, options);
  const bool are_made_up = samples.empty();
  if (options.is_checked && are_made_up) samples = MadeUpTokens(model);
  graph::StagedModel staged(model, options.output, options.external_data);
  { const graph::Model gone = std::move(model); }
  written.num_bytes = staged.num_bytes();
  if (options.is_checked) {
    if (options.progress) options.progress("check", 0, 1);
    try {
      Check(staged, std::move(samples), are_made_up, options, written);
    } catch (const Error& error) {
      // The disk failed, not the model: there is no place for temporary files.
      if (error.code() != ErrorCode::kIo) throw;
      written.why_not_checked = error.what();
    }
    if (options.progress) options.progress("check", 1, 1);
  }
  if (options.is_kept) staged.Commit();
  return written;
}

}  // namespace bitpress::tasks
