#include "rewrite/smooth.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <set>

#include "base/error.h"
#include "ops/layer_channels.h"
#include "rewrite/scale_channels.h"

namespace bitpress::rewrite {
namespace {

using graph::Model;
using graph::Node;

// A matrix product that reads the activation, with the magnitudes of its weight.
struct Reader {
  ops::ChannelLayer layer;
  std::vector<float> magnitudes;

  // Calls `function(input channel, output channel, |w|)` for each element.
  template <typename Function>
  void ForEach(const Function& function) const {
    for (size_t i = 0; i < magnitudes.size(); ++i) {
      const size_t row = i / layer.num_columns;
      const size_t column = i % layer.num_columns;
      function(layer.inputs.Of(row, column), layer.outputs.Of(row, column), double{magnitudes[i]});
    }
  }
};

// Returns whether `name` is a constant vector of one float a channel, along the last axis.
bool IsChannelVector(const Model& model, const std::string& name, size_t num_channels) {
  if (!model.IsInitializer(name)) return false;
  const graph::InitializerView vector = model.Initializer(name);
  return vector.type == DataType::kFloat && !vector.dims.empty() &&
         vector.dims.back() == static_cast<int64_t>(num_channels) &&
         NumElements(vector.dims) == static_cast<int64_t>(num_channels);
}

// The constants that a division by one factor a channel is folded into.
struct Folding {
  std::vector<std::pair<Node, size_t>> vectors;
  std::optional<ops::ChannelLayer> layer;
  std::vector<std::string> passed;  // values between that node and the activation
  std::string into;                 // the node where it ends; empty: it cannot be folded
};

// The search for what a division is folded into.
class FoldingSearch {
 public:
  FoldingSearch(const Model& model, size_t num_channels)
      : model_(model), num_channels_(num_channels) {}

  Folding Find(const std::string& activation) {
    if (!Divide(activation)) return {};
    return std::move(folding_);
  }

 private:
  bool IsVector(const Node& node, size_t input) const {
    return node.num_inputs() > input && IsChannelVector(model_, node.input(input), num_channels_);
  }

  // Finds how constants can divide `value`. Returns whether they can.
  bool Divide(const std::string& value) {
    const std::optional<Node> producer = model_.Producer(value);
    if (!producer) return false;
    const Node& node = *producer;
    const ops::OperatorTraits& traits = ops::TraitsOf(node);
    if (traits.norm.scale >= 0) return node.output(0) == value && DivideNorm(node, traits.norm);
    if (!node.domain().empty()) return false;
    std::string reason;
    if (std::optional<ops::ChannelLayer> layer = ops::LayerOf(model_, node, reason)) {
      return DivideLayer(node, *std::move(layer));
    }
    const std::string& op = node.op_type();
    if (op == "Add" || op == "Mul") {
      const size_t constant = IsVector(node, 1) ? 1 : 0;
      const bool has_vector = IsVector(node, constant);
      if (!has_vector) return op == "Mul" && DivideFactor(node);
      folding_.vectors.emplace_back(node, constant);
      if (op == "Add") return Pass(node.input(1 - constant));
      folding_.into = node.Describe();
      return true;
    }
    return traits.homogeneous == ops::Homogeneous::kElements && Pass(node.input(0));
  }

  // Other outputs of the operator do not depend on the vectors.
  bool DivideNorm(const Node& node, const ops::Norm& norm) {
    const auto scale = static_cast<size_t>(norm.scale);
    const auto shift = static_cast<size_t>(norm.shift);
    const int64_t axis = node.GetInt("axis", -1);
    const auto rank = static_cast<int64_t>(model_.InfoOf(node.output(0)).shape.size());
    if ((axis != -1 && axis != rank - 1) || !IsVector(node, scale)) return false;
    folding_.vectors.emplace_back(node, scale);
    if (norm.shift >= 0 && node.num_inputs() > shift && !node.input(shift).empty()) {
      if (!IsVector(node, shift)) return false;
      folding_.vectors.emplace_back(node, shift);
    }
    folding_.into = node.Describe();
    return true;
  }

  bool DivideLayer(const Node& node, ops::ChannelLayer layer) {
    if (layer.is_convolution || layer.outputs.num_channels != num_channels_) return false;
    if (!layer.bias.empty()) {
      if (!IsVector(node, 2)) return false;
      folding_.vectors.emplace_back(node, 2);
    }
    if (!Magnitudes(model_, layer)) return false;
    folding_.into = node.Describe();
    folding_.layer = std::move(layer);
    return true;
  }

  // Divides one of the two values that a Mul multiplies: the gate or the other half of an MLP.
  bool DivideFactor(const Node& node) {
    if (node.input(0) == node.input(1)) return false;
    const Folding before = folding_;
    for (const size_t input : {size_t{0}, size_t{1}}) {
      if (Pass(node.input(input))) return true;
      folding_ = before;
    }
    return false;
  }

