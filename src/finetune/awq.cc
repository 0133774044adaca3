#include "finetune/awq.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "finetune/layer.h"
#include "finetune/quadratic_form.h"
#include "finetune/weight_grid.h"

namespace bitpress::finetune {
namespace {

constexpr int kNumSteps = 10;
// Factors must have an error below this share of that without factors, on samples that they were
// not computed from.
constexpr double kMostError = 0.98;
// Fewer positions in one part of the samples cannot validate factors, nor can fewer samples, whose
// positions are alike.
constexpr int64_t kLeastPositions = 4;
constexpr size_t kLeastSamples = 4;

// The layers that read one activation along its last axis.
struct Readers {
  std::string value;
  std::vector<const LinearLayer*> layers;
};

// Returns the matrix products whose activation stays float, grouped by that activation, in graph
// order.
std::vector<Readers> FindReaders(const graph::Model& model, const plan::QuantPlan& plan,
                                 const Layers& layers) {
  std::set<std::string> quantized;
  for (const plan::TensorPlan& row : plan.tensors) {
    if (row.role == plan::Role::kActivation && row.is_quantized()) quantized.insert(row.value);
  }
  const plan::NodeIndex index(model);
  std::vector<Readers> found;
  for (const LinearLayer& layer : layers.found) {
    const bool is_product =
        layer.layout == PositionLayout::kChannelsLast && layer.recurrent == RecurrentWeight::kNone;
    // A weight that several activations multiply would need one factor for all of them.
    if (!is_product || layer.readings.size() > 1) continue;
    if (model.Initializer(layer.weight).type != DataType::kFloat) continue;
    const Reading& reading = layer.readings.front();
    const std::string& value =
        index.Find({reading.node, layer.op_type, static_cast<int64_t>(reading.data_input)})
            .input(reading.data_input);
    if (quantized.contains(value) || model.IsInitializer(value)) continue;
    const auto known = std::ranges::find(found, value, &Readers::value);
    if (known != found.end()) {
      known->layers.push_back(&layer);
    } else {
      found.push_back({value, {&layer}});
    }
  }
  return found;
}

// Returns the channels' magnitudes to the power of alpha, divided by their middle on a logarithmic
// scale.
std::vector<double> FactorsOf(std::span<const double> magnitudes, double alpha) {
  std::vector<double> factors(magnitudes.size(), 1.0);
  double least = 0;
  double most = 0;
  for (size_t i = 0; i < factors.size(); ++i) {
    if (!(magnitudes[i] > 0)) continue;  // the channel was always 0
    factors[i] = std::max(std::pow(magnitudes[i], alpha), 1e-4);
    least = least > 0 ? std::min(least, factors[i]) : factors[i];
    most = std::max(most, factors[i]);
  }
  if (!(least > 0)) return factors;
  const double middle = std::sqrt(least * most);
  for (size_t i = 0; i < factors.size(); ++i) {
    if (magnitudes[i] > 0) factors[i] /= middle;
  }
  return factors;
}

// The weight of a layer, of which at most kMostRows outputs count: those of a vocabulary are many,
// and a part of them, evenly spread, shows the error as well.
class SampledWeight {
 public:
  SampledWeight(const graph::Model& model, const LinearLayer& layer, ThreadPool& pool)
      : layer_(layer), rows_(layer.rows) {
    const graph::InitializerView weight = model.Initializer(layer.weight);
    const std::span<const float> values = weight.values<float>();
    dims_.assign(weight.dims.begin(), weight.dims.end());
    if (dims_.size() == 2) rows_ = std::min(rows_, kMostRows);
    // The weight is [columns, rows] or [rows, columns].
    const bool is_row_last = layer.columns > 1
                                 ? layer.ElementOf(0, 0, 1) != layer.ElementOf(0, 0, 0) + 1
                                 : dims_.back() == layer.rows;
    if (rows_ < layer.rows) dims_[is_row_last ? 1 : 0] = rows_;
    row_step_ = is_row_last ? 1 : layer.columns;
    column_step_ = is_row_last ? rows_ : 1;
    weights_.resize(static_cast<size_t>(rows_ * layer.columns));
    ForEach(pool, [&](size_t element, int64_t row, int64_t column) {
      weights_[element] = values[layer.ElementOf(0, row * layer.rows / rows_, column)];
    });
  }

