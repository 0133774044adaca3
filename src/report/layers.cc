#include "report/layers.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "evaluate/metrics.h"
#include "ops/compute_ops.h"
#include "ops/operator_traits.h"
#include "ops/quantizer_nodes.h"
#include "plan/quant_plan.h"
#include "report/constants.h"
#include "report/histogram.h"
#include "report/quantizers.h"

namespace bitpress::report {
namespace {

using graph::Model;
using graph::Node;

// Returns whether a value is a constant of floats that is no vector and no scalar.
bool IsWeight(const Model& model, const std::string& value) {
  if (!model.IsInitializer(value) || model.IsDeferred(value)) return false;
  const graph::InitializerView view = model.Initializer(value);
  return IsFloat(view.type) &&
         std::ranges::count_if(view.dims, [](int64_t dim) { return dim > 1; }) >= 2;
}

std::vector<size_t> WeightsOf(const Model& model, const Node& node) {
  std::vector<size_t> weights;
  for (size_t i = 0; i < node.num_inputs(); ++i) {
    const std::string& value = node.input(i);
    if (value.empty() || !model.IsInitializer(value)) continue;
    const auto rank = static_cast<int64_t>(model.InfoOf(value).shape.size());
    const std::optional<ops::Operand> operand = ops::OperandOf(node, i, rank);
    const bool is_bias = operand && operand->slot == ops::Slot::kBias;
    if (!is_bias && (operand || IsWeight(model, value))) weights.push_back(i);
  }
  return weights;
}

bool IsLayer(const Model& model, const Node& node) {
  const ops::OperatorTraits& traits = ops::TraitsOf(node);
  if (traits.is_product()) return true;
  // Shapes, positions and masks that are added are no layers of their own.
  const bool is_reader = traits.has_weights_only() || traits.Is(ops::kLooksUp) ||
                         traits.attention == ops::Attention::kHoldsProjection;
  return is_reader && std::ranges::any_of(WeightsOf(model, node),
                                          [&](size_t i) { return IsWeight(model, node.input(i)); });
}

bool ComputesIntegers(const Node& node) {
  return ops::TraitsNamed(node.op_type()).codes.product != ops::Product::kNone ||
         node.op_type().starts_with("QLinear");
}

// Returns the operator on integers whose result becomes `value`. Between the two stand the product
// with the scales, a bias, or a conversion.
std::optional<Node> IntegerNode(const Model& model, const std::string& value) {
  constexpr int kMostSteps = 6;
  std::vector<std::string> values{value};
  for (int step = 0; step < kMostSteps; ++step) {
    std::vector<std::string> next;
    for (const std::string& name : values) {
      const std::optional<Node> node = model.Producer(name);
      if (!node) continue;
      if (ComputesIntegers(*node)) return node;
      static constexpr std::array<std::string_view, 4> kBetween = {"Mul", "Cast", "Add",
                                                                   "DequantizeLinear"};
      if (std::ranges::find(kBetween, node->op_type()) == kBetween.end()) continue;
      for (size_t i = 0; i < node->num_inputs(); ++i) next.push_back(node->input(i));
    }
    values = std::move(next);
  }
  return std::nullopt;
}

// Returns whether a node does what operators on packed weights do at their end: it adds or limits.
bool IsEnd(const Node& node) {
  static constexpr std::array<std::string_view, 4> kEnds = {"Add", "Relu", "Clip", "LeakyRelu"};
  return node.domain().empty() && std::ranges::find(kEnds, node.op_type()) != kEnds.end();
}

// Returns the node of this kind that alone reads a value.
std::optional<Node> EndBehind(const Model& model, const std::string& value) {
  const std::optional<graph::Use> use = model.OnlyUse(value);
  return use && IsEnd(use->node) ? std::optional(use->node) : std::nullopt;
}

bool IsSameOperator(const Node& node, const Node& other) {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kOthers = {
      {{"MatMul", "MatMulNBits"}, {"Gather", "GatherBlockQuantized"}, {"Gemm", "MatMul"}}};
  return node.op_type() == other.op_type() || std::ranges::any_of(kOthers, [&](const auto& pair) {
           return pair.first == node.op_type() && pair.second == other.op_type();
         });
}

// Returns the node like `layer` in front of at most so many ends: a bias, another summand, limits.
std::optional<Node> LayerBefore(const Model& model, const std::string& value, const Node& layer,
                                int most_ends = 3) {
  const std::optional<Node> node = value.empty() ? std::nullopt : model.Producer(value);
  if (!node || IsSameOperator(layer, *node)) return node;
  if (!IsEnd(*node) || most_ends == 0) return std::nullopt;
  for (size_t i = 0; i < node->num_inputs(); ++i) {
    if (auto found = LayerBefore(model, node->input(i), layer, most_ends - 1)) return found;
    if (node->op_type() != "Add") break;
  }
  return std::nullopt;
}

// Finds layers in the quantized model.
class Finder {
 public:
  Finder(const Model& reference, const Model& quantized) : quantized_(quantized), keys_(reference) {
    for (const Node& node : quantized.AllNodes()) {
      if (!node.name().empty()) by_name_.emplace(node.name(), node);
    }
  }

