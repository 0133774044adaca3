// Sensitivity, search, auto and autotune. Their reports go to Python as JSON.
#include <nanobind/nanobind.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "arguments.h"
#include "base/paths.h"
#include "base/words.h"
#include "bindings.h"
#include "plan/target_profile.h"
#include "rewrite/prepare.h"
#include "tasks/auto.h"
#include "tasks/metric.h"
#include "tasks/search.h"
#include "tasks/sensitivity.h"
#include "work.h"

namespace bitpress::python {
namespace {

using namespace nb::literals;
using Path = std::filesystem::path;

// The arguments that sensitivity and search share.
struct SpaceArguments {
  std::string candidates, weight_candidates, activation_candidates;
  std::optional<plan::QuantConfig> base;
  std::vector<std::pair<std::string, std::string>> settings;
  std::vector<std::string> rules;
  std::vector<search::Settings> variants;
  std::vector<std::string> layer_types, layer_names, kept_layers;
  std::optional<size_t> output_index;
  std::string method = "fast";
  size_t num_sensitivity_samples = 0;  // 0: the default
  bool as_is = false;
  size_t num_threads = 0;

  void CopyTo(tasks::SpaceOptions& options) const {
    options.candidates = candidates;
    options.weight_candidates = weight_candidates;
    options.activation_candidates = activation_candidates;
    options.base = base;
    options.change_base = [this](plan::QuantConfig& config) {
      config = Changed(std::move(config), settings, rules);
    };
    options.variants = variants;
    options.selection = {layer_types, layer_names, kept_layers};
    options.output_index = output_index;
    options.preparation = as_is ? rewrite::Preparation::kAsIs : rewrite::Preparation::kOptimize;
    options.method = search::ParseMethod(method);
    options.num_sensitivity_samples = num_sensitivity_samples;
    options.num_threads = num_threads;
  }
};

// Returns a function for the library that calls `metric` with the interpreter's lock, or an empty
// one for None. `metric` must outlive it.
tasks::ModelMetric MetricOf(const nb::object& metric, Work& work) {
  if (metric.is_none()) return {};
  const nb::handle borrowed = metric;
  return [borrowed, &work](const Path& model) {
    return work.WithPython([&] { return nb::cast<double>(nb::float_(borrowed(PathText(model)))); });
  };
}

std::string MeasureSensitivity(const Path& model, const Path& output,
                               const SampleArguments& samples, const SpaceArguments& space,
                               bool measures_time, const std::string& shard, nb::object progress) {
  Work work(std::move(progress));
  tasks::SensitivityOptions options;
  if (!shard.empty()) options.layers = data::ParseShard(shard);
  options.model = model;
  options.output = output;
  options.samples = samples.Spec(work);
  space.CopyTo(options);
  options.measures_time = measures_time;
  options.progress = work.Sink();
  return work.Run([&] { return ToJson(tasks::MeasureSensitivity(options)).dump(); });
}

struct GoalArguments {
  std::optional<std::string> target, budget, cost;
  std::string strategy = "optimal";
  std::string task = "auto";
  std::string bind = "none";
  size_t num_measured = 0;

  void CopyTo(tasks::SearchOptions& options) const {
    if (target) options.goals.target = search::ParseTarget(*target);
    if (budget) options.goals.budget = search::ParseBudget(*budget);
    if (cost) options.cost = search::ParseCostKind(*cost);
    options.goals.strategy =
        ParseWord<search::Strategy>(search::kStrategyWords, strategy, "strategy");
    options.bindings = search::ParseBindings(bind);
    options.goals.num_measured = num_measured;
  }
};

std::string Search(const Path& model, const Path& output, const std::optional<Path>& picture,
                   const SampleArguments& samples, const SpaceArguments& space,
                   const GoalArguments& goals, const nb::object& metric, size_t batch_size,
                   nb::object progress) {
  Work work(std::move(progress));
  tasks::SearchOptions options;
  options.task = goals.task;
  options.model = model;
  options.output = output;
  options.picture = picture.value_or(Path());
  options.samples = samples.Spec(work);
  space.CopyTo(options);
  goals.CopyTo(options);
  options.metric = MetricOf(metric, work);
  options.batch_size = batch_size;
  options.progress = work.Sink();
  return work.Run([&] { return ToJson(tasks::Search(options)).dump(); });
}

// The arguments of auto and autotune besides the samples.
struct AutoArguments {
  std::string want = "balanced";
  std::optional<std::string> budget;
  std::vector<plan::QuantConfig> configs;
  double tolerable_loss = 0.01;
  size_t max_trials = 0;  // 0: all
  std::optional<Path> page;
  std::string task = "auto";
  std::string target = "auto";
  bool check = true, as_is = false;
  size_t batch_size = 1, num_threads = 0;

