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
#include <string_view>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <variant>
#include <vector>

#include "arguments.h"
#include "base/paths.h"
#include "base/words.h"
#include "bindings.h"
#include "data/left_out.h"
#include "field_classes.h"
#include "interop/decisions.h"
#include "runtime/machine.h"
#include "tasks/calibrate.h"
#include "tasks/check.h"
#include "tasks/evaluate.h"
#include "tasks/hub.h"
#include "tasks/inspect.h"
#include "tasks/optimize.h"
#include "tasks/plan.h"
#include "tasks/quantize.h"
#include "tasks/quantize_options.h"
#include "tasks/report.h"
#include "tasks/sensitivity.h"
#include "tasks/tuning.h"
#include "tasks/unpack.h"
#include "work.h"

namespace bitpress::python {
namespace {

using namespace nb::literals;
using Path = std::filesystem::path;

// The options of quantize as Python gives them, and what becomes of the model.
struct QuantizeArguments {
  tasks::QuantizeOptions request;
  std::vector<std::pair<std::string, std::string>> plan_settings;  // of fine-tuning
};

// An option for Python's functions, their types and docstrings (python/make_functions.py).
struct ListedOption {
  std::string key, type, default_value, meaning;
  bool is_read = false;  // a file that must be there
  bool is_of_writing = false;
};

// Each type of option: what Python calls it, its default as source text, and how it is read.
struct PythonType {
  std::string type, default_value;
};
PythonType TypeOf(const Path& /*value*/) { return {"Optional[PathLike]", "None"}; }
PythonType TypeOf(const std::string& value) { return {"str", fmt::format("\"{}\"", value)}; }
PythonType TypeOf(const PassNames& /*value*/) { return {"Sequence[str]", "()"}; }
PythonType TypeOf(size_t value) { return {"int", std::to_string(value)}; }
PythonType TypeOf(bool value) { return {"bool", value ? "True" : "False"}; }
PythonType TypeOf(const Target& value) { return {"str", fmt::format("\"{}\"", value.text())}; }
PythonType TypeOf(Preparation value) { return TypeOf(value == Preparation::kAsIs); }
template <typename T>
requires std::is_enum_v<T> PythonType TypeOf(T value) {
  const std::string word(WordOf(WordsOf<T>(), value));
  const bool is_number = word.find_first_not_of("0123456789") == std::string::npos;
  return is_number ? PythonType{"int", word} : PythonType{"str", fmt::format("\"{}\"", word)};
}

void ReadOption(std::string_view /*key*/, nb::handle value, Path& field) {
  field = nb::cast<Path>(value);
}
void ReadOption(std::string_view /*key*/, nb::handle value, std::string& field) {
  field = nb::cast<std::string>(value);
}
void ReadOption(std::string_view /*key*/, nb::handle value, PassNames& field) {
  for (const nb::handle name : nb::list(value)) field.insert(nb::cast<std::string>(name));
}
void ReadOption(std::string_view key, nb::handle value, size_t& field) {
  const auto number = nb::cast<int64_t>(value);
  if (number < 0) Fail(ErrorCode::kInvalidArgument, "{}={}: expected 0 or more", key, number);
  field = static_cast<size_t>(number);
}
void ReadOption(std::string_view /*key*/, nb::handle value, bool& field) {
  field = nb::cast<bool>(value);
}
void ReadOption(std::string_view /*key*/, nb::handle value, Target& field) {
  field = PathText(nb::cast<Path>(value));
  plan::ProfileOf(field);  // throws if it is none
}
void ReadOption(std::string_view /*key*/, nb::handle value, Preparation& field) {
  field = PreparationFor(nb::cast<bool>(value));
}
template <typename T>
requires std::is_enum_v<T>
void ReadOption(std::string_view key, nb::handle value, T& field) {
  field = ParseWord<T>(WordsOf<T>(), nb::cast<std::string>(nb::str(value)), key);
}

void SetOption(QuantizeArguments& arguments, const std::string& key, nb::object value) {
  tasks::VisitOptions(arguments.request, arguments.request, [&](const auto& row, auto& field) {
    if (row.key != key) return;
    try {
      ReadOption(key, value, field);
    } catch (const std::bad_cast&) {
      const nb::object type = nb::module_::import_("bitpress._errors").attr("ArgumentTypeError");
      const auto text = nb::cast<std::string>(nb::repr(value));
      PyErr_Format(type.ptr(), "%s=%s: expected %s", key.c_str(), text.c_str(),
                   TypeOf(field).type.c_str());
      throw nb::python_error();
    }
  });
}

// Fine-tuning alone goes with a plan.
void SetPlan(QuantizeArguments& arguments, const Path& file,
             const std::vector<std::pair<std::string, std::string>>& settings) {
  for (const auto& [key, value] : settings) {
    if (plan::FindSetting(key).scope == plan::SettingScope::kFinetune) continue;
    Fail(ErrorCode::kInvalidArgument, "a plan holds the decisions already; {} cannot change them",
         key);
  }
  arguments.request.plan_file = file;
  arguments.plan_settings = settings;
}

std::vector<ListedOption> ListOptions() {
  std::vector<ListedOption> options;
  const tasks::QuantizeOptions defaults;
  tasks::VisitOptions(defaults, defaults, [&](const tasks::OptionRow& row, const auto& value) {
    const PythonType type = TypeOf(value);
    options.push_back({.key = std::string(row.key),
                       .type = type.type,
                       .default_value = type.default_value,
                       .meaning = std::string(row.meaning),
                       .is_read = row.use == tasks::OptionUse::kInput,
                       .is_of_writing = row.is_of_writing()});
  });
  return options;
}

// Returns the options of quantize, and of the tasks that do a part of its work. `arguments` must
// outlive them.
tasks::QuantizeOptions OptionsFor(const Path& model, const Path& output,
                                  const SampleArguments& samples,
                                  const QuantizeArguments& arguments, Work& work) {
  tasks::QuantizeOptions options = arguments.request;
  options.model = model;
  options.output = output;
  options.samples = samples.Spec(work);
  options.change_plan = [&arguments](plan::QuantConfig& config) {
    for (const auto& [key, value] : arguments.plan_settings) {
      plan::ApplySetting(config, key, value);
    }
  };
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
  nb::class_<ListedOption>(module, "Option")
      .def_ro("key", &ListedOption::key)
      .def_ro("type", &ListedOption::type)
      .def_ro("default", &ListedOption::default_value)
      .def_ro("meaning", &ListedOption::meaning)
      .def_ro("is_read", &ListedOption::is_read)
      .def_ro("is_of_writing", &ListedOption::is_of_writing);
  module.def("list_options", &ListOptions, "The options of quantize that are plain values.");
  nb::class_<QuantizeArguments>(module, "QuantizeArguments")
      .def(nb::init<>())
      .def("set", &SetOption, "key"_a, "value"_a)
      .def(
          "set_config",
          [](QuantizeArguments& self, const plan::QuantConfig& config) {
            self.request.config = config;
          },
          "config"_a)
      .def("set_plan", &SetPlan, "file"_a, "settings"_a);
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

// Returns the plan's JSON and what the import says.
std::pair<std::string, interop::ImportReport> MakePlanLike(const Path& file, const Path& model,
                                                           const plan::QuantConfig& config,
                                                           bool as_is) {
  Work work{nb::none()};
  return work.Run([&] {
    interop::ImportReport report;
    const plan::QuantPlan plan =
        tasks::MakePlanLike(file, model, config, report, PreparationFor(as_is));
    return std::pair(plan::ToJson(plan), report);
  });
}

// Returns the text of another tool's file, and what it cannot say. Without a plan it is that of a
// quantized model.
std::pair<std::string, std::vector<std::string>> ExportDecisions(const std::string& plan,
                                                                 const std::optional<Path>& model,
                                                                 const std::string& kind) {
  std::vector<std::string> notes;
  const auto decisions =
      model ? interop::ReadDecisions(*model) : interop::DecisionsOf(plan::FromJson(plan));
  const std::string text =
      interop::Write(decisions, ParseWord(WordsOf<interop::FileKind>(), kind, "kind"), notes);
  return {text, notes};
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
                                    const std::string& processor, const std::string& task,
                                    size_t most_failures, size_t num_threads, nb::object progress) {
  Work work(std::move(progress));
  tasks::EvaluateOptions options;
  options.task = task;
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

deploy::TargetReport Check(const Path& model, const SampleArguments& samples,
                           const std::string& target) {
  Work work{nb::none()};
  tasks::CheckOptions options;
  options.model = model;
  options.samples = samples.Spec(work);
  options.target = target;
  return work.Run([&] { return tasks::CheckTarget(options); });
}

// Writes a report and returns it as JSON text.
std::string Report(const Path& model, const Path& output, const Path& reference,
                   const SampleArguments& samples, size_t num_layer_samples,
                   const std::optional<Path>& calibration, const std::optional<Path>& plan,
                   const std::optional<Path>& search, const tasks::QuantizeReport* quantized,
                   const std::string& task, bool as_is, size_t batch_size, size_t num_threads,
                   nb::object progress) {
  Work work(std::move(progress));
  tasks::ReportOptions options;
  options.task = task;
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

tasks::HubReport Hub(const Path& folder, const Path& output, std::vector<std::string> dtypes,
                     std::string budget, const SampleArguments& samples, size_t num_threads,
                     nb::object progress) {
  Work work(std::move(progress));
  tasks::HubOptions options;
  options.folder = folder;
  options.output = output;
  options.dtypes = std::move(dtypes);
  options.budget = std::move(budget);
  options.samples = samples.Spec(work);
  options.num_threads = num_threads;
  options.progress = work.Sink();
  return work.Run([&] { return tasks::MakeHubFolder(options); });
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
  BindFields<interop::ImportReport>(module, "ImportReport",
                                    "What a plan took of another tool's decisions.");
  module.def("make_plan", &MakePlan, "model"_a, "config"_a, "as_is"_a);
  module.def("make_plan_like", &MakePlanLike, "file"_a, "model"_a, "config"_a, "as_is"_a);
  module.def("export_decisions", &ExportDecisions, "plan"_a, "model"_a.none(), "kind"_a);
  module.def("calibrate", &Calibrate, "model"_a, "output"_a, "samples"_a, "config"_a.none(),
             "per_channel"_a, "as_is"_a, "most_failures"_a, "num_threads"_a, "progress"_a.none());
  module.def("merge", &Merge, "paths"_a, "output"_a, "most_failures"_a.none() = nb::none());
  module.def("read_calibration", &ReadCalibration, "path"_a);
  module.def("read_evaluation", &ReadEvaluation, "path"_a);
  module.def("fingerprint", &Fingerprint, "model"_a);
  module.def("count_samples", &CountSamples, "model"_a, "samples"_a);
  module.def("evaluate", &Evaluate, "model"_a, "reference"_a.none(), "output"_a.none(), "samples"_a,
             "batch_size"_a, "processor"_a, "task"_a, "most_failures"_a, "num_threads"_a,
             "progress"_a.none());
  module.def("check", &Check, "model"_a, "samples"_a, "target"_a);
  module.def("report", &Report, "model"_a, "output"_a, "reference"_a, "samples"_a,
             "num_layer_samples"_a, "calibration"_a.none(), "plan"_a.none(), "search"_a.none(),
             "quantized"_a.none(), "task"_a, "as_is"_a, "batch_size"_a, "num_threads"_a,
             "progress"_a.none());
  module.def("inspect", &Inspect, "model"_a);
  module.def("unpack", &Unpack, "model"_a, "output"_a, "drop_quantizers"_a, "external_data"_a,
             "check"_a, "num_threads"_a, "progress"_a.none());
  module.def("files_left_out", &data::DescribeFilesLeftOut, "folder"_a);
  module.def("hub", &Hub, "folder"_a, "output"_a, "dtypes"_a, "budget"_a, "samples"_a,
             "num_threads"_a, "progress"_a.none());
  module.def("optimize", &Optimize, "model"_a, "output"_a, "check"_a);
}

}  // namespace bitpress::python