  // Divides a value that only the node behind it may read.
  bool Pass(const std::string& value) {
    if (!model_.OnlyUse(value)) return false;
    folding_.passed.push_back(value);
    return Divide(value);
  }

  const Model& model_;
  size_t num_channels_;
  Folding folding_;
};

class Smoother {
 public:
  Smoother(Model& model, const ChannelTable& statistics, const SmoothOptions& options)
      : model_(model), statistics_(statistics), options_(options) {}

  SmoothReport Run() {
    for (const std::string& value : ValuesToSmooth(model_)) {
      if (const std::string reason = SmoothValue(value); !reason.empty()) {
        report_.left_alone.emplace_back(value, reason);
      }
    }
    return std::move(report_);
  }

 private:
  // Smooths one activation. Returns why it cannot, or "".
  std::string SmoothValue(const std::string& value) {
    const auto known = statistics_.find(value);
    const std::vector<double>* given = nullptr;
    if (options_.factors) {
      const auto factors = options_.factors->find(value);
      if (factors == options_.factors->end()) return "no factors make it better";
      given = &factors->second;
    } else if (known == statistics_.end()) {
      return "no statistics";
    }
    const size_t num_channels = given != nullptr ? given->size() : known->second.size();
    std::vector<Reader> readers;
    bool only_readers = !model_.IsOutput(value) && !model_.IsUsedInSubgraph(value);
    for (const graph::Use& use : model_.Uses(value)) {
      std::string reason;
      std::optional<ops::ChannelLayer> layer = ops::LayerOf(model_, use.node, reason);
      if (!layer || layer->is_convolution || use.input_index != 0) {
        only_readers = false;
        continue;
      }
      std::optional<std::vector<float>> magnitudes = Magnitudes(model_, *layer);
      if (!magnitudes) return "NaN or infinity in the weight of " + use.node.Describe();
      if (layer->inputs.num_channels != num_channels) return "its channels are no weight's";
      readers.push_back({std::move(*layer), std::move(*magnitudes)});
    }
    SmoothedActivation smoothed{.value = value, .folded_into = {}};
    smoothed.num_readers = readers.size();
    const std::vector<double> factors =
        given != nullptr ? *given : ChooseFactors(known->second, readers, smoothed.alpha);
    if (factors.empty()) return "no factors make it better";
    const Folding folding =
        only_readers ? FoldingSearch(model_, num_channels).Find(value) : Folding{};
    if (folding.into.empty() && !options_.may_insert) return "it can be folded into nothing";
    for (const Reader& reader : readers) ScaleWeight(model_, reader.layer, factors, {});
    smoothed.factors = factors;
    smoothed.result = value;
    if (folding.into.empty()) {
      smoothed.result = InsertMul(value, readers, factors);
    } else {
      smoothed.passed = folding.passed;
      if (folding.layer) ScaleWeight(model_, *folding.layer, {}, factors);
      for (const auto& [node, input] : folding.vectors) DivideVector(model_, node, input, factors);
      smoothed.folded_into = folding.into;
    }
    report_.smoothed.push_back(std::move(smoothed));
    return "";
  }

  // Returns no factors if none are better than 1.
  std::vector<double> ChooseFactors(const std::vector<ChannelStatistics>& channels,
                                    const std::vector<Reader>& readers, double& alpha) const {
    std::vector<double> weight_max(channels.size());
    for (const Reader& reader : readers) {
      reader.ForEach([&](size_t input, size_t, double magnitude) {
        weight_max[input] = std::max(weight_max[input], magnitude);
      });
    }
    const auto factors_of = [&](double power) { return Factors(channels, weight_max, power); };
    const std::optional<double> chosen =
        options_.alpha ? options_.alpha : BestAlpha(channels, readers, factors_of);
    if (!chosen) return {};
    alpha = *chosen;
    return factors_of(alpha);
  }

  static std::vector<double> Factors(const std::vector<ChannelStatistics>& channels,
                                     const std::vector<double>& weight_max, double alpha) {
    // Beyond this the scaled weights of channels that are hardly there would overflow.
    constexpr double kMostFactor = 1 << 16;
    std::vector<double> factors(channels.size(), 1.0);
    for (size_t c = 0; c < channels.size(); ++c) {
      if (!(channels[c].abs_max > 0 && weight_max[c] > 0)) continue;
      const double factor =
          std::pow(channels[c].abs_max, alpha) / std::pow(weight_max[c], 1 - alpha);
      factors[c] = std::clamp(factor, 1 / kMostFactor, kMostFactor);
    }
    return factors;
  }

