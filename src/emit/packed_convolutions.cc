#include "emit/packed_convolutions.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "emit/integer_codes.h"
#include "emit/portable_functions.h"
#include "formats/block_convolutions.h"
#include "kernels/block_products.h"
#include "kernels/cpu_target.h"
#include "ops/following_limits.h"
#include "ops/quantizer_nodes.h"
#include "weights/convolution_nodes.h"

namespace bitpress::emit {
namespace {

using formats::ConvolutionShape;
using graph::Model;
using graph::Node;
using graph::Use;
using weights::PackedConvolution;
using weights::PackedWeight;

// The most products of floats that an output of an ungrouped convolution may sum. It lets first
// layers through, which take as long as ONNX Runtime's. Larger ones take up to twice as long where
// the planes are small (docs/benchmarks/products.md).
constexpr int64_t kMostFloats = 256;
// The most channels, of a group if there are any, and the most positions of the kernel of first
// layers and depthwise convolutions.
constexpr int64_t kFewChannels = 4;
constexpr int64_t kFewTaps = 64;
// The output positions that kernels compute at a time.
constexpr int64_t kVectorPositions = 16;
// A LeakyRelu without the attribute has this slope.
constexpr float kLeakyReluAlpha = 0.01F;

std::vector<int64_t> IntsOr(const Node& node, const char* attribute, size_t count,
                            int64_t fallback) {
  return node.HasAttribute(attribute) ? node.GetInts(attribute)
                                      : std::vector<int64_t>(count, fallback);
}

// Returns our quantizer of a convolution's input.
std::optional<Node> QuantizerOf(const Model& model, const Node& convolution) {
  std::optional<Node> producer = model.Producer(convolution.input(0));
  const bool is_ours = producer && producer->domain() == "bitpress" && ops::IsQuantizer(*producer);
  return is_ours ? producer : std::nullopt;
}

// Returns whether attributes have as many numbers as the kernel has dimensions, and usable ones.
// Models from elsewhere may have others.
bool HasUsualAttributes(const Node& node, const PackedWeight& weight) {
  const size_t dimensions = weight.shape.size() - 2;
  constexpr int64_t kMost = int64_t{1} << 30;
  const auto are = [&](const char* attribute, size_t count, int64_t least) {
    const std::vector<int64_t> numbers = IntsOr(node, attribute, count, least);
    return numbers.size() == count && std::ranges::all_of(numbers, [&](int64_t number) {
             return number >= least && number <= kMost;
           });
  };
  const int64_t group = node.GetInt("group", 1);
  return are("strides", dimensions, 1) && are("dilations", dimensions, 1) &&
         are("pads", 2 * dimensions, 0) && group > 0 && weight.shape[0] % group == 0;
}

// Returns the padding of a Conv; nothing if it depends on sizes that the model does not say.
// REQUIRES: QuantizerOf(model, node) and HasUsualAttributes(node, weight).
std::optional<std::vector<int64_t>> PadsOf(const Model& model, const Node& node,
                                           const PackedWeight& weight) {
  const size_t dimensions = weight.shape.size() - 2;
  const std::string automatic = node.GetString("auto_pad", "NOTSET");
  if (automatic == "NOTSET") return IntsOr(node, "pads", 2 * dimensions, 0);
  std::vector<int64_t> pads(2 * dimensions, 0);
  if (automatic == "VALID") return pads;
  if (automatic != "SAME_UPPER" && automatic != "SAME_LOWER") return std::nullopt;
  const std::vector<int64_t> strides = IntsOr(node, "strides", dimensions, 1);
  const std::vector<int64_t> dilations = IntsOr(node, "dilations", dimensions, 1);
  // A quantizer's output may have no known shape, and has that of its input.
  const graph::ValueInfo info = model.InfoOf(QuantizerOf(model, node)->input(0));
  for (size_t d = 0; d < dimensions; ++d) {
    const int64_t reach = dilations[d] * (weight.shape[d + 2] - 1) + 1;
    int64_t total = reach - 1;
    if (strides[d] != 1) {
      if (!info.has_shape || info.shape.size() != dimensions + 2 || info.shape[d + 2].value <= 0) {
        return std::nullopt;
      }
      const int64_t size = info.shape[d + 2].value;
      const int64_t outputs = (size + strides[d] - 1) / strides[d];
      total = std::max<int64_t>(0, (outputs - 1) * strides[d] + reach - size);
    }
    const int64_t smaller = total / 2, larger = total - smaller;
    pads[d] = automatic == "SAME_UPPER" ? smaller : larger;
    pads[dimensions + d] = automatic == "SAME_UPPER" ? larger : smaller;
  }
  return pads;
}

// Returns what a weight and its Conv say of the shape. A kernel of any dimensions is one of as many
// positions.
ConvolutionShape ShapeOf(const Node& convolution, const PackedWeight& weight) {
  ConvolutionShape shape;
  shape.groups = convolution.GetInt("group", 1);
  shape.channels = shape.groups * weight.shape[1];
  shape.outputs = weight.shape[0];
  shape.kernel[0] = weight.view.num_elements() / (weight.shape[0] * weight.shape[1]);
  return shape;
}

// Returns the standard node that alone reads a value.
std::optional<Node> OnlyReader(const Model& model, const std::string& value, const char* op_type) {
  const std::optional<Use> use = model.OnlyUse(value);
  return use && IsStandardOp(use->node, op_type) ? std::optional(use->node) : std::nullopt;
}

bool HaveSameShape(const Model& model, const std::string& x, const std::string& y) {
  const graph::ValueInfo a = model.InfoOf(x), b = model.InfoOf(y);
  if (!a.has_shape || !b.has_shape || a.shape.size() != b.shape.size()) return false;
  for (size_t d = 0; d < a.shape.size(); ++d) {
    const bool is_known = a.shape[d].value > 0 || !a.shape[d].symbol.empty();
    if (!is_known || a.shape[d].value != b.shape[d].value ||
        a.shape[d].symbol != b.shape[d].symbol) {
      return false;
    }
  }
  return true;
}

// Takes what follows a convolution into it. Returns the last of these nodes.
class Followers {
 public:
  Followers(const Model& model, const Node& convolution, PackedConvolution& into)
      : model_(model), into_(into), nodes_{convolution} {
    TakeAdd();
    if (!TakeLimits()) TakeLeakyRelu();
  }
  const std::vector<Node>& nodes() const { return nodes_; }

