// Pass equalize: cross-layer equalization of a float model, before weights get one scale for a
// whole tensor (Nagel et al., "Data-Free Quantization Through Weight Equalization and Bias
// Correction", 2019). Between two layers that only positively homogeneous operators separate, each
// channel can be divided by a factor at the end of the first layer and multiplied by it in the
// second one:
//
//   W2 f(W1 x + b1) = (W2 S) f(S^-1 W1 x + S^-1 b1)    for f(s y) = s f(y), s > 0
//
// The factors make the channels' ranges of both weights equal, so that one scale for a whole tensor
// fits all of its channels. The model computes the same; only float rounding differs.
//
// Pairs of Conv, ConvTranspose, Gemm and MatMul with constant FLOAT weights are equalized. Grouped
// and depthwise convolutions are included, so that Conv -> depthwise Conv -> Conv is two pairs.
// Between the two layers may stand: Relu, LeakyRelu, PRelu, Clip(0, limit), Identity, an Add of a
// constant for each channel, a Mul with another value (the gate of an MLP), and, between
// convolutions, pools. Each value in between has one reader and is no graph output. Weights with
// NaN or infinity are left alone.
//
// Names of values stay. A new value in front of a Min is called `<value>_unbounded`. A constant
// that others read too gets a copy, `<name>_scaled`. The result is deterministic. A second run
// finds factors of 1 but for rounding.
#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <span>

#include "base/error.h"
#include "rewrite/layer_pairs.h"
#include "rewrite/passes.h"
#include "rewrite/scale_channels.h"

namespace bitpress::rewrite {
namespace {

using graph::Model;
using graph::Node;

// A layer's weight with the factors of its channels: `inputs` of the pair that the layer ends, and
// `outputs` of the pair that it begins.
struct ScaledLayer {
  ops::ChannelLayer layer;
  std::vector<float> magnitudes;  // [rows, columns]
  std::span<const double> inputs = {};
  std::span<const double> outputs = {};

  // Returns the largest magnitude of each input or output channel with the present factors.
  std::vector<double> Ranges(const ops::ChannelMap& channels) const {
    std::vector<double> ranges(channels.num_channels);
    for (size_t i = 0; i < magnitudes.size(); ++i) {
      const size_t row = i / layer.num_columns;
      const size_t column = i % layer.num_columns;
      double magnitude = magnitudes[i];
      if (!inputs.empty()) magnitude *= inputs[layer.inputs.Of(row, column)];
      if (!outputs.empty()) magnitude /= outputs[layer.outputs.Of(row, column)];
      double& range = ranges[channels.Of(row, column)];
      range = std::max(range, magnitude);
    }
    return ranges;
  }
};

// A pair of layers with the factors between them.
struct ScaledPair {
  LayerPair pair;
  ScaledLayer* first = nullptr;
  ScaledLayer* second = nullptr;
  std::vector<double> bias;     // the sum of all vectors that are added in between
  std::vector<double> factors;  // one a channel
};

// Beyond this, weights of channels that are as good as dead would become infinite or subnormal.
constexpr double kMostFactor = 1 << 16;

double Largest(std::span<const double> values) { return std::ranges::max(values); }

class Equalizer {
 public:
  Equalizer(Model& model, const plan::EqualizeOptions& options)
      : model_(model), options_(options) {}

  graph::PassResult Run() {
    LayerPairs found = FindLayerPairs(model_);
    result_.left_alone = std::move(found.left_alone);
    for (LayerPair& pair : found.pairs) Take(std::move(pair));
    if (options_.num_steps < 0) {
      BalanceAndScale();
    } else {
      TakeSteps();
    }
    for (ScaledPair& pair : pairs_) {
      if (pair.pair.clip) Bound(pair);
    }
    result_.is_modified = !pairs_.empty();
    result_.label = "equalized";
    result_.text = fmt::format("{} pairs of layers, {} of them with a limit for each channel",
                               pairs_.size(), num_bounded_);
    result_.counts = {{"num_pairs", static_cast<int64_t>(pairs_.size())}};
    return std::move(result_);
  }