  // Returns the alpha with the least error; nothing if none is better than factors of 1.
  template <typename FactorsOf>
  static std::optional<double> BestAlpha(const std::vector<ChannelStatistics>& channels,
                                         const std::vector<Reader>& readers,
                                         const FactorsOf& factors_of) {
    std::optional<double> best;
    double least = ErrorOf(channels, readers, std::vector<double>(channels.size(), 1.0));
    for (int step = 0; step <= 20; ++step) {
      const double alpha = 0.05 * step;
      const double error = ErrorOf(channels, readers, factors_of(alpha));
      if (!(error < least)) continue;
      least = error;
      best = alpha;
    }
    return best;
  }

  // Returns the error of the products. Rounding adds an error of step^2 / 12 to each activation,
  // which is multiplied by each weight that it meets. It adds the same to each weight, which is
  // multiplied by the activation's mean square.
  static double ErrorOf(const std::vector<ChannelStatistics>& channels,
                        const std::vector<Reader>& readers, const std::vector<double>& factors) {
    constexpr double kRounding = 1 / (127.0 * 127.0 * 12.0);  // step^2 / 12 of a range of 1
    double activation_max = 0;
    double power = 0;
    for (size_t c = 0; c < channels.size(); ++c) {
      activation_max = std::max(activation_max, channels[c].abs_max / factors[c]);
      power += channels[c].mean_square / (factors[c] * factors[c]);
    }
    std::vector<double> errors;  // of an activation's channels
    for (size_t c = 0; c < channels.size(); ++c) {
      errors.push_back(kRounding * activation_max * activation_max +
                       ExpectedClipping(channels[c], factors[c], activation_max));
    }
    double error = 0;
    for (const Reader& reader : readers) {
      std::vector<double> output_max(reader.layer.outputs.num_channels);
      reader.ForEach([&](size_t input, size_t output, double magnitude) {
        const double scaled = magnitude * factors[input];
        output_max[output] = std::max(output_max[output], scaled);
        error += errors[input] * scaled * scaled;
      });
      for (const double most : output_max) error += kRounding * power * most * most;
    }
    return error;
  }

  // Returns the mean square of what new elements of a channel lie beyond the range. One of so many
  // as were seen is larger than the largest of them, by a scale over log(n) of it if the tail is
  // exponential, and over 2 log(n) if it is normal: this takes the mean of both. Factors that make
  // all channels equally large leave no channel any room, which few samples pay for.
  static double ExpectedClipping(const ChannelStatistics& channel, double factor, double range) {
    if (channel.num_elements == 0 || !(channel.abs_max > 0)) return 0;
    const auto count = static_cast<double>(channel.num_elements);
    const double most = channel.abs_max / factor;
    const double tail = most / (std::numbers::sqrt2 * std::log(count + 1));
    return 2 * tail * tail * std::exp((most - range) / tail) / count;
  }

  // Inserts a Mul in front of the readers. Returns the value that they read now.
  std::string InsertMul(const std::string& value, const std::vector<Reader>& readers,
                        const std::vector<double>& factors) {
    std::vector<float> inverse;
    for (const double factor : factors) inverse.push_back(static_cast<float>(1 / factor));
    const std::string constant = model_.FreshName(value + "_smooth_scale");
    const auto dim = static_cast<int64_t>(inverse.size());
    model_.SetInitializer(constant, DataType::kFloat, std::span(&dim, 1),
                          std::as_bytes(std::span<const float>(inverse)));
    std::string smoothed = model_.FreshName(value + "_smoothed");
    model_.InsertNode(
        {model_.FreshNodeName(value + "_smooth"), "Mul", "", {value, constant}, {smoothed}, {}},
        readers.front().layer.node);
    model_.SetInfo(smoothed, model_.InfoOf(value));
    for (const Reader& reader : readers) {
      Node node = reader.layer.node;
      node.set_input(0, smoothed);
    }
    return smoothed;
  }

  Model& model_;
  const ChannelTable& statistics_;
  const SmoothOptions& options_;
  SmoothReport report_;
};

}  // namespace

std::vector<std::string> ValuesToSmooth(const Model& model) {
  std::vector<std::string> values;
  std::set<std::string> seen;
  for (const Node& node : model.Nodes()) {
    std::string reason;
    const std::optional<ops::ChannelLayer> layer = ops::LayerOf(model, node, reason);
    if (!layer || layer->is_convolution || model.IsInitializer(node.input(0))) continue;
    if (model.InfoOf(node.input(0)).type != DataType::kFloat) continue;  // or its type is not known
    if (seen.insert(node.input(0)).second) values.push_back(node.input(0));
  }
  return values;
}

SmoothReport Smooth(Model& model, const ChannelTable& statistics, const SmoothOptions& options) {
  return Smoother(model, statistics, options).Run();
}

}  // namespace bitpress::rewrite
