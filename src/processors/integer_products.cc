#include "processors/integer_products.h"

#include <span>
#include <string_view>

#include "formats/pair_sums.h"
#include "ops/operator_traits.h"

namespace bitpress::processors {
namespace {

using graph::Model;
using graph::Node;

std::string InputOf(const Node& node, int input) {
  const bool is_there = input >= 0 && static_cast<size_t>(input) < node.num_inputs();
  return is_there ? node.input(static_cast<size_t>(input)) : std::string();
}

DataType TypeOf(const Model& model, const std::string& value) {
  return value.empty() ? DataType::kUndefined : model.InfoOf(value).type;
}

// Returns whether the activations may be uint8. Operators that quantize them inside make them
// uint8.
bool AreBytes(const Model& model, const Node& node, const ops::CodeInputs& codes) {
  if (codes.activation_zero_point < 0) return true;
  const DataType of_zero_point = TypeOf(model, InputOf(node, codes.activation_zero_point));
  const DataType type = of_zero_point != DataType::kUndefined
                            ? of_zero_point
                            : TypeOf(model, InputOf(node, codes.activations));
  return type == DataType::kUInt8 || type == DataType::kUndefined;
}

// A value before the Transpose of its last two dimensions, if there is one. ONNX Runtime folds the
// Transpose of a constant at load, but not of one that callers may replace.
struct Unturned {
  std::string name;
  bool is_swapped = false;
};
Unturned BehindTranspose(const Model& model, const std::string& value) {
  const std::optional<Node> producer = value.empty() ? std::nullopt : model.Producer(value);
  if (!producer || producer->op_type() != "Transpose") return {value, false};
  const std::vector<int64_t> perm = producer->GetInts("perm");
  const size_t rank = perm.size();
  if (rank < 2) return {value, false};
  for (size_t i = 0; i < rank; ++i) {
    const size_t wanted = i + 2 < rank ? i : 2 * rank - 3 - i;
    if (perm[i] != static_cast<int64_t>(wanted)) return {value, false};
  }
  return {producer->input(0), true};
}

// Returns whether a matrix is stored as [outputs, inputs]. `is_swapped`: a Transpose turns it.
bool IsTransposed(const Node& node, bool is_swapped) {
  return (node.GetInt("transB", 0) != 0) != is_swapped;
}

ops::SumLayout MatrixLayout(std::span<const int64_t> dims, bool is_transposed) {
  return ops::MatrixSums(dims, is_transposed ? ops::SummedDim::kLast : ops::SummedDim::kSecondLast);
}

std::optional<ops::SumLayout> LayoutOf(const Node& node, const ops::CodeInputs& codes,
                                       bool is_swapped, std::span<const int64_t> dims) {
  if (NumElements(dims) == 0) return std::nullopt;
  if (codes.product == ops::Product::kConv) {
    if (is_swapped) return std::nullopt;
    const int64_t group = node.GetInt("group", 1);
    if (dims.size() < 3 || group < 1 || dims[0] % group != 0) return std::nullopt;
    return ops::ConvSums(dims, group);
  }
  if (dims.size() < 2) return std::nullopt;
  return MatrixLayout(dims, IsTransposed(node, is_swapped));
}

bool IsInt8Constant(const Model& model, const std::string& value) {
  return !value.empty() && model.IsInitializer(value) && !model.IsDeferred(value) &&
         model.InfoOf(value).type == DataType::kInt8;
}

// Returns the DequantizeLinear that gives a value. Null if another node does, or if it has blocks.
std::optional<Node> DequantizerOf(const Model& model, const std::string& value) {
  std::optional<Node> producer = value.empty() ? std::nullopt : model.Producer(value);
  const bool is_one = producer && producer->op_type() == "DequantizeLinear" &&
                      producer->GetInt("block_size", 0) == 0;
  return is_one ? producer : std::nullopt;
}

// Returns the product of a float operator whose activation and weight are both dequantized.
std::optional<IntegerProduct> BetweenPairs(const Model& model, const Node& node) {
  const std::optional<Node> data = DequantizerOf(model, InputOf(node, 0));
  const Unturned floats = BehindTranspose(model, InputOf(node, 1));
  const std::optional<Node> weight = DequantizerOf(model, floats.name);
  if (!data || !weight) return std::nullopt;
  const Unturned codes = BehindTranspose(model, weight->input(0));
  if (!IsInt8Constant(model, codes.name)) return std::nullopt;
  // ONNX Runtime rewrites int8 activations between such pairs for uint8, with codes 128 higher.
  const DataType of_zero_point = TypeOf(model, InputOf(*data, 2));
  if (of_zero_point != DataType::kUInt8 && of_zero_point != DataType::kInt8 &&
      of_zero_point != DataType::kUndefined) {
    return std::nullopt;
  }
  const bool is_image = ops::TraitsOf(node).is_convolution();
  const bool is_swapped = floats.is_swapped != codes.is_swapped;
  const auto dims = model.Initializer(codes.name).dims;
  std::optional<ops::SumLayout> sums = ops::PairSums(node, 1, dims, /*is_dynamic=*/false);
  if (!sums || (is_image && is_swapped)) return std::nullopt;
  const bool is_transposed = !is_image && IsTransposed(node, is_swapped);
  if (is_swapped) sums = MatrixLayout(dims, is_transposed);
  return IntegerProduct{node, codes.name, InputOf(*weight, 2), is_image, is_transposed, *sums};
}

}  // namespace

std::vector<kernels::SaturatingPair> IntegerProduct::Pairs(const Model& model) const {
  const std::span<const int8_t> codes = model.Initializer(weight).values<int8_t>();
  std::vector<kernels::SaturatingPair> pairs;
  for (int64_t sum = 0; sum < sums.num_sums; ++sum) {
    const int64_t first_channel = sum / sums.sums_per_group * sums.channels;
    for (int64_t i = 0; i + 1 < sums.length; i += 2) {
      const int32_t first = codes[sums.ElementOf(sum, i)];
      const int32_t second = codes[sums.ElementOf(sum, i + 1)];
      if (formats::FitsPairSum({first, second}, {})) continue;
      const auto channel = [&](int64_t at) {
        return static_cast<int32_t>(first_channel + at % sums.channels);
      };
      const auto position = [&](int64_t at) { return static_cast<int32_t>(at / sums.channels); };
      pairs.push_back({static_cast<int32_t>(sum),
                       {channel(i), channel(i + 1)},
                       {position(i), position(i + 1)},
                       {first, second}});
    }
  }
  return pairs;
}

std::vector<IntegerProduct> SaturatingKernels(const Model& model) {
  std::vector<IntegerProduct> products;
  for (const Node& node : model.AllNodes()) {
    if (std::optional<IntegerProduct> product = BetweenPairs(model, node)) {
      products.push_back(*std::move(product));
      continue;
    }
    const ops::CodeInputs& codes = ops::TraitsNamed(node.op_type()).codes;
    if (codes.product == ops::Product::kNone || !codes.adds_pairs || !AreBytes(model, node, codes))
      continue;
    const bool is_image = codes.product == ops::Product::kConv;
    for (const int input : {codes.weight, codes.also_weight}) {
      const auto [weight, is_swapped] = BehindTranspose(model, InputOf(node, input));
      if (!IsInt8Constant(model, weight)) continue;
      const std::optional<ops::SumLayout> sums =
          LayoutOf(node, codes, is_swapped, model.Initializer(weight).dims);
      if (!sums) continue;
      products.push_back({node, weight, InputOf(node, codes.weight_zero_point), is_image,
                          !is_image && IsTransposed(node, is_swapped), *sums});
    }
  }
  return products;
}

std::vector<SaturatingNode> FindSaturatingNodes(const Model& model) {
  std::vector<SaturatingNode> nodes;
  std::optional<Node> before;
  for (const IntegerProduct& product : SaturatingKernels(model)) {
    const uint64_t num_pairs = product.Pairs(model).size();
    if (num_pairs == 0) continue;
    const Node& node = product.node;
    if (!before || !(*before == node)) {
      nodes.push_back({node.name().empty() ? node.output(0) : node.name(), node.op_type(), 0, 0});
    }
    before = node;
    nodes.back().num_pairs += num_pairs;
    nodes.back().num_all_pairs += static_cast<uint64_t>(product.sums.num_sums) *
                                  static_cast<uint64_t>(product.sums.length / 2);
  }
  return nodes;
}

}  // namespace bitpress::processors