 private:
  const std::string& value() const { return nodes_.back().output(0); }

  void TakeAdd() {
    const std::optional<Node> add = OnlyReader(model_, value(), "Add");
    if (!add || add->input(0) == add->input(1)) return;
    const std::string& other = add->input(add->input(0) == value() ? 1 : 0);
    if (model_.IsInitializer(other) || !HaveSameShape(model_, value(), other)) return;
    into_.other = other;
    nodes_.push_back(*add);
  }

  bool TakeLimits() {
    const std::optional<ops::FollowingLimits> limits = ops::LimitsBehind(model_, value());
    if (!limits) return false;
    into_.least = limits->least;
    into_.largest = limits->largest;
    nodes_.push_back(limits->node);
    return true;
  }

  void TakeLeakyRelu() {
    const std::optional<Node> leaky = OnlyReader(model_, value(), "LeakyRelu");
    if (!leaky) return;
    into_.slope = leaky->GetFloat("alpha", kLeakyReluAlpha);
    if (weights::HasConvolutionName(model_, into_)) {
      nodes_.push_back(*leaky);
    } else {
      into_.slope.reset();
    }
  }

  const Model& model_;
  PackedConvolution& into_;
  std::vector<Node> nodes_;
};

// Returns why a convolution whose products are those of floats is left to ONNX Runtime, as a
// clause; "" if it is not.
std::string WhyTooManyFloats(const ConvolutionShape& shape, plan::CodeReaders readers) {
  const int64_t channels = shape.channels_of_group();
  if (shape.groups == 1 && channels * shape.positions() > kMostFloats) {
    return "its products are those of floats";
  }
  if (shape.groups > 1 && channels > kFewChannels) return "its groups have many channels";
  const bool is_small = channels <= kFewChannels && shape.positions() <= kFewTaps;
  return is_small || readers == plan::CodeReaders::kAll
             ? ""
             : "ONNX Runtime's Conv is faster: its products are those of floats";
}

// Returns whether the output of a convolution is known to have fewer positions than kernels compute
// at a time.
bool HasFewPositions(const Model& model, const Node& convolution) {
  const graph::ValueInfo output = model.InfoOf(convolution.output(0));
  if (!output.has_shape) return false;
  int64_t num_positions = 1;
  for (size_t i = 2; i < output.shape.size(); ++i) {
    if (output.shape[i].value <= 0) return false;
    num_positions *= std::min(output.shape[i].value, kVectorPositions);
  }
  return num_positions < kVectorPositions;
}

// Returns whether kernels multiply floats faster than ONNX Runtime does behind a quantizer. Tiles
// and dot products of bfloat16 are several times as fast. Vectors are as fast as its own where a
// kernel has one position, and quantize on the way (docs/benchmarks/products.md). So they are for
// sums of few channels, which are chains: depthwise and first layers.
bool IsQuickOfFloats(const ConvolutionShape& shape, formats::ProductSums sums) {
  const std::string_view vectors = kernels::CurrentVectors();
  const bool suits_vectors = sums == formats::ProductSums::kChain || shape.positions() == 1;
  return kernels::HasQuickParts() || (suits_vectors && (vectors == "AVX3" || vectors == "AVX2"));
}

}  // namespace

std::string WhyNoPackedConvolution(const Model& model, const Use& use, const PackedWeight& weight,
                                   plan::CodeReaders readers) {
  const Node& node = use.node;
  if (use.input_index != 1) return "it is no weight of its Conv";
  if (weight.integer) return "it has integers";
  if (weight.shape.size() != 3 && weight.shape.size() != 4) {
    return fmt::format("convolutions over {} dimensions have no operator", weight.shape.size() - 2);
  }
  if (!HasUsualAttributes(node, weight)) return "the attributes of its Conv are unusual";
  const ConvolutionShape shape = ShapeOf(node, weight);
  const auto& [outer, axis, inner] = weight.view;
  const auto blocks = formats::WeightBlocksOf(shape, outer, axis, inner);
  if (!blocks) return "its blocks run along no channels";
  const std::optional<Node> quantizer = QuantizerOf(model, node);
  if (!quantizer) return "the input of its Conv is not quantized";
  const formats::FormatSpec input = FormatOfQuantizer(*quantizer);
  if (input.block_size != weight.spec.block_size) {
    return fmt::format("the input of its Conv is {}", input.name);
  }
  if (input.is_blocked() && quantizer->GetInt("axis", 1) != 1) {
    return "the input's blocks run along no channels";
  }
  if (model.InfoOf(quantizer->input(0)).type != DataType::kFloat) return "its Conv is not float32";
  const formats::ConvolutionFormats formats{weight.spec, input};
  if (std::string why = formats::WhyNoConvolution(formats); !why.empty()) return why;
  if (std::string why = formats::WhyNoProduct({weight.spec, std::nullopt}); !why.empty()) {
    return why;
  }
  if (!PadsOf(model, node, weight)) return "the padding depends on the input";
  const formats::ProductSums sums = formats::SumsOf(formats, shape, *blocks);
  if (sums == formats::ProductSums::kChain) {
    if (std::string why = WhyTooManyFloats(shape, readers); !why.empty()) return why;
  }
  const bool is_of_floats = sums == formats::ProductSums::kParts || !input.is_blocked();
  if (is_of_floats && readers == plan::CodeReaders::kQuick && !IsQuickOfFloats(shape, sums)) {
    return "ONNX Runtime's Conv is faster: its products are those of floats, and there is neither "
           "AMX nor a fast AVX512_BF16";
  }
  if (readers == plan::CodeReaders::kQuick && HasFewPositions(model, node)) {
    return "ONNX Runtime's Conv is faster: its output has few positions";
  }
  return weights::WhyNoConvolutionName(model, weight, input);
}

void ReplaceConvolution(Model& model, const Node& unpack, const PackedWeight& weight,
                        const Node& convolution, const std::function<std::string(int64_t)>& zeros) {
  const size_t dimensions = weight.shape.size() - 2;
  const Node quantizer = *QuantizerOf(model, convolution);
  PackedConvolution packed{unpack, weight, quantizer.input(0), FormatOfQuantizer(quantizer)};
  packed.strides = IntsOr(convolution, "strides", dimensions, 1);
  packed.dilations = IntsOr(convolution, "dilations", dimensions, 1);
  packed.pads = *PadsOf(model, convolution, weight);
  packed.group = convolution.GetInt("group", 1);
  const bool has_bias = convolution.num_inputs() > 2 && !convolution.input(2).empty();
  packed.bias = has_bias ? convolution.input(2) : zeros(weight.shape[0]);
  packed.name = convolution.name();
  const Followers followers(model, convolution, packed);
  const Node& last = followers.nodes().back();
  packed.output = last.output(0);
  model.Replace(followers.nodes(), [&] { weights::InsertConvolution(model, packed, last); });
}

}  // namespace bitpress::emit
