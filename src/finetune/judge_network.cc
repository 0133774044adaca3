#include "finetune/judge_network.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>

#include "base/scratch_folder.h"
#include "base/tensor.h"
#include "calibrate/sample_runs.h"
#include "kernels/half.h"
#include "runtime/session.h"

namespace bitpress::finetune {
namespace {

runtime::Session Open(const graph::Model& model, const GatherOptions& options) {
  const ScratchFolder folder;
  const std::filesystem::path path = folder.path() / "network.onnx";
  model.Save(path, graph::ExternalData::kAlways);
  runtime::SessionOptions session;
  session.num_threads = runtime::SessionThreads(options.num_threads);
  session.operator_library = options.operator_library;
  return runtime::Session(path, session);
}

// Returns the elements of a float or half tensor; nothing for other types.
std::optional<std::vector<float>> FloatsOf(const Tensor& tensor) {
  if (tensor.type == DataType::kFloat) {
    const auto values = tensor.values<float>();
    return std::vector<float>(values.begin(), values.end());
  }
  if (tensor.type != DataType::kFloat16) return std::nullopt;
  const auto halves = tensor.values<uint16_t>();
  std::vector<float> values(halves.size());
  kernels::HalfToFloat(halves, values.data());
  return values;
}

// Returns the error of one run's outputs. Empty if they cannot be compared.
OutputErrors Compare(const std::vector<Tensor>& wanted, const std::vector<Tensor>& found) {
  // Errors below this share are rounding errors of float sums.
  constexpr double kLeast = 1e-12;
  OutputErrors errors;
  for (size_t i = 0; i < wanted.size() && i < found.size(); ++i) {
    const std::optional<std::vector<float>> right = FloatsOf(wanted[i]);
    const std::optional<std::vector<float>> given = FloatsOf(found[i]);
    if (!right || !given) continue;
    if (wanted[i].dims != found[i].dims) return {};
    double square = 0;
    double error = 0;
    for (size_t k = 0; k < right->size(); ++k) {
      const double difference = double{(*given)[k]} - double{(*right)[k]};
      square += double{(*right)[k]} * double{(*right)[k]};
      error += difference * difference;
    }
    if (!std::isfinite(square) || !std::isfinite(error)) return {};
    errors.push_back(std::max(error, kLeast * square));
  }
  return errors;
}

}  // namespace

std::vector<OutputErrors> ErrorsOfOutputs(const graph::Model& float_model,
                                          const graph::Model& quantized,
                                          const std::function<bool(size_t run)>& counts,
                                          data::Source& source, const GatherOptions& options) {
  runtime::Session reference = Open(float_model, options);
  runtime::Session session = Open(quantized, options);
  std::vector<OutputErrors> errors;
  size_t run = 0;
  calibrate::RunSamples(
      source, session.inputs(), options.batch_size,
      [&](const std::vector<Tensor>& tensors, size_t) {
        errors.push_back(counts(++run) ? Compare(reference.Run(tensors), session.Run(tensors))
                                       : OutputErrors());
      },
      options.stage, options.progress);
  return errors;
}

NetworkVerdict JudgeNetwork(std::span<const OutputErrors> before,
                            std::span<const OutputErrors> after, double least_uncertainty_db) {
  // A loss of one output up to this is taken where the others gain.
  constexpr double kMostLossDb = 0.25;
  // The gain must be so many times its standard error, and more where few runs estimate that error.
  constexpr double kStandardErrors = 1.5;
  constexpr double kUncertaintyOfOneDb = 1;
  std::vector<size_t> runs;  // that can be compared
  for (size_t run = 0; run < std::min(before.size(), after.size()); ++run) {
    const size_t num_outputs = before[run].size();
    const bool is_like_others = runs.empty() || before[runs[0]].size() == num_outputs;
    if (num_outputs > 0 && after[run].size() == num_outputs && is_like_others) runs.push_back(run);
  }
  NetworkVerdict verdict;
  verdict.num_runs = runs.size();
  if (runs.empty()) return verdict;
  const auto count = static_cast<double>(runs.size());
  const size_t num_outputs = before[runs[0]].size();
  // Returns the gain of each output in all runs but one; none is left out for runs.size().
  const auto gains_without = [&](size_t left_out) {
    std::vector<double> gains;
    for (size_t output = 0; output < num_outputs; ++output) {
      double sum_before = 0;
      double sum_after = 0;
      for (size_t i = 0; i < runs.size(); ++i) {
        if (i == left_out) continue;
        sum_before += before[runs[i]][output];
        sum_after += after[runs[i]][output];
      }
      gains.push_back(sum_after > 0 ? 10 * std::log10(sum_before / sum_after) : 0);
    }
    return gains;
  };
  const auto mean_of = [](const std::vector<double>& values) {
    double sum = 0;
    for (const double value : values) sum += value;
    return sum / static_cast<double>(values.size());
  };
  const std::vector<double> gains = gains_without(runs.size());
  verdict.gain_db = mean_of(gains);
  verdict.least_gain_db = std::ranges::min(gains);
  verdict.uncertainty_db = std::max(kUncertaintyOfOneDb, least_uncertainty_db);
  if (runs.size() > 1) {
    // The jackknife: how much the gain depends on single runs.
    std::vector<double> without;
    for (size_t i = 0; i < runs.size(); ++i) without.push_back(mean_of(gains_without(i)));
    const double mean = mean_of(without);
    double squares = 0;
    for (const double gain : without) squares += (gain - mean) * (gain - mean);
    verdict.uncertainty_db =
        std::max(std::sqrt((count - 1) / count * squares), least_uncertainty_db);
  }
  const double widened = runs.size() > 1 ? (count + 1) / (count - 1) : 1;
  verdict.is_better = verdict.gain_db > kStandardErrors * widened * verdict.uncertainty_db &&
                      verdict.least_gain_db >= -kMostLossDb;
  return verdict;
}

}  // namespace bitpress::finetune
