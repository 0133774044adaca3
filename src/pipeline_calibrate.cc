// Calibration from start to end.
#include <set>
#include <utility>

#include "base/atomic_file.h"
#include "base/error.h"
#include "calibrate/calibration_file.h"
#include "data/source.h"
#include "pipeline.h"
#include "plan/make_plan.h"

namespace bitpress::pipeline {
namespace {

// The activations that a configuration quantizes, in graph order.
std::vector<std::string> QuantizedActivations(const graph::Model& model,
                                              const plan::QuantConfig& config) {
  std::vector<std::string> values;
  std::set<std::string> seen;
  for (const plan::TensorPlan& row : plan::MakePlan(config, model, "").tensors) {
    const bool is_watched = row.role == plan::Role::kActivation && row.is_quantized();
    if (is_watched && seen.insert(row.value).second) values.push_back(row.value);
  }
  if (values.empty()) {
    Fail(ErrorCode::kInvalidArgument,
         "there is nothing to calibrate: configuration '{}' quantizes no activation of this model",
         config.name);
  }
  return values;
}

}  // namespace

CalibrateReport Calibrate(const CalibrateOptions& options) {
  // Before any work: a file that cannot be written would cost all of it.
  AtomicFile file(options.output);
  const graph::Model model = Prepare(options.model, options.preparation);
  data::SourceOptions source;
  source.folder = options.data;
  source.labels_csv = options.labels_csv;
  if (!options.image.empty()) source.image = data::ParseImageSpec(options.image);
  source.input_names = model.InputNames();
  source.limit = options.num_samples;
  source.num_threads = options.num_threads;
  source.read_ahead = true;

  calibrate::CalibrateOptions calibration;
  calibration.batch_size = options.batch_size;
  calibration.num_threads = options.num_threads;
  calibration.progress = options.progress;
  CalibrateReport report;
  WithContext(fmt::format("'{}'", options.model.string()), [&] {
    const std::vector<std::string> values = options.config
                                                ? QuantizedActivations(model, *options.config)
                                                : calibrate::FloatActivations(model);
    if (values.empty()) {
      Fail(ErrorCode::kInvalidArgument, "the model has no float activation to calibrate");
    }
    report.result = calibrate::Calibrate(model, options.model.filename().string(), values,
                                         *data::OpenSource(source), calibration);
  });
  const std::string bytes = calibrate::ToBytes(report.result.table);
  file.Write(bytes);
  file.Commit();
  report.output_bytes = bytes.size();
  return report;
}

calibrate::CalibrationTable ReadCalibration(const std::filesystem::path& path) {
  return calibrate::LoadCalibration(path);
}

bool IsCalibration(const std::filesystem::path& path) { return calibrate::IsCalibrationFile(path); }

calibrate::CalibrationTable MergeCalibrations(std::span<const std::filesystem::path> paths,
                                              const std::filesystem::path& output) {
  if (paths.empty()) Fail(ErrorCode::kInvalidArgument, "there are no calibration files to merge");
  AtomicFile file(output);
  calibrate::CalibrationTable sum = calibrate::LoadCalibration(paths[0]);
  for (const std::filesystem::path& path : paths.subspan(1)) {
    const calibrate::CalibrationTable part = calibrate::LoadCalibration(path);
    WithContext(fmt::format("'{}' and '{}'", paths[0].string(), path.string()),
                [&] { sum.Merge(part); });
  }
  file.Write(calibrate::ToBytes(sum));
  file.Commit();
  return sum;
}

}  // namespace bitpress::pipeline
