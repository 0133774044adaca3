#include "tasks/calibrate.h"

#include <fmt/format.h>
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/paths.h"
#include "calibrate/calibration_file.h"
#include "calibrate/resolve_caches.h"
#include "calibrate/resolve_params.h"
#include "ops/compute_ops.h"
#include "ops/kv_caches.h"
#include "plan/make_plan.h"
#include "rewrite/prepare.h"
#include "rewrite/smooth.h"
#include "tasks/merge_files.h"
#include "tasks/passes.h"
#include "tasks/plan.h"

namespace bitpress::tasks {
namespace {

// Returns the activations and caches that a configuration quantizes, in graph order.
std::vector<std::string> QuantizedActivations(const plan::QuantPlan& plan) {
  std::vector<std::string> values;
  std::set<std::string> seen;
  for (const plan::TensorPlan& row : plan.tensors) {
    const bool is_watched = row.role == plan::Role::kActivation && row.is_quantized();
    if (is_watched && seen.insert(row.value).second) values.push_back(row.value);
  }
  for (const std::string& cache : calibrate::CachesToCalibrate(plan)) {
    if (seen.insert(cache).second) values.push_back(cache);
  }
  if (values.empty()) {
    Fail(ErrorCode::kInvalidArgument,
         "there is nothing to calibrate: configuration '{}' quantizes no activation and no cache "
         "of this model",
         plan.config.name);
  }
  return values;
}

// Returns the channel axis of each activation that convolutions and products read.
std::map<std::string, int64_t> ChannelAxes(const graph::Model& model) {
  std::map<std::string, int64_t> axes;
  for (const graph::Node& node : model.AllNodes()) {
    for (size_t i = 0; i < std::min<size_t>(2, node.num_inputs()); ++i) {
      const std::optional<int64_t> axis = ops::SummedAxis(node, i);
      if (axis && !model.IsInitializer(node.input(i))) axes.emplace(node.input(i), *axis);
    }
  }
  // An activation that is read in several ways has the axis along which it can be smoothed.
  for (const std::string& value : rewrite::ValuesToSmooth(model)) axes[value] = -1;
  return axes;
}

}  // namespace

calibrate::CalibrationTable LoadTable(const graph::Model& model, const plan::Rewrites& rewrites,
                                      const std::filesystem::path& path) {
  calibrate::CalibrationTable table = calibrate::LoadCalibration(path);
  if (table.model_fingerprint != model.Fingerprint()) {
    Fail(ErrorCode::kInvalidArgument,
         "calibration '{}' is of another model ('{}'), or of one that was prepared otherwise; "
         "calibrate with these versions of Bitpress and ONNX Runtime, and with the same "
         "configuration and settings of equalize and rotate: {}, {}",
         PathText(path), table.model_name,
         rewrites.equalization ? "layers are equalized first, which changes activations"
                               : "layers are not equalized here",
         rewrites.rotation > 0
             ? fmt::format("inputs are rotated in blocks of {}", rewrites.rotation)
             : "inputs are not rotated");
  }
  return table;
}

class Calibrator::Impl {
 public:
  explicit Impl(const CalibrateOptions& options)
      : path_(options.model),
        num_threads_(options.num_threads),
        most_failures_(options.most_failures),
        files_(StampsOf(options.model)),
        model_(Prepare(options)),
        calibrator_(WithContext(Place(), [&] { return MakeCalibrator(options); })) {}

  calibrate::CalibrationResult Count(const data::SampleSpec& samples,
                                     const ProgressSink& progress) {
    return WithContext(Place(), [&] {
      data::Source& source = samples_.Open(samples, [&](const data::SampleSpec& spec) {
        data::SourceOptions options = SourceFor(model_, RunOptions{spec, num_threads_, {}});
        options.keeps_failures = most_failures_ > 0;
        return options;
      });
      return calibrator_.Count(source, progress);
    });
  }

  bool IsCurrent() const { return files_.AreUnchanged(); }

 private:
  // The most bytes of the constants of a large model that stay loaded.
  static constexpr uint64_t kMostKeptBytes = 4'000'000'000;

  std::string Place() const { return fmt::format("'{}'", PathText(path_)); }

  static graph::Model Prepare(const CalibrateOptions& options) {
    CheckPasses(options.disabled_passes);
    return rewrite::Prepare(
        options.model,
        {.preparation = options.preparation,
         .rewrites = options.config ? plan::ResolveRewrites(*options.config) : plan::Rewrites{},
         .disabled_passes = options.disabled_passes});
  }