  MatchedLayer Find(const Model& reference, const Node& node) const {
    MatchedLayer layer{node,         keys_.KeyOf(node), WeightsOf(reference, node),
                       std::nullopt, node.output(0),    ""};
    const std::string value = NameInQuantized(node.output(0));
    if (quantized_.Producer(value)) {
      layer.quantized_output = value;
    } else {
      FindBehind(reference, layer);
    }
    std::optional<Node> found = quantized_.Producer(value);
    if (!found || !IsSameOperator(node, *found)) found = IntegerNode(quantized_, node.output(0));
    if (!found && !node.name().empty()) {
      const auto named = by_name_.find(node.name());
      const bool is_it = named != by_name_.end() &&
                         (IsSameOperator(node, named->second) || ComputesIntegers(named->second));
      if (is_it) found = named->second;
    }
    if (!found) found = LayerBefore(quantized_, layer.quantized_output, node);
    layer.quantized = found;
    return layer;
  }

 private:
  // Returns the name that a value has in the quantized model. A quantizer behind a graph output has
  // its name; the value before it is meant.
  std::string NameInQuantized(const std::string& value) const {
    const auto source = ops::QuantizedFrom(quantized_, value);
    return source && !source->empty() ? *source : value;
  }

  // Finds the value behind the layer's output that both models have.
  void FindBehind(const Model& reference, MatchedLayer& layer) const {
    std::string value = layer.output;
    for (auto end = EndBehind(reference, value); end; end = EndBehind(reference, value)) {
      value = end->output(0);
      const std::string found = NameInQuantized(value);
      if (!quantized_.Producer(found)) continue;
      layer.output = value;
      layer.quantized_output = found;
      return;
    }
  }

  const Model& quantized_;
  plan::NodeIndex keys_;
  std::map<std::string, Node> by_name_;
};

// Returns whether a matrix product transposes what it reads as its input `index`.
bool ReadsTransposed(const Node& node, size_t index) {
  if (index > 1 || !ops::TraitsOf(node).is_matrix_product()) return false;
  return node.GetInt(index == 0 ? "transA" : "transB", 0) != 0;
}

// Transposes a matrix. Other constants stay.
void Transpose(Constant& constant) {
  if (constant.dims.size() != 2) return;
  const auto num_rows = static_cast<size_t>(constant.dims[0]);
  const auto num_columns = static_cast<size_t>(constant.dims[1]);
  std::vector<double> values(constant.values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    values[i % num_columns * num_rows + i / num_columns] = constant.values[i];
  }
  constant.values = std::move(values);
  std::swap(constant.dims[0], constant.dims[1]);
}

std::string InputFormat(const Model& model, const Node& node) {
  if (ComputesIntegers(node)) {
    if (node.op_type().starts_with("QLinear") || node.op_type() == "QGemm") {
      return IntegerFormat(model, node.input(1), node.input(2)).format;
    }
    const auto format = FormatOf(model, node.input(0));
    return format ? format->format : "uint8, dynamic";
  }
  const auto format = FormatOf(
      model,
      node.input(node.op_type().starts_with("Gather") && node.op_type() != "Gather" ? 1 : 0));
  return format ? format->format : "float";
}

// One pass over the layers. It describes each weight once, however many layers read it.
class Describer {
 public:
  Describer(const Model& reference, const Model& quantized, const WeightOptions& options,
            ThreadPool& pool, std::vector<TensorReport>& tensors)
      : reference_(reference),
        quantized_(quantized),
        options_(options),
        pool_(pool),
        tensors_(tensors) {}

