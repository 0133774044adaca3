// The errors of a layer's weights, from its moments (declared in layer_tuner.h).
#include <algorithm>
#include <limits>
#include <span>
#include <vector>

#include "base/check.h"
#include "finetune/layer_tuner.h"
#include "finetune/quadratic_form.h"

namespace bitpress::finetune {
namespace {

// Returns the sums over all positions of the squares of what the weights make of the inputs, one
// for each output.
std::vector<double> SquaresOf(const LinearLayer& layer, const Moments& moments,
                              std::span<const float> weights, ThreadPool& pool) {
  // Some outputs go through the matrix together, in strips whose products stay in the first-level
  // cache, because reading the matrix takes longer than multiplying. The matrix is symmetric: rows
  // above a strip count twice, and those below it were counted with the strips before.
  constexpr int64_t kOutputs = 8, kStrip = 64;
  const int64_t tasks_of_group = (layer.rows + kOutputs - 1) / kOutputs;
  std::vector<double> squares(static_cast<size_t>(layer.groups * layer.rows));
  pool.ParallelFor(static_cast<size_t>(layer.groups * tasks_of_group), [&](size_t task) {
    const int64_t group = static_cast<int64_t>(task) / tasks_of_group;
    const int64_t first = static_cast<int64_t>(task) % tasks_of_group * kOutputs;
    const auto count = static_cast<size_t>(std::min(kOutputs, layer.rows - first));
    const auto columns = static_cast<size_t>(layer.columns);
    std::vector<double> values(count * columns);
    for (size_t i = 0; i < count; ++i) {
      for (size_t k = 0; k < columns; ++k) {
        values[i * columns + k] = weights[layer.ElementOf(group, first + static_cast<int64_t>(i),
                                                          static_cast<int64_t>(k))];
      }
    }
    const double* const inputs = moments.inputs.data() + group * layer.columns * layer.columns;
    double* const sums = squares.data() + group * layer.rows + first;
    for (size_t begin = 0; begin < columns; begin += kStrip) {
      const size_t width = std::min(static_cast<size_t>(kStrip), columns - begin);
      double products[kOutputs][kStrip] = {};
      for (size_t k = 0; k < begin + width; ++k) {
        const double* const of_input = inputs + k * columns + begin;
        const double times = k < begin ? 2 : 1;
        for (size_t i = 0; i < count; ++i) {
          const double value = times * values[i * columns + k];
          for (size_t j = 0; j < width; ++j) products[i][j] += value * of_input[j];
        }
      }
      for (size_t i = 0; i < count; ++i) {
        for (size_t j = 0; j < width; ++j) {
          sums[i] += products[i][j] * values[i * columns + begin + j];
        }
      }
    }
  });
  return squares;
}

}  // namespace

double MeanSquaredError(const LinearLayer& layer, const Moments& moments,
                        std::span<const float> weights, std::span<const float> bias,
                        ThreadPool& pool) {
  const std::vector<float> only(bias.begin(), bias.end());
  return MeanSquaredErrors(layer, moments, weights, {&only, 1}, pool).front();
}

std::vector<double> MeanSquaredErrors(const LinearLayer& layer, const Moments& moments,
                                      std::span<const float> weights,
                                      std::span<const std::vector<float>> biases,
                                      ThreadPool& pool) {
  BITPRESS_DCHECK(moments.has_outputs);
  if (moments.num_positions == 0) {
    return std::vector<double>(biases.size(), std::numeric_limits<double>::quiet_NaN());
  }
  const auto count = static_cast<double>(moments.num_positions);
  const auto num_outputs = static_cast<size_t>(layer.groups * layer.rows);
  const std::vector<double> squares = SquaresOf(layer, moments, weights, pool);
  std::vector<double> errors(biases.size() * num_outputs);
  pool.ParallelFor(num_outputs, [&](size_t output) {
    const auto group = static_cast<int64_t>(output) / layer.rows;
    const auto row = static_cast<int64_t>(output) % layer.rows;
    const double* const cross = moments.cross.data() + static_cast<int64_t>(output) * layer.columns;
    const double* const x_sums = moments.input_sums.data() + group * layer.columns;
    double mean = 0;
    double linear = 0;
    for (int64_t k = 0; k < layer.columns; ++k) {
      const double value = weights[layer.ElementOf(group, row, k)];
      mean += value * x_sums[k];
      linear += value * cross[k];
    }
    for (size_t i = 0; i < biases.size(); ++i) {
      const double b = biases[i].empty() ? 0.0 : double{biases[i][output]};
      errors[i * num_outputs + output] =
          squares[output] - 2 * linear + moments.output_squares[output] +
          2 * b * (mean - moments.output_sums[output]) + b * b * count;
    }
  });
  std::vector<double> means;
  for (size_t i = 0; i < biases.size(); ++i) {
    double sum = 0;
    for (const double error : std::span(errors).subspan(i * num_outputs, num_outputs)) sum += error;
    means.push_back(std::max(sum / count, 0.0));
  }
  return means;
}

std::vector<double> MeanSquaredChanges(const LinearLayer& layer, const Moments& moments,
                                       std::span<const float> weights,
                                       std::span<const float> original,
                                       std::span<const std::vector<float>> changes,
                                       ThreadPool& pool) {
  if (moments.num_positions == 0) {
    return std::vector<double>(changes.size(), std::numeric_limits<double>::quiet_NaN());
  }
  const auto count = static_cast<double>(moments.num_positions);
  const auto rows = static_cast<size_t>(layer.rows);
  std::vector<double> means(changes.size());
  for (int64_t group = 0; group < layer.groups; ++group) {
    const double* const x_sums = moments.input_sums.data() + group * layer.columns;
    std::vector<double> shifts(rows);  // sums over the positions of (W - W0) x
    const auto read = [&](int64_t row, int64_t num, float* out) {
      double shift = 0;
      for (int64_t k = 0; k < num; ++k) {
        const size_t element = layer.ElementOf(group, row, k);
        out[k] = weights[element] - (original.empty() ? 0.0F : original[element]);
        shift += double{out[k]} * x_sums[k];
      }
      shifts[static_cast<size_t>(row)] = shift;
    };
    // Forms about the means, which are added afterwards: they may be much larger.
    const auto centred = [&](int64_t j, int64_t num, float* out) {
      const double* const from =
          moments.inputs.data() + (group * layer.columns + j) * layer.columns;
      const double mean = x_sums[j] / count;
      for (int64_t k = 0; k < num; ++k) {
        out[k] = static_cast<float>((from[k] - mean * x_sums[k]) / count);
      }
    };
    const std::vector<double> forms =
        QuadraticForms(layer.columns, centred, layer.rows, read, pool);
    for (size_t i = 0; i < changes.size(); ++i) {
      for (size_t row = 0; row < rows; ++row) {
        const double c =
            changes[i].empty() ? 0.0 : double{changes[i][static_cast<size_t>(group) * rows + row]};
        const double shift = shifts[row] / count + c;
        means[i] += forms[row] + shift * shift;
      }
    }
  }
  for (double& mean : means) mean = std::max(mean, 0.0);
  return means;
}

double OutputVariance(const LinearLayer& layer, std::span<const Moments* const> moments,
                      std::span<const float> original, ThreadPool& pool) {
  double count = 0;
  for (const Moments* const part : moments) count += static_cast<double>(part->num_positions);
  if (count == 0) return 0;
  double sum = 0;
  std::vector<double> means(static_cast<size_t>(layer.groups * layer.rows));
  for (const Moments* const part : moments) {
    if (part->num_positions == 0) continue;
    if (part->has_outputs) {
      for (size_t i = 0; i < means.size(); ++i) {
        means[i] += part->output_sums[i] / count;
        sum += part->output_squares[i] / count;
      }
      continue;
    }
    const std::vector<float> unchanged;
    sum += MeanSquaredChanges(layer, *part, original, {}, {&unchanged, 1}, pool).front() *
           static_cast<double>(part->num_positions) / count;
    pool.ParallelFor(means.size(), [&](size_t i) {
      const auto group = static_cast<int64_t>(i) / layer.rows;
      const double* const x_sums = part->input_sums.data() + group * layer.columns;
      for (int64_t k = 0; k < layer.columns; ++k) {
        means[i] += x_sums[k] / count *
                    original[layer.ElementOf(group, static_cast<int64_t>(i) % layer.rows, k)];
      }
    });
  }
  for (const double mean : means) sum -= mean * mean;
  return sum;
}

}  // namespace bitpress::finetune