  calibrate::Calibrator MakeCalibrator(const CalibrateOptions& options) const {
    calibrate::CalibrateOptions calibration;
    calibration.batch_size = options.batch_size;
    calibration.num_threads = options.num_threads;
    calibration.most_kept_bytes = kMostKeptBytes;
    calibration.most_failures = options.most_failures;
    if (options.is_per_channel) calibration.axes = ChannelAxes(model_);
    std::vector<std::string> values;
    if (options.config) {
      const plan::QuantPlan plan = plan::MakePlan(*options.config, model_, "");
      values = QuantizedActivations(plan);
      calibration.caches = calibrate::CachesToCalibrate(plan);
      calibration.axes.merge(calibrate::ChannelsToCalibrate(plan, model_));
    } else {
      values = calibrate::FloatActivations(model_);
      calibration.axes.merge(calibrate::ChannelsOfProducts(model_));
      for (const ops::KvCache& cache : ops::FindKvCaches(model_)) {
        if (cache.takes_integers) calibration.caches.insert(cache.present_value());
      }
    }
    if (values.empty()) {
      Fail(ErrorCode::kInvalidArgument, "the model has no float activation to calibrate");
    }
    return {model_, PathText(path_.filename()), std::move(values), std::move(calibration)};
  }

  std::filesystem::path path_;
  size_t num_threads_;
  size_t most_failures_;
  FileStamps files_;
  graph::Model model_;
  calibrate::Calibrator calibrator_;
  OpenedSamples samples_;
};

Calibrator::Calibrator(const CalibrateOptions& options) : impl_(std::make_unique<Impl>(options)) {}
Calibrator::~Calibrator() = default;
Calibrator::Calibrator(Calibrator&&) noexcept = default;
Calibrator& Calibrator::operator=(Calibrator&&) noexcept = default;

calibrate::CalibrationResult Calibrator::Count(const data::SampleSpec& samples,
                                               const ProgressSink& progress) {
  return impl_->Count(samples, progress);
}

bool Calibrator::IsCurrent() const { return impl_->IsCurrent(); }

CalibrateReport Calibrate(const CalibrateOptions& options) {
  // Before any work: a file that cannot be written would cost all of it.
  AtomicFile file(options.output);
  CalibrateReport report;
  report.result = Calibrator(options).Count(options.samples, options.progress);
  if (options.samples.shard.count == 1) CheckSomeRan(report.result.table.num_samples);
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
                                              const std::filesystem::path& output,
                                              size_t most_failures) {
  return MergeFiles(paths, output, "calibration files", most_failures, calibrate::LoadCalibration,
                    calibrate::ToBytes);
}

nlohmann::ordered_json ToJson(const calibrate::CalibrationTable& table) {
  using Json = nlohmann::ordered_json;
  Json tensors = Json::array();
  for (const auto& [name, statistics] : table.tensors) {
    const auto& tensor = statistics;
    const auto number = [&](const auto& get) { return tensor.is_empty() ? Json() : Json(get()); };
    Json json{{"name", name},
              {"num_elements", tensor.num_elements()},
              {"num_finite", tensor.num_finite()},
              {"num_zeros", tensor.num_zeros()},
              {"min", number([&] { return tensor.min(); })},
              {"max", number([&] { return tensor.max(); })},
              {"mean", number([&] { return tensor.Mean(); })},
              {"standard_deviation", number([&] { return tensor.StandardDeviation(); })}};
    if (const auto& channels = tensor.axis_statistics()) {
      Json magnitudes = Json::array();  // null: a channel without a finite element
      for (const calibrate::SliceStatistics& slice : channels->slices) {
        magnitudes.push_back(slice.extremes.is_empty() ? Json() : Json(slice.AbsMax()));
      }
      json["channel_axis"] = channels->axis;
      json["channel_magnitudes"] = std::move(magnitudes);
    }
    tensors.push_back(std::move(json));
  }
  return {{"bitpress_calibration", 1},
          {"model", table.model_name},
          {"model_fingerprint", fmt::format("{:016x}", table.model_fingerprint)},
          {"num_samples", table.num_samples},
          {"left_out", table.left_out},
          {"tensors", std::move(tensors)}};
}

}  // namespace bitpress::tasks
