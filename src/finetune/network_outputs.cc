#include "finetune/network_outputs.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "base/output_error.h"
#include "base/tensor.h"
#include "calibrate/piece_runs.h"
#include "kernels/half.h"

namespace bitpress::finetune {
namespace {

// The kind of an output, known by its name.
enum class OutputKind {
  kAny,
  // Keys or values that the next run takes as an input: exporters name them `present.0.key` and
  // `past_key_values.0.key`, or likewise.
  kCache,
  // `logits`: softmax follows, which does not see a number that is added to all of them.
  kLogits,
};

OutputKind KindOf(const std::string& output, const graph::Model& model) {
  constexpr std::string_view kPresent = "present";
  const size_t at = output.find(kPresent);
  const auto is_input = [&](std::string_view past) {
    std::string name = output;
    return model.IsInput(name.replace(at, kPresent.size(), past));
  };
  if (at != std::string::npos && (is_input("past_key_values") || is_input("past"))) {
    return OutputKind::kCache;
  }
  return output == "logits" ? OutputKind::kLogits : OutputKind::kAny;
}

// Subtracts the mean of the finite values from each row of `length` values.
void Centre(std::vector<float>& values, int64_t length) {
  const auto size = static_cast<size_t>(length);
  for (size_t begin = 0; begin + size <= values.size() && size > 0; begin += size) {
    double sum = 0;
    size_t count = 0;
    for (size_t i = begin; i < begin + size; ++i) {
      if (!std::isfinite(values[i])) continue;
      sum += double{values[i]};
      ++count;
    }
    const double mean = count > 0 ? sum / static_cast<double>(count) : 0.0;
    for (size_t i = begin; i < begin + size; ++i) {
      values[i] = static_cast<float>(double{values[i]} - mean);
    }
  }
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

// Returns nothing if the outputs cannot be compared.
std::optional<OutputError> Compare(const Tensor& wanted, const Tensor& found, OutputKind kind) {
  // Errors below this share are rounding errors of float sums.
  constexpr double kLeast = 1e-12;
  std::optional<std::vector<float>> right = FloatsOf(wanted);
  std::optional<std::vector<float>> given = FloatsOf(found);
  if (!right || !given || wanted.dims != found.dims) return std::nullopt;
  // One logit is a number of its own, and maps of logits have their classes along another axis.
  const bool is_row =
      (wanted.dims.size() == 2 || wanted.dims.size() == 3) && wanted.dims.back() > 1;
  if (kind == OutputKind::kLogits && is_row) {
    for (auto* const values : {&*right, &*given}) Centre(*values, wanted.dims.back());
  }
  OutputError result = CompareOutputs<float>(*right, *given);
  result.error = std::max(result.error, kLeast * result.signal);
  return result;
}

bool IsFloat(const Tensor& tensor) {
  return tensor.type == DataType::kFloat || tensor.type == DataType::kFloat16;
}

}  // namespace

NetworkOutputs::NetworkOutputs(const graph::Model& float_model, data::Source& source,
                               const GatherOptions& options, bool with_caches)
    : float_model_(float_model), source_(source), options_(options) {
  std::vector<std::string> caches;
  for (const std::string& output : float_model.OutputNames()) {
    if (!float_model.Producer(output)) continue;
    const bool is_apart = !with_caches && KindOf(output, float_model) == OutputKind::kCache;
    (is_apart ? caches : outputs_).push_back(output);
  }
  if (outputs_.empty()) outputs_ = std::move(caches);
}

size_t NetworkOutputs::Run(const graph::Model& model, const std::function<bool(size_t run)>& counts,
                           const Take& take) {
  graph::Model copy = model.Clone();
  calibrate::PieceRuns runs(copy, outputs_, source_,
                            {.most_bytes = options_.most_piece_bytes,
                             .num_threads = options_.num_threads,
                             .batch_size = options_.batch_size,
                             .operator_library = options_.operator_library,
                             .stage = options_.stage,
                             .progress = options_.progress});
  size_t num_runs = 0;
  for (size_t piece = 0; piece < runs.num_pieces(); ++piece) {
    calibrate::PiecePass pass;
    for (const std::string& output : outputs_) {
      if (runs.PieceOf(output) == piece) pass.outputs.push_back(output);
    }
    pass.begins = [&](size_t run) {
      num_runs = std::max(num_runs, run);
      return counts(run);
    };
    pass.take = [&](size_t run, std::span<const Tensor> values) {
      for (size_t i = 0; i < values.size(); ++i) take(pass.outputs[i], run, values[i]);
    };
    runs.Run(piece, pass);
  }
  return num_runs;
}

std::vector<OutputErrors> NetworkOutputs::ErrorsOf(const graph::Model& quantized,
                                                   const std::function<bool(size_t run)>& counts) {
  if (known_runs_.empty()) {
    const auto note = [&](size_t run) {
      const bool is_counted = counts(run);
      if (is_counted) known_runs_.insert(run);
      return is_counted;
    };
    Run(float_model_, note, [&](const std::string& output, size_t run, const Tensor& value) {
      if (IsFloat(value)) files_.Put(output, run, value);
    });
  }
  std::map<std::string, OutputKind> kinds;
  for (const std::string& output : outputs_) kinds[output] = KindOf(output, float_model_);
  std::map<size_t, std::map<std::string, std::optional<OutputError>>> compared;  // by run
  const size_t num_runs = Run(
      quantized, [&](size_t run) { return counts(run) && known_runs_.contains(run); },
      [&](const std::string& output, size_t run, const Tensor& value) {
        if (!IsFloat(value)) return;
        compared[run][output] = Compare(files_.Get(output, run), value, kinds[output]);
      });
  std::vector<OutputErrors> errors(num_runs);
  for (const auto& [run, of_outputs] : compared) {
    OutputErrors& of_run = errors[run - 1];
    double of_caches = 0;
    bool has_caches = false;
    for (const std::string& output : outputs_) {
      const auto found = of_outputs.find(output);
      if (found == of_outputs.end()) continue;
      if (!found->second) {
        of_run.clear();
        has_caches = false;
        break;
      }
      const OutputError& compared_output = *found->second;
      if (kinds[output] != OutputKind::kCache) {
        of_run.push_back(compared_output.has_lost() ? std::numeric_limits<double>::infinity()
                                                    : compared_output.error);
      } else if (compared_output.signal > 0) {
        // The next tokens read all caches, and dozens of outputs would outvote the logits.
        of_caches += compared_output.Noise();
        has_caches = true;
      }
    }
    if (has_caches) of_run.push_back(of_caches);
  }
  return errors;
}

}  // namespace bitpress::finetune