  LayerReport Describe(const MatchedLayer& layer) {
    LayerReport report;
    report.node = layer.name;
    report.op_type = layer.node.op_type();
    report.output = layer.output;
    for (size_t i = 0; i < layer.node.num_inputs() && report.input.empty(); ++i) {
      const std::string& value = layer.node.input(i);
      if (!value.empty() && !reference_.IsInitializer(value)) report.input = value;
    }
    if (layer.quantized) {
      report.input_format = InputFormat(quantized_, *layer.quantized);
    } else {
      report.note = "not found in the quantized model";
    }
    for (const size_t i : layer.weights) report.weights.push_back(DescribeWeight(layer, i, report));
    return report;
  }

 private:
  WeightReport DescribeWeight(const MatchedLayer& layer, size_t index, LayerReport& report) {
    const std::string& name = layer.node.input(index);
    WeightReport weight{name, std::nullopt};
    const auto known = noises_.find(name);
    if (known != noises_.end()) {
      weight.noise = known->second;
      return weight;
    }
    const std::optional<Constant> wanted = ReadFloats(reference_, name);
    if (!wanted) return weight;
    TensorReport tensor;
    tensor.name = name;
    tensor.is_weight = true;
    tensor.dims = wanted->dims;
    report::Describe(wanted->values, tensor);
    if (const std::optional<Constant> found = Read(layer, index)) {
      if (found->values.size() == wanted->values.size()) {
        tensor.quantized = CountInto(found->values, tensor.min, tensor.max);
        if (options_.incomparable.empty()) {
          evaluate::OutputComparison comparison;
          comparison.Add(wanted->values, found->values);
          weight.noise = comparison.NoiseRatio();
        } else {
          report.note = options_.incomparable;
        }
      }
    } else if (layer.quantized) {
      report.note = "its weight is stored in a way that is not read here";
    }
    noises_[name] = weight.noise;
    tensors_.push_back(std::move(tensor));
    return weight;
  }

  std::optional<Constant> Read(const MatchedLayer& layer, size_t index) const {
    if (!layer.quantized) return std::nullopt;
    if (!ComputesIntegers(*layer.quantized)) {
      auto constant = ReadInput(quantized_, *layer.quantized, index, pool_);
      if (constant) {
        // A Gemm may have become a MatMul, or an operator on packed weights, which read the
        // transposed matrix. The weight is compared as the float model stores it.
        if (ReadsTransposed(layer.node, index) != ReadsTransposed(*layer.quantized, index)) {
          Transpose(*constant);
        }
        return constant;
      }
    }
    // The node reads codes itself, or they are decoded in the body in which it stands.
    const std::string& name = layer.node.input(index);
    const auto rank = static_cast<int64_t>(reference_.InfoOf(name).shape.size());
    const std::optional<int64_t> axis =
        ops::TraitsOf(layer.node).has_weights_only()
            ? std::optional<int64_t>(0)  // of directions, or experts
            : ops::ChannelAxis(layer.node, index, rank);
    return ReadCodes(quantized_, name, axis);
  }

  const Model& reference_;
  const Model& quantized_;
  const WeightOptions& options_;
  ThreadPool& pool_;
  std::vector<TensorReport>& tensors_;
  std::map<std::string, std::optional<double>> noises_;
};

}  // namespace

std::vector<MatchedLayer> FindLayers(const Model& reference, const Model& quantized) {
  const Finder finder(reference, quantized);
  std::vector<MatchedLayer> layers;
  for (const Node& node : reference.AllNodes()) {
    if (IsLayer(reference, node)) layers.push_back(finder.Find(reference, node));
  }
  return layers;
}

void DescribeLayers(const Model& reference, const Model& quantized,
                    const std::vector<MatchedLayer>& found, const WeightOptions& options,
                    ThreadPool& pool, std::vector<LayerReport>& layers,
                    std::vector<TensorReport>& tensors) {
  Describer describer(reference, quantized, options, pool, tensors);
  for (size_t i = 0; i < found.size(); ++i) {
    layers.push_back(describer.Describe(found[i]));
    if (options.progress) options.progress("read weights", i + 1, found.size());
  }
}

}  // namespace bitpress::report
