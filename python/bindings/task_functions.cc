// The functions of src/tasks/ for Python. Arguments are copied into the options of the tasks.
#include <nanobind/nanobind.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "arguments.h"
#include "base/words.h"
#include "bindings.h"
#include "runtime/machine.h"
#include "tasks/calibrate.h"
#include "tasks/check.h"
#include "tasks/evaluate.h"
#include "tasks/inspect.h"
#include "tasks/optimize.h"
#include "tasks/plan.h"
#include "tasks/quantize.h"
#include "tasks/report.h"
#include "tasks/sensitivity.h"
#include "tasks/tuning.h"
#include "tasks/unpack.h"
#include "work.h"

namespace bitpress::python {
namespace {

using namespace nb::literals;
using Path = std::filesystem::path;

struct QuantizeArguments {
  std::optional<plan::QuantConfig> config;
  Path plan_file;
  std::vector<std::pair<std::string, std::string>> plan_settings;  // of fine-tuning
  Path calibration;
  Path kv_scales;
  Path save_kv_scales;
  std::string storage, target, form;
  int accuracy_level = 4;
  bool portable = true;
  bool external_data = false;
  bool check = true;
  bool as_is = false;
  size_t num_threads = 0;
};

// Returns the options of quantize, and of the tasks that do a part of its work. `arguments` must
// outlive them.
tasks::QuantizeOptions OptionsFor(const Path& model, const Path& output,
                                  const SampleArguments& samples,
                                  const QuantizeArguments& arguments, Work& work) {
  tasks::QuantizeOptions options;
  options.model = model;
  options.output = output;
  options.samples = samples.Spec(work);
  if (arguments.config) options.config = *arguments.config;
  options.plan_file = arguments.plan_file;
  options.change_plan = [&arguments](plan::QuantConfig& config) {
    for (const auto& [key, value] : arguments.plan_settings) {
      plan::ApplySetting(config, key, value);
    }
  };
  options.calibration = arguments.calibration;
  options.cache_scales = arguments.kv_scales;
  options.cache_scales_output = arguments.save_kv_scales;
  options.preparation = PreparationFor(arguments.as_is);
  options.apply.storage =
      ParseWord<emit::Storage>(emit::kStorageWords, arguments.storage, "storage");
  options.apply.target = ParseWord<emit::Target>(emit::kTargetWords, arguments.target, "target");
  options.apply.form =
      ParseWord<emit::IntegerForm>(emit::kIntegerFormWords, arguments.form, "form");
  options.apply.accuracy_level = ParseWord<emit::AccuracyLevel>(
      emit::kAccuracyLevelWords, std::to_string(arguments.accuracy_level), "accuracy_level");
  options.apply.is_portable = arguments.portable;
  if (arguments.external_data) options.external_data = graph::ExternalData::kAlways;
  options.is_checked = arguments.check;
  options.num_threads = arguments.num_threads;
  options.progress = work.Sink();
  return options;
}

tasks::QuantizeReport Quantize(const Path& model, const Path& output,
                               const SampleArguments& samples, const QuantizeArguments& arguments,
                               nb::object progress) {
  Work work(std::move(progress));
  const tasks::QuantizeOptions options = OptionsFor(model, output, samples, arguments, work);
  return work.Run([&] { return tasks::Quantize(options); });
}

tasks::MomentsSummary Moments(const Path& model, const Path& output, const SampleArguments& samples,
                              const QuantizeArguments& arguments, nb::object progress) {
  Work work(std::move(progress));
  const tasks::QuantizeOptions options = OptionsFor(model, output, samples, arguments, work);
  return work.Run([&] {
    tasks::GatherMoments(options);
    return tasks::ReadMoments(output);
  });
}

tasks::TuneReport Tune(const Path& model, const Path& moments, const Path& output,
                       const std::string& layers, const SampleArguments& samples,
                       const QuantizeArguments& arguments, nb::object progress) {
  Work work(std::move(progress));
  const tasks::QuantizeOptions options = OptionsFor(model, output, samples, arguments, work);
  return work.Run([&] {
    return tasks::TuneLayers(options, moments,
                             layers.empty() ? data::Shard() : data::ParseShard(layers));
  });
}

void BindQuantize(nb::module_& module) {
  nb::class_<QuantizeArguments>(module, "QuantizeArguments")
      .def(nb::init<>())
      .def_rw("config", &QuantizeArguments::config, nb::arg().none())
      .def_rw("plan_file", &QuantizeArguments::plan_file)
      .def_rw("plan_settings", &QuantizeArguments::plan_settings)
      .def_rw("calibration", &QuantizeArguments::calibration)
      .def_rw("kv_scales", &QuantizeArguments::kv_scales)
      .def_rw("save_kv_scales", &QuantizeArguments::save_kv_scales)
      .def_rw("storage", &QuantizeArguments::storage)
      .def_rw("target", &QuantizeArguments::target)
      .def_rw("form", &QuantizeArguments::form)
      .def_rw("accuracy_level", &QuantizeArguments::accuracy_level)
      .def_rw("portable", &QuantizeArguments::portable)
      .def_rw("external_data", &QuantizeArguments::external_data)
      .def_rw("check", &QuantizeArguments::check)
      .def_rw("as_is", &QuantizeArguments::as_is)
      .def_rw("num_threads", &QuantizeArguments::num_threads);
  module.def("quantize", &Quantize, "model"_a, "output"_a, "samples"_a, "arguments"_a,
             "progress"_a.none());
  module.def("moments", &Moments, "model"_a, "output"_a, "samples"_a, "arguments"_a,
             "progress"_a.none());
  module.def("tune", &Tune, "model"_a, "moments"_a, "output"_a, "layers"_a, "samples"_a,
             "arguments"_a, "progress"_a.none());
}

std::string MakePlan(const Path& model, const plan::QuantConfig& config, bool as_is) {
  Work work{nb::none()};
  return work.Run(
      [&] { return plan::ToJson(tasks::MakePlan(model, config, PreparationFor(as_is))); });
}

calibrate::CalibrationTable Calibrate(const Path& model, const Path& output,
                                      const SampleArguments& samples,
                                      const std::optional<plan::QuantConfig>& config,
                                      bool per_channel, bool as_is, size_t most_failures,
                                      size_t num_threads, nb::object progress) {
  Work work(std::move(progress));
  tasks::CalibrateOptions options;
  options.model = model;
  options.output = output;
  options.samples = samples.Spec(work);
  options.config = config;
  options.is_per_channel = per_channel;
  options.most_failures = most_failures;
  options.preparation = PreparationFor(as_is);
  options.num_threads = num_threads;
  options.progress = work.Sink();
  return work.Run([&] { return tasks::Calibrate(options).result.table; });
}

using MergedFiles = std::variant<calibrate::CalibrationTable, evaluate::EvaluationReport,
                                 tasks::MomentsSummary, size_t>;

MergedFiles Merge(const std::vector<Path>& paths, const Path& output,
                  std::optional<size_t> most_failures) {
  const size_t most = most_failures.value_or(tasks::kAnyNumber);
  Work work{nb::none()};
  return work.Run([&]() -> MergedFiles {
    if (!paths.empty() && tasks::IsEvaluation(paths[0])) {
      return evaluate::ReportOf(tasks::MergeEvaluations(paths, output, most));
    }
    if (!paths.empty() && tasks::IsMoments(paths[0])) return tasks::MergeMoments(paths, output);
    if (!paths.empty() && tasks::IsLearned(paths[0])) return tasks::MergeLearned(paths, output);
    if (!paths.empty() && tasks::IsSensitivityJournal(paths[0])) {
      return tasks::MergeSensitivities(paths, output);
    }
    return tasks::MergeCalibrations(paths, output, most);
  });
}

calibrate::CalibrationTable ReadCalibration(const Path& path) {
  return tasks::ReadCalibration(path);
}

evaluate::EvaluationReport ReadEvaluation(const Path& path) {
  return evaluate::ReportOf(tasks::ReadEvaluation(path));
}

// Returns a number for the content of a model, external data included.
uint64_t Fingerprint(const Path& model) {
  Work work{nb::none()};
  return work.Run([&] { return runtime::LoadToRun(model).Fingerprint(); });
}

size_t CountSamples(const Path& model, const SampleArguments& samples) {
  Work work{nb::none()};
  return work.Run([&] {
    tasks::RunOptions options;
    options.samples = samples.Spec(work);
    return tasks::OpenSamples(runtime::LoadToRun(model), options)->num_samples();
  });
}

evaluate::EvaluationReport Evaluate(const Path& model, const std::optional<Path>& reference,
                                    const std::optional<Path>& output,
                                    const SampleArguments& samples, size_t batch_size,
                                    const std::string& processor, size_t most_failures,
                                    size_t num_threads, nb::object progress) {
  Work work(std::move(progress));
  tasks::EvaluateOptions options;
  options.processor = processors::ParseProcessor(processor);
  options.model = model;
  options.reference = reference.value_or(Path());
  options.output = output.value_or(Path());
  options.samples = samples.Spec(work);
  options.batch_size = batch_size;
  options.most_failures = most_failures;
  options.num_threads = num_threads;
  options.progress = work.Sink();
  return work.Run([&] { return tasks::Evaluate(options); });
}

deploy::TargetReport Check(const Path& model, const SampleArguments& samples) {
  Work work{nb::none()};
  tasks::CheckOptions options;
  options.model = model;
  options.samples = samples.Spec(work);
  return work.Run([&] { return tasks::CheckTarget(options); });
}

// Writes a report and returns it as JSON text.
std::string Report(const Path& model, const Path& output, const Path& reference,
                   const SampleArguments& samples, size_t num_layer_samples,
                   const std::optional<Path>& calibration, const std::optional<Path>& plan,
                   const std::optional<Path>& search, const tasks::QuantizeReport* quantized,
                   bool as_is, size_t batch_size, size_t num_threads, nb::object progress) {
  Work work(std::move(progress));
  tasks::ReportOptions options;
  options.quantized = quantized;
  options.model = model;
  options.output = output;
  options.reference = reference;
  options.samples = samples.Spec(work);
  options.num_layer_samples = num_layer_samples;
  options.calibration = calibration.value_or(Path());
  options.plan_file = plan.value_or(Path());
  options.search = search.value_or(Path());
  options.preparation = PreparationFor(as_is);
  options.batch_size = batch_size;
  options.num_threads = num_threads;
  options.progress = work.Sink();
  return work.Run([&] {
    return report::ToJson(tasks::WriteReport(options))
        .dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  });
}

tasks::InspectReport Inspect(const Path& model) {
  Work work{nb::none()};
  return work.Run([&] { return tasks::Inspect(model); });
}

tasks::UnpackReport Unpack(const Path& model, const Path& output, bool drop_quantizers,
                           bool external_data, bool check, size_t num_threads,
                           nb::object progress) {
  Work work(std::move(progress));
  const tasks::UnpackOptions options{.model = model,
                                     .output = output,
                                     .drop_quantizers = drop_quantizers,
                                     .external_data = external_data
                                                          ? graph::ExternalData::kAlways
                                                          : graph::ExternalData::kIfNeeded,
                                     .is_checked = check,
                                     .num_threads = num_threads,
                                     .progress = work.Sink()};
  return work.Run([&] { return tasks::Unpack(options); });
}

tasks::OptimizeReport Optimize(const Path& model, const Path& output, bool check) {
  Work work{nb::none()};
  return work.Run([&] {
    return tasks::OptimizeForMachine({.model = model, .output = output, .is_checked = check});
  });
}

}  // namespace

void BindWork(nb::module_& module) {
  nb::class_<SampleArguments>(module, "SampleArguments")
      .def(
          "__init__",
          // The defaults are not of type Path: Python would give an empty path back as ".".
          [](SampleArguments* self, std::optional<Path> folder, std::optional<Path> labels_csv,
             std::string image, std::optional<Path> tokens, size_t num_tokens,
             std::vector<int64_t> prefix, std::vector<int64_t> suffix, nb::object stream,
             size_t num_samples, std::string shard,
             std::optional<std::pair<size_t, size_t>> part_of, bool whole_items) {
            new (self) SampleArguments{folder.value_or(Path()),
                                       labels_csv.value_or(Path()),
                                       std::move(image),
                                       tokens.value_or(Path()),
                                       num_tokens,
                                       std::move(prefix),
                                       std::move(suffix),
                                       std::move(stream),
                                       num_samples,
                                       std::move(shard),
                                       part_of,
                                       whole_items};
          },
          "folder"_a.none() = nb::none(), "labels_csv"_a.none() = nb::none(), "image"_a = "",
          "tokens"_a.none() = nb::none(), "num_tokens"_a = 0, "prefix"_a = std::vector<int64_t>(),
          "suffix"_a = std::vector<int64_t>(), "stream"_a.none() = nb::none(), "num_samples"_a = 0,
          "shard"_a = "", "part_of"_a.none() = nb::none(), "whole_items"_a = false);
  BindQuantize(module);
  module.def("make_plan", &MakePlan, "model"_a, "config"_a, "as_is"_a);
  module.def("calibrate", &Calibrate, "model"_a, "output"_a, "samples"_a, "config"_a.none(),
             "per_channel"_a, "as_is"_a, "most_failures"_a, "num_threads"_a, "progress"_a.none());
  module.def("merge", &Merge, "paths"_a, "output"_a, "most_failures"_a.none() = nb::none());
  module.def("read_calibration", &ReadCalibration, "path"_a);
  module.def("read_evaluation", &ReadEvaluation, "path"_a);
  module.def("fingerprint", &Fingerprint, "model"_a);
  module.def("count_samples", &CountSamples, "model"_a, "samples"_a);
  module.def("evaluate", &Evaluate, "model"_a, "reference"_a.none(), "output"_a.none(), "samples"_a,
             "batch_size"_a, "processor"_a, "most_failures"_a, "num_threads"_a,
             "progress"_a.none());
  module.def("check", &Check, "model"_a, "samples"_a);
  module.def("report", &Report, "model"_a, "output"_a, "reference"_a, "samples"_a,
             "num_layer_samples"_a, "calibration"_a.none(), "plan"_a.none(), "search"_a.none(),
             "quantized"_a.none(), "as_is"_a, "batch_size"_a, "num_threads"_a, "progress"_a.none());
  module.def("inspect", &Inspect, "model"_a);
  module.def("unpack", &Unpack, "model"_a, "output"_a, "drop_quantizers"_a, "external_data"_a,
             "check"_a, "num_threads"_a, "progress"_a.none());
  module.def("optimize", &Optimize, "model"_a, "output"_a, "check"_a);
}

}  // namespace bitpress::python