  const LinearLayer& layer() const { return layer_; }
  const std::vector<int64_t>& dims() const { return dims_; }
  int64_t rows() const { return rows_; }
  const std::vector<float>& weights() const { return weights_; }
  size_t ElementOf(int64_t row, int64_t column) const {
    return static_cast<size_t>(row * row_step_ + column * column_step_);
  }

  // Calls `function(element, row, column)` for each element, in parallel, in the order of memory
  // within a task.
  template <typename Function>
  void ForEach(ThreadPool& pool, const Function& function) const {
    const bool is_row_last = row_step_ == 1;
    const int64_t outer = is_row_last ? layer_.columns : rows_;
    const int64_t inner = is_row_last ? rows_ : layer_.columns;
    pool.ParallelFor(static_cast<size_t>(outer), [&](size_t task) {
      const auto i = static_cast<int64_t>(task);
      for (int64_t j = 0; j < inner; ++j) {
        function(static_cast<size_t>(i * inner + j), is_row_last ? j : i, is_row_last ? i : j);
      }
    });
  }

 private:
  static constexpr int64_t kMostRows = 4096;

  const LinearLayer& layer_;
  int64_t rows_;
  std::vector<int64_t> dims_;
  int64_t row_step_ = 1;
  int64_t column_step_ = 1;
  std::vector<float> weights_;
};

// Tries the alphas for one activation at a time.
class FactorSearch {
 public:
  FactorSearch(const graph::Model& model, const plan::QuantPlan& plan, ThreadPool& pool)
      : model_(model), plan_(plan), pool_(pool) {}

  // Returns the best factors for an activation. Empty if alpha = 0 is the best, or if nothing can
  // validate. The factors of each part of the samples are validated on the other part.
  std::vector<double> Find(const Readers& readers, LayerMoments& moments) {
    const bool validates_itself = moments.split == Split::kNone;
    std::vector<std::pair<const Moments*, const Moments*>> splits;
    if (validates_itself) {
      splits.emplace_back(&moments.learned, &moments.learned);
    } else {
      splits.emplace_back(&moments.learned, &moments.held_back);
      splits.emplace_back(&moments.held_back, &moments.learned);
    }
    std::vector<std::vector<double>> magnitudes;
    for (const auto& [learned, validation] : splits) {
      const int64_t least = validates_itself ? 1 : kLeastPositions;
      if (learned->num_positions < least || validation->num_positions < least) return {};
      magnitudes.push_back(MagnitudesOf(*learned, readers));
    }
    std::vector<SampledWeight> weights;
    for (const LinearLayer* const layer : readers.layers) {
      weights.emplace_back(model_, *layer, pool_);
    }
    const auto error_at = [&](int step) {
      const double alpha = static_cast<double>(step) / kNumSteps;
      double error = 0;
      for (size_t i = 0; i < splits.size(); ++i) {
        error += ErrorOf(weights, *splits[i].second, FactorsOf(magnitudes[i], alpha));
      }
      return error;
    };
    double least_error = error_at(0);
    if (!validates_itself) least_error *= kMostError;
    int best = 0;
    const auto attempt = [&](int step) {
      if (step < 1 || step > kNumSteps) return;
      const double error = error_at(step);
      if (!(error < least_error)) return;
      least_error = error;
      best = step;
    };
    // The error changes slowly with alpha: every second step, then the neighbours of the best one.
    for (int step = 2; step <= kNumSteps; step += 2) attempt(step);
    const int middle = best;
    for (const int step : {middle - 1, middle + 1}) attempt(step);
    if (best == 0) return {};
    if (!validates_itself) AddMoments(moments.held_back, moments.learned);
    return FactorsOf(MagnitudesOf(moments.learned, readers), static_cast<double>(best) / kNumSteps);
  }