  void CopyTo(tasks::AutoOptions& options) const {
    options.want = ParseWord<tasks::Want>(tasks::kWantWords, want, "want");
    if (budget) options.limits = tasks::ParseLimits(*budget);
    for (const plan::QuantConfig& config : configs) {
      options.candidates.push_back({config.name, config});
    }
    options.task = task;
    options.tolerable_loss = tolerable_loss;
    if (max_trials > 0) options.max_trials = max_trials;
    options.page = page.value_or(Path());
    options.target = target;
    options.is_checked = check;
    options.preparation = as_is ? rewrite::Preparation::kAsIs : rewrite::Preparation::kOptimize;
    options.batch_size = batch_size;
    options.num_threads = num_threads;
  }
};

std::string Auto(const Path& model, const Path& output, const SampleArguments& samples,
                 const SampleArguments& validation, const AutoArguments& arguments,
                 const nb::object& metric, nb::object progress) {
  Work work(std::move(progress));
  tasks::AutoOptions options;
  options.model = model;
  options.output = output;
  options.samples = samples.Spec(work);
  options.validation = validation.Spec(work);
  options.validation.image = samples.image;
  arguments.CopyTo(options);
  options.metric = MetricOf(metric, work);
  options.progress = work.Sink();
  return work.Run([&] { return ToJson(tasks::Auto(options)).dump(); });
}

}  // namespace

void BindSearch(nb::module_& module) {
  nb::class_<SpaceArguments>(module, "SpaceArguments")
      .def(nb::init<>())
      .def_rw("candidates", &SpaceArguments::candidates)
      .def_rw("weight_candidates", &SpaceArguments::weight_candidates)
      .def_rw("activation_candidates", &SpaceArguments::activation_candidates)
      .def_rw("base", &SpaceArguments::base, nb::arg().none())
      .def_rw("settings", &SpaceArguments::settings)
      .def_rw("rules", &SpaceArguments::rules)
      .def_rw("variants", &SpaceArguments::variants)
      .def_rw("layer_types", &SpaceArguments::layer_types)
      .def_rw("layer_names", &SpaceArguments::layer_names)
      .def_rw("kept_layers", &SpaceArguments::kept_layers)
      .def_rw("output_index", &SpaceArguments::output_index, nb::arg().none())
      .def_rw("method", &SpaceArguments::method)
      .def_rw("num_sensitivity_samples", &SpaceArguments::num_sensitivity_samples)
      .def_rw("as_is", &SpaceArguments::as_is)
      .def_rw("num_threads", &SpaceArguments::num_threads);
  nb::class_<GoalArguments>(module, "GoalArguments")
      .def(nb::init<>())
      .def_rw("target", &GoalArguments::target, nb::arg().none())
      .def_rw("budget", &GoalArguments::budget, nb::arg().none())
      .def_rw("cost", &GoalArguments::cost, nb::arg().none())
      .def_rw("strategy", &GoalArguments::strategy)
      .def_rw("task", &GoalArguments::task)
      .def_rw("bind", &GoalArguments::bind)
      .def_rw("num_measured", &GoalArguments::num_measured);
  module.def("measure_sensitivity", &MeasureSensitivity, "model"_a, "output"_a, "samples"_a,
             "space"_a, "measures_time"_a, "shard"_a, "progress"_a.none());
  module.def("search", &Search, "model"_a, "output"_a, "picture"_a.none(), "samples"_a, "space"_a,
             "goals"_a, "metric"_a.none(), "batch_size"_a, "progress"_a.none());
  nb::class_<AutoArguments>(module, "AutoArguments")
      .def(nb::init<>())
      .def_rw("want", &AutoArguments::want)
      .def_rw("budget", &AutoArguments::budget, nb::arg().none())
      .def_rw("configs", &AutoArguments::configs)
      .def_rw("tolerable_loss", &AutoArguments::tolerable_loss)
      .def_rw("max_trials", &AutoArguments::max_trials)
      .def_rw("page", &AutoArguments::page, nb::arg().none())
      .def_rw("task", &AutoArguments::task)
      .def_rw("target", &AutoArguments::target)
      .def_rw("check", &AutoArguments::check)
      .def_rw("as_is", &AutoArguments::as_is)
      .def_rw("batch_size", &AutoArguments::batch_size)
      .def_rw("num_threads", &AutoArguments::num_threads);
  module.def("auto", &Auto, "model"_a, "output"_a, "samples"_a, "validation"_a, "arguments"_a,
             "metric"_a.none(), "progress"_a.none());
}

}  // namespace bitpress::python
