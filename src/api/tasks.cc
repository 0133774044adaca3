// The public functions: each puts its options into the words of a task and calls it.
#include <cmath>
#include <nlohmann/json.hpp>

#include "api/convert.h"
#include "base/atomic_file.h"
#include "bitpress/bitpress.h"
#include "evaluate/evaluate.h"
#include "runtime/ort_library.h"
#include "tasks/auto.h"
#include "tasks/calibrate.h"
#include "tasks/evaluate.h"
#include "tasks/plan.h"
#include "tasks/quantize.h"

namespace bitpress {
namespace {

QuantizeResult ToResult(const tasks::QuantizeReport& report) {
  QuantizeResult result;
  result.input_bytes = report.input_bytes;
  result.output_bytes = report.output_bytes;
  for (const plan::TensorPlan& row : report.plan.tensors) {
    const std::string format = row.is_quantized() ? row.format : "float";
    ++result.formats[std::string(plan::RoleName(row.role))][format];
    if (!row.is_quantized()) result.left_float.emplace_back(row.value, row.reason);
  }
  for (const auto& [value, reason] : report.left_float) {
    result.left_float.emplace_back(value, reason);
  }
  for (const auto& weight : report.transform.weights) {
    const bool is_less = !result.least_accurate || weight->sqnr_db < result.least_accurate->second;
    if (std::isfinite(weight->sqnr_db) && is_less) {
      result.least_accurate.emplace(weight->value, weight->sqnr_db);
    }
  }
  result.why_not_checked = report.why_not_checked;
  return result;
}

}  // namespace

QuantizeResult Quantize(const QuantizeOptions& options) {
  return api::AtEntryPoint([&] {
    tasks::QuantizeOptions request;
    request.model = options.model;
    request.output = options.output;
    request.plan_file = options.plan;
    if (options.plan.empty()) {
      Configuration configuration = options.configuration;
      if (configuration.name.empty() && !options.weights_from.empty()) configuration.name = "none";
      request.config = api::ToConfig(configuration);
    } else if (!options.configuration.name.empty()) {
      Fail(ErrorCode::kInvalidArgument,
           "QuantizeOptions has a plan and a configuration; the plan holds the decisions already");
    }
    static_cast<QuantizeChoices&>(request) = options;
    request.samples = api::ToSpec(options.samples);
    request.num_threads = options.num_threads;
    request.progress = options.progress;
    return ToResult(tasks::Quantize(request));
  });
}

void MakePlan(const std::filesystem::path& model, const Configuration& configuration,
              const std::filesystem::path& output) {
  api::AtEntryPoint([&] {
    const plan::QuantConfig config = api::ToConfig(configuration);
    CheckWritable(output);
    WriteFile(output, plan::ToJson(tasks::MakePlan(model, config)));
  });
}

uint64_t Calibrate(const CalibrateOptions& options) {
  return api::AtEntryPoint([&] {
    tasks::CalibrateOptions request;
    request.model = options.model;
    request.output = options.output;
    if (options.configuration) request.config = api::ToConfig(*options.configuration);
    request.samples = api::ToSpec(options.samples);
    request.num_threads = options.num_threads;
    request.progress = options.progress;
    return tasks::Calibrate(request).result.table.num_samples;
  });
}

uint64_t MergeCalibrations(const std::vector<std::filesystem::path>& files,
                           const std::filesystem::path& output) {
  return api::AtEntryPoint([&] { return tasks::MergeCalibrations(files, output).num_samples; });
}

EvaluateResult Evaluate(const EvaluateOptions& options) {
  return api::AtEntryPoint([&] {
    tasks::EvaluateOptions request;
    request.model = options.model;
    request.reference = options.reference;
    request.samples = api::ToSpec(options.samples);
    request.batch_size = options.batch_size;
    request.task = options.task;
    request.num_threads = options.num_threads;
    request.progress = options.progress;
    const evaluate::EvaluationReport report = tasks::Evaluate(request);
    EvaluateResult result;
    result.num_samples = report.num_samples;
    result.top1 = report.top1;
    result.top5 = report.top5;
    result.agreement = report.agreement;
    if (report.sqnr_db && std::isfinite(*report.sqnr_db)) result.sqnr_db = report.sqnr_db;
    result.cosine = report.cosine;
    result.has_identical_outputs = report.outputs_identical;
    if (report.language) result.perplexity = report.language->perplexity;
    result.time_ratio = report.time_ratio;
    result.file_bytes = report.file_bytes;
    result.json = evaluate::ToJson(report).dump();
    return result;
  });
}

AutoResult ChooseAutomatically(const AutoOptions& options) {
  return api::AtEntryPoint([&] {
    tasks::AutoOptions request;
    request.model = options.model;
    request.output = options.output;
    request.page = options.page;
    request.samples = api::ToSpec(options.samples);
    if (options.samples.limit == 0) request.samples.limit = tasks::AutoOptions().samples.limit;
    request.want = ParseWord<tasks::Want>(tasks::kWantWords, options.want, "want");
    if (!options.budget.empty()) request.limits = tasks::ParseLimits(options.budget);
    request.task = options.task;
    request.batch_size = 1;
    request.num_threads = options.num_threads;
    request.progress = options.progress;
    const tasks::AutoReport report = tasks::Auto(request);
    const tasks::AutoTrial& chosen = report.trials[report.chosen];
    return AutoResult{chosen.config,     report.is_tolerable, chosen.loss,
                      chosen.time_ratio, chosen.file_bytes,   tasks::ToJson(report).dump()};
  });
}

void UseOnnxRuntime(const std::filesystem::path& library) { runtime::SetOrtLibraryPath(library); }

std::string OnnxRuntimeVersion() { return runtime::OrtVersion(); }

std::filesystem::path OperatorLibraryPath() { return runtime::FindOperatorLibrary(); }

void UseOperatorLibrary(const std::filesystem::path& library) {
  runtime::UseOperatorLibrary(library);
}

}  // namespace bitpress