 private:
  void Take(LayerPair pair) {
    const auto leave = [&](std::string reason) {
      result_.left_alone.emplace_back(pair.first.node.Describe(), std::move(reason));
    };
    ScaledLayer* const first = LayerFor(pair.first);
    ScaledLayer* const second = LayerFor(pair.second);
    if (first == nullptr || second == nullptr) {
      return leave(fmt::format("NaN or infinity in the weight of {}",
                               (first == nullptr ? pair.first : pair.second).node.Describe()));
    }
    const std::vector<double> r1 = first->Ranges(first->layer.outputs);
    const std::vector<double> r2 = second->Ranges(second->layer.inputs);
    ScaledPair taken{.pair = pair, .first = first, .second = second, .bias = {}, .factors = {}};
    double most = 0;
    for (size_t c = 0; c < r1.size(); ++c) most = std::max(most, r1[c] * r2[c]);
    if (!(most > 0)) return leave("every channel is zero on one side");
    if (pair.clip) {
      // The number of bits by which the ranges of both weights shrink together.
      const double gain_bits = std::log2(Largest(r1) * Largest(r2) / most);
      if (options_.clips == plan::ClipHandling::kKeep) {
        return leave(fmt::format("{} behind it has one limit for all channels (equalize_clips)",
                                 pair.clip->Describe()));
      }
      if (gain_bits < options_.least_clip_gain_bits) {
        return leave(
            fmt::format("it would gain {:.1f} bits, too few for a limit a channel behind "
                        "{} (equalize_clip_gain)",
                        gain_bits, pair.clip->Describe()));
      }
    }
    taken.bias.resize(r1.size());
    for (const AddedVector& bias : pair.biases) {
      const auto values = model_.Initializer(bias.node.input(bias.input)).values<float>();
      for (size_t c = 0; c < values.size(); ++c) taken.bias[c] += values[c];
    }
    taken.factors.assign(r1.size(), 1.0);
    pairs_.push_back(std::move(taken));
  }

  // Returns the scaled layer of a node; null if its weight is not finite.
  ScaledLayer* LayerFor(const ops::ChannelLayer& layer) {
    const auto [found, is_new] = layers_.try_emplace(layer.node.output(0), ScaledLayer{layer, {}});
    ScaledLayer& scaled = found->second;
    if (is_new) {
      if (std::optional<std::vector<float>> magnitudes = Magnitudes(model_, layer)) {
        scaled.magnitudes = std::move(*magnitudes);
      }
    }
    return scaled.magnitudes.empty() ? nullptr : &scaled;
  }

  // Finds the factors of all pairs, and scales each constant once.
  void BalanceAndScale() {
    // The spans point into vectors that no longer move.
    for (ScaledPair& pair : pairs_) {
      pair.first->outputs = pair.factors;
      pair.second->inputs = pair.factors;
    }
    Balance();
    for (auto& [name, layer] : layers_) {
      if (layer.inputs.empty() && layer.outputs.empty()) continue;
      ScaleWeight(model_, layer.layer, layer.inputs, layer.outputs);
    }
    for (ScaledPair& pair : pairs_) {
      for (const AddedVector& bias : pair.pair.biases) {
        DivideVector(model_, bias.node, bias.input, pair.factors);
      }
    }
  }

  // Takes a given number of steps as AMD Quark takes them, in floats and with one pair after the
  // other, so that constants become the same bit for bit.
  void TakeSteps() {
    for (int64_t step = 0; step < options_.num_steps; ++step) {
      for (ScaledPair& pair : pairs_) TakeStep(pair);
      // Quark's list of pairs ends with the first one again.
      if (!pairs_.empty()) TakeStep(pairs_.front());
    }
  }

  void TakeStep(ScaledPair& pair) {
    const std::vector<double> r1 = pair.first->Ranges(pair.first->layer.outputs);
    const std::vector<double> r2 = pair.second->Ranges(pair.second->layer.inputs);
    const auto bias_part = static_cast<float>(1 / options_.bias_share);
    std::vector<float> ahead(r1.size(), 1.0F);
    std::vector<float> behind(r1.size(), 1.0F);
    for (size_t c = 0; c < r1.size(); ++c) {
      if (!(r1[c] > 0 && r2[c] > 0)) continue;
      auto first = static_cast<float>(r1[c]);
      const auto second = static_cast<float>(r2[c]);
      if (options_.bias_share > 0) {
        first = std::max(first, static_cast<float>(std::abs(pair.bias[c])) / bias_part);
      }
      const float factor = second / std::sqrt(first * second);
      if (!(factor > 1 / kMostFactor && factor < kMostFactor)) continue;
      ahead[c] = factor;
      behind[c] = 1 / factor;
      pair.bias[c] *= factor;
      pair.factors[c] /= factor;
    }
    MultiplyWeight(model_, pair.first->layer, pair.first->layer.outputs, ahead,
                   pair.first->magnitudes);
    MultiplyWeight(model_, pair.second->layer, pair.second->layer.inputs, behind,
                   pair.second->magnitudes);
    for (const AddedVector& bias : pair.pair.biases) {
      MultiplyVector(model_, bias.node, bias.input, ahead);
    }
  }

