// Models that stay loaded, for the workers of bitpress.distributed: each call counts a part of the
// samples and gives the bytes of its file.
#include <nanobind/nanobind.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <filesystem>
#include <optional>
#include <string>
#include <utility>

#include "arguments.h"
#include "bindings.h"
#include "calibrate/calibration_file.h"
#include "evaluate/other_processor.h"
#include "evaluate/state.h"
#include "tasks/calibrate.h"
#include "tasks/evaluate.h"
#include "work.h"

namespace bitpress::python {
namespace {

using namespace nb::literals;
using Path = std::filesystem::path;

// Opening a model takes long, so that it is work, too.
template <typename Engine, typename Options>
Engine Open(const Options& options) {
  Work work{nb::none()};
  return work.Run([&] { return Engine(options); });
}

tasks::Calibrator OpenCalibrator(const Path& model, const std::optional<plan::QuantConfig>& config,
                                 bool per_channel, bool as_is, size_t most_failures,
                                 size_t num_threads) {
  tasks::CalibrateOptions options;
  options.model = model;
  options.config = config;
  options.is_per_channel = per_channel;
  options.most_failures = most_failures;
  options.preparation = PreparationFor(as_is);
  options.num_threads = num_threads;
  return Open<tasks::Calibrator>(options);
}

tasks::Evaluator OpenEvaluator(const Path& model, const std::optional<Path>& reference,
                               const std::string& processor, const std::string& task,
                               size_t most_failures, size_t num_threads) {
  tasks::EvaluateOptions options;
  options.model = model;
  options.reference = reference.value_or(Path());
  options.most_failures = most_failures;
  options.processor = processors::ParseProcessor(processor);
  options.task = task;
  options.num_threads = num_threads;
  return Open<tasks::Evaluator>(options);
}

// Counts samples and returns the bytes of the file of what was counted.
template <typename Engine, typename ToBytes>
nb::bytes Count(Engine& engine, const SampleArguments& samples, nb::object progress,
                const ToBytes& to_bytes) {
  Work work(std::move(progress));
  const data::SampleSpec spec = samples.Spec(work);
  const ProgressSink sink = work.Sink();
  const std::string bytes = work.Run([&] { return to_bytes(engine.Count(spec, sink)); });
  return nb::bytes(bytes.data(), bytes.size());
}

nb::bytes CountStatistics(tasks::Calibrator& engine, const SampleArguments& samples,
                          nb::object progress) {
  return Count(engine, samples, std::move(progress), [](const calibrate::CalibrationResult& found) {
    return calibrate::ToBytes(found.table);
  });
}

nb::bytes CountEvaluation(tasks::Evaluator& engine, const SampleArguments& samples,
                          nb::object progress) {
  return Count(engine, samples, std::move(progress), evaluate::ToBytes);
}

}  // namespace

void BindEngines(nb::module_& module) {
  nb::class_<tasks::Calibrator>(module, "CalibrationEngine")
      .def("count", &CountStatistics, "samples"_a, "progress"_a.none())
      .def("is_current", &tasks::Calibrator::IsCurrent);
  module.def("open_calibration", &OpenCalibrator, "model"_a, "config"_a.none(), "per_channel"_a,
             "as_is"_a, "most_failures"_a, "num_threads"_a);
  nb::class_<tasks::Evaluator>(module, "EvaluationEngine")
      .def("count", &CountEvaluation, "samples"_a, "progress"_a.none())
      .def("is_current", &tasks::Evaluator::IsCurrent);
  module.def("open_evaluation", &OpenEvaluator, "model"_a, "reference"_a.none(), "processor"_a,
             "task"_a, "most_failures"_a, "num_threads"_a);
}

}  // namespace bitpress::python
