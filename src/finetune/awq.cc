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
// Fewer positions in one part of the samples cannot judge factors, nor can fewer samples, whose
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

// Tries the alphas for one activation at a time.
class FactorSearch {
 public:
  FactorSearch(const graph::Model& model, const plan::QuantPlan& plan, ThreadPool& pool)
      : model_(model), plan_(plan), pool_(pool) {}

  // Returns the best factors for an activation. Empty if alpha = 0 is the best, or if nothing can
  // judge. The factors of each part of the samples are judged by the other part.
  std::vector<double> Find(const Readers& readers, LayerMoments& moments) {
    const bool judges_itself = moments.split == Split::kNone;
    std::vector<std::pair<const Moments*, const Moments*>> folds;
    if (judges_itself) {
      folds.emplace_back(&moments.learned, &moments.learned);
    } else {
      folds.emplace_back(&moments.learned, &moments.held_back);
      folds.emplace_back(&moments.held_back, &moments.learned);
    }
    std::vector<std::vector<double>> magnitudes;
    double least_error = 0;
    for (const auto& [learned, judge] : folds) {
      const int64_t least = judges_itself ? 1 : kLeastPositions;
      if (learned->num_positions < least || judge->num_positions < least) return {};
      magnitudes.push_back(MagnitudesOf(*learned, readers));
      least_error += ErrorOf(readers, *judge, std::vector<double>(magnitudes[0].size(), 1.0));
    }
    if (!judges_itself) least_error *= kMostError;
    double best = 0;
    for (int step = 1; step <= kNumSteps; ++step) {
      const double alpha = static_cast<double>(step) / kNumSteps;
      double error = 0;
      for (size_t i = 0; i < folds.size(); ++i) {
        error += ErrorOf(readers, *folds[i].second, FactorsOf(magnitudes[i], alpha));
      }
      if (!(error < least_error)) continue;
      least_error = error;
      best = alpha;
    }
    if (best == 0) return {};
    if (!judges_itself) AddMoments(moments.held_back, moments.learned);
    return FactorsOf(MagnitudesOf(moments.learned, readers), best);
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
  double ErrorOf(const Readers& readers, const Moments& judge, const std::vector<double>& factors) {
    const int64_t columns = readers.layers.front()->columns;
    const ReadRow inputs = [&](int64_t row, int64_t count, float* out) {
      const double* const from = judge.inputs.data() + row * columns;
      for (int64_t k = 0; k < count; ++k) out[k] = static_cast<float>(from[k]);
    };
    double error = 0;
    for (const LinearLayer* const layer : readers.layers) {
      const graph::InitializerView weight = model_.Initializer(layer->weight);
      const std::span<const float> original = weight.values<float>();
      std::vector<float> scaled(original.size());
      pool_.ParallelFor(static_cast<size_t>(layer->rows), [&](size_t row) {
        for (int64_t k = 0; k < columns; ++k) {
          const size_t element = layer->ElementOf(0, static_cast<int64_t>(row), k);
          const double factor = factors[static_cast<size_t>(k)];
          scaled[element] = static_cast<float>(double{original[element]} * factor);
        }
      });
      const WeightGrid grid(*layer->row, plan_.operators, {weight.dims.begin(), weight.dims.end()},
                            fmt::format("{} '{}'", layer->op_type, layer->node()));
      const QuantizedWeight rounded = grid.Quantize(scaled, pool_);
      const ReadRow errors = [&](int64_t row, int64_t count, float* out) {
        for (int64_t k = 0; k < count; ++k) {
          const size_t element = layer->ElementOf(0, row, k);
          const double factor = factors[static_cast<size_t>(k)];
          out[k] = static_cast<float>(double{rounded.values[element]} / factor -
                                      double{original[element]});
        }
      };
      for (const double form : QuadraticForms(columns, inputs, layer->rows, errors, pool_)) {
        error += form;
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
    std::vector<std::shared_ptr<LayerMoments>> moments = GatherMoments(network, group, options);
    for (size_t i = 0; i < group.size(); ++i) {
      const Readers& readers = *readers_of.at(group[i].weight);
      std::vector<double> factors = FactorSearch(model, plan, pool).Find(readers, *moments[i]);
      moments[i].reset();
      if (!factors.empty()) smooth.factors->emplace(readers.value, std::move(factors));
    }
  }
  return rewrite::Smooth(model, {}, smooth);
}

}  // namespace bitpress::finetune