  // Makes the ranges of all pairs equal. Changing one pair changes the ranges of its neighbours, so
  // that it takes some rounds until all of them fit.
  void Balance() {
    constexpr int64_t kMostSteps = 200;  // chains of 50 layers need about 25
    constexpr double kConverged = 1e-3;
    double change = pairs_.empty() ? 0 : 1;
    for (int64_t step = 0; step < kMostSteps && change > kConverged; ++step) {
      change = 0;
      for (ScaledPair& pair : pairs_) change = std::max(change, BalancePair(pair));
    }
  }

  // Makes the ranges of one pair equal. Returns the largest change of a factor, as a logarithm.
  double BalancePair(ScaledPair& pair) const {
    std::vector<double> r1 = pair.first->Ranges(pair.first->layer.outputs);
    const std::vector<double> r2 = pair.second->Ranges(pair.second->layer.inputs);
    double change = 0;
    for (size_t c = 0; c < r1.size(); ++c) {
      if (!(r1[c] > 0 && r2[c] > 0)) continue;
      r1[c] = std::max(r1[c], options_.bias_share * std::abs(pair.bias[c]) / pair.factors[c]);
      const double wanted =
          std::clamp(pair.factors[c] * std::sqrt(r1[c] / r2[c]), 1 / kMostFactor, kMostFactor);
      change = std::max(change, std::abs(std::log(wanted / pair.factors[c])));
      pair.factors[c] = wanted;
    }
    return change;
  }

  // Puts a Min with one limit a channel behind a Clip(x, 0, limit): a channel divided by f has the
  // limit limit / f. The Clip keeps the largest of these limits, so that its result has the range
  // of the Min's result, and ONNX Runtime can still fuse it with the layer before it.
  void Bound(ScaledPair& pair) {
    Node clip = *pair.pair.clip;
    const ops::ChannelLayer& first = pair.pair.first;
    std::vector<float> limits;
    for (const double factor : pair.factors) {
      limits.push_back(static_cast<float>(double{pair.pair.clip_limit} / factor));
    }
    const float most = std::ranges::max(limits);
    const std::string value = clip.output(0);
    const std::string limit = model_.FreshName(value + "_limit");
    model_.SetInitializer(limit, DataType::kFloat, {}, std::as_bytes(std::span(&most, 1)));
    clip.set_input(2, limit);
    if (std::ranges::min(limits) == most) return;
    std::vector<int64_t> dims(first.is_convolution ? first.rank : 1, 1);
    dims[first.is_convolution ? 1 : 0] = static_cast<int64_t>(limits.size());
    const std::string bounds = model_.FreshName(value + "_limits");
    model_.SetInitializer(bounds, DataType::kFloat, dims,
                          std::as_bytes(std::span<const float>(limits)));
    const std::string unbounded = model_.FreshName(value + "_unbounded");
    const graph::ValueInfo info = model_.InfoOf(value);
    Node reader = model_.Uses(value).front().node;
    clip.set_output(0, unbounded);
    model_.InsertNode(
        {model_.FreshNodeName(value + "_bound"), "Min", "", {unbounded, bounds}, {value}, {}},
        reader);
    model_.SetInfo(unbounded, info);
    ++num_bounded_;
  }

  Model& model_;
  const plan::EqualizeOptions& options_;
  std::map<std::string, ScaledLayer> layers_;  // by the node's first output
  std::vector<ScaledPair> pairs_;
  size_t num_bounded_ = 0;  // pairs with a Min that has one limit a channel
  graph::PassResult result_ = false;
};

}  // namespace

const PreparePass kEqualize{
    .name = "equalize",
    .run =
        [](Model& model, PrepareState& state) {
          return Equalizer(model, *state.options.rewrites.equalization).Run();
        },
    .is_wanted =
        [](const Model&, const PrepareState& state) {
          return state.options.rewrites.equalization.has_value();
        }};

}  // namespace bitpress::rewrite