 private:
  // Returns the root mean square of each input channel.
  static std::vector<double> MagnitudesOf(const Moments& moments, const Readers& readers) {
    const auto columns = static_cast<size_t>(readers.layers.front()->columns);
    std::vector<double> magnitudes;
    for (size_t k = 0; k < columns; ++k) {
      magnitudes.push_back(
          std::sqrt(moments.inputs[k * columns + k] / static_cast<double>(moments.num_positions)));
    }
    return magnitudes;
  }

  // Returns the error of all products, with weights that are scaled and then rounded.
  double ErrorOf(const std::vector<SampledWeight>& weights, const Moments& validation,
                 const std::vector<double>& factors) {
    const int64_t columns = weights.front().layer().columns;
    const ReadRow inputs = [&](int64_t row, int64_t count, float* out) {
      const double* const from = validation.inputs.data() + row * columns;
      for (int64_t k = 0; k < count; ++k) out[k] = static_cast<float>(from[k]);
    };
    double error = 0;
    for (const SampledWeight& weight : weights) {
      const LinearLayer& layer = weight.layer();
      const std::vector<float>& original = weight.weights();
      std::vector<float> scaled(original.size());
      weight.ForEach(pool_, [&](size_t element, int64_t, int64_t column) {
        scaled[element] =
            static_cast<float>(double{original[element]} * factors[static_cast<size_t>(column)]);
      });
      const WeightGrid grid(*layer.row, plan_.operators, weight.dims(),
                            fmt::format("{} '{}'", layer.op_type, layer.node()));
      const QuantizedWeight rounded = grid.Quantize(scaled, pool_);
      const ReadRow errors = [&](int64_t row, int64_t count, float* out) {
        for (int64_t k = 0; k < count; ++k) {
          const size_t element = weight.ElementOf(row, k);
          const double factor = factors[static_cast<size_t>(k)];
          out[k] = static_cast<float>(double{rounded.values[element]} / factor -
                                      double{original[element]});
        }
      };
      const double share = static_cast<double>(layer.rows) / static_cast<double>(weight.rows());
      for (const double form : QuadraticForms(columns, inputs, weight.rows(), errors, pool_)) {
        error += share * form;
      }
    }
    return error;
  }

  const graph::Model& model_;
  const plan::QuantPlan& plan_;
  ThreadPool& pool_;
};

}  // namespace

rewrite::SmoothReport ScaleChannels(graph::Model& model, const plan::QuantPlan& plan,
                                    data::Source& source, const GatherOptions& options,
                                    ThreadPool& pool) {
  const Layers layers = FindLayers(model, plan);
  const std::vector<Readers> activations = FindReaders(model, plan, layers);
  std::vector<LinearLayer> first_readers;
  for (const Readers& readers : activations) first_readers.push_back(*readers.layers.front());
  rewrite::SmoothOptions smooth;
  smooth.factors.emplace();
  const size_t num_samples = source.num_samples();  // 0: not known before
  if (options.hold_back_every > 0 && num_samples > 0 && num_samples < kLeastSamples) {
    return rewrite::Smooth(model, {}, smooth);
  }
  ObservedNetwork network(model, model, first_readers, source, options);
  std::map<std::string, const Readers*> readers_of;  // by the weight of their first layer
  for (const Readers& readers : activations) {
    readers_of.emplace(readers.layers.front()->weight, &readers);
  }
  const std::vector<std::vector<LinearLayer>> parts = network.Parts();
  std::vector<std::span<const LinearLayer>> groups;
  for (const std::vector<LinearLayer>& part : parts) {
    std::ranges::copy(GroupLayers(part, options), std::back_inserter(groups));
  }
  for (const std::span<const LinearLayer> group : groups) {
    std::vector<std::shared_ptr<LayerSums>> sums = GatherMoments(network, group, options);
    for (size_t i = 0; i < group.size(); ++i) {
      const Readers& readers = *readers_of.at(group[i].weight);
      std::vector<double> factors =
          FactorSearch(model, plan, pool).Find(readers, sums[i]->Finish());
      sums[i].reset();
      if (!factors.empty()) smooth.factors->emplace(readers.value, std::move(factors));
    }
  }
  return rewrite::Smooth(model, {}, smooth);
}

}  // namespace bitpress::finetune
