#include "ops/multiply_adds.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "ops/compute_ops.h"
#include "ops/expert_inputs.h"
#include "ops/operator_traits.h"
#include "ops/quantizer_nodes.h"

namespace bitpress::ops {
namespace {

using Shape = std::vector<int64_t>;

// The dimensions are multiplied as floating-point numbers, because the count may exceed 64 bits.
double ElementsOf(const Shape& shape) {
  double count = 1;
  for (const int64_t dim : shape) count *= static_cast<double>(dim);
  return count;
}

// Returns what the node sums. An operator on another layout has the name of ONNX's.
Product ProductOf(const graph::Node& node) {
  const std::string& op = node.op_type();
  const OperatorTraits& traits = TraitsNamed(op);
  if (traits.codes.product != Product::kNone) return traits.codes.product;
  if (TraitsOf(node).attention == Attention::kHoldsProjection) return Product::kMatMul;
  if (op == kQMoe) return Product::kExperts;
  const bool is_of_codes = ReadsCodes(node) || op == "MatMulNBits";
  if (is_of_codes && op.starts_with("MatMul")) return Product::kMatMul;
  if (is_of_codes && op.starts_with("Conv")) return Product::kConv;
  return traits.product;
}

// Returns the products of each element of a convolution's output, or of its input where a
// ConvTranspose spreads that.
double ImageProducts(const graph::Node& node, bool is_spread, const ProductShapes& shapes) {
  const Shape& weight = shapes.weight;
  if (weight.size() < 2 || weight[0] == 0) return 0;
  const double window = ElementsOf(weight) / static_cast<double>(weight[0]);
  if (is_spread) return ElementsOf(shapes.data) * window;
  if (!shapes.output.empty()) return ElementsOf(shapes.output) * window;
  // The kernels meet the input at every so many places.
  double depth = static_cast<double>(weight[1] * node.GetInt("group", 1));
  for (const int64_t step : node.GetInts("strides")) depth *= static_cast<double>(step);
  return ElementsOf(shapes.data) / std::max(depth, 1.0) * ElementsOf(weight);
}

// Returns the products of matrices: a row for each element of the output.
double MatrixProducts(const graph::Node& node, const ProductShapes& shapes) {
  const bool is_transposed = node.GetInt("transA", 0) != 0 && shapes.data.size() > 1;
  const int64_t length = shapes.data[shapes.data.size() - (is_transposed ? 2 : 1)];
  if (!shapes.output.empty()) {
    return ElementsOf(shapes.output) * static_cast<double>(length);
  }
  if (shapes.weight.size() < 2) return ElementsOf(shapes.data);
  const size_t columns = shapes.weight.size() - (node.GetInt("transB", 0) != 0 ? 2 : 1);
  return ElementsOf(shapes.data) * static_cast<double>(shapes.weight[columns]);
}

// Returns the products of rows with the first and second weights, [experts, outputs, inputs], of
// those experts that a row is given to. Codes of less than a byte lie several to one.
double ExpertProducts(const graph::Node& node, const ProductShapes& shapes) {
  if (shapes.weight.empty()) return 0;
  const auto length = static_cast<double>(std::max<int64_t>(1, shapes.data.back()));
  const auto num_experts = static_cast<double>(std::max<int64_t>(1, shapes.weight[0]));
  const double codes_each = node.op_type() == kQMoe
                                ? 8 / static_cast<double>(std::max<int64_t>(1, ExpertBits(node, 0)))
                                : 1;
  return ElementsOf(shapes.data) / length * static_cast<double>(node.GetInt("k", 1)) * codes_each *
         (ElementsOf(shapes.weight) + ElementsOf(shapes.states)) / num_experts;
}

}  // namespace

std::pair<size_t, size_t> WeightInputs(const graph::Node& node) {
  if (node.op_type() == kQMoe) return {InputsOfQMoe(0).weight, InputsOfQMoe(1).weight};
  if (TraitsOf(node).has_experts()) return {InputsOfMoe(0).weight, InputsOfMoe(1).weight};
  return {1, 2};
}

double MultiplyAdds(const graph::Node& node, const ProductShapes& shapes) {
  if (shapes.data.empty()) return 0;
  switch (ProductOf(node)) {
    case Product::kConv:
      return ImageProducts(node, /*is_spread=*/false, shapes);
    case Product::kConvTranspose:
      return ImageProducts(node, /*is_spread=*/true, shapes);
    case Product::kGemm:
    case Product::kMatMul:
      return MatrixProducts(node, shapes);
    case Product::kRecurrent:  // each step multiplies its input by one weight, states by the other
      return ElementsOf(shapes.data) /
             static_cast<double>(std::max<int64_t>(1, shapes.data.back())) *
             (ElementsOf(shapes.weight) + ElementsOf(shapes.states));
    case Product::kExperts:  // each row meets the weights of some of the experts
      return ExpertProducts(node, shapes);
    case Product::kNone:
    case Product::kEinsum:
      break;
  }
  if (TraitsOf(node).attention == Attention::kNone) return 0;
  // Queries meet keys, and what they find meets values.
  const Shape& keys = shapes.weight.empty() ? shapes.data : shapes.weight;
  return keys.size() < 2
             ? 0
             : 2 * ElementsOf(shapes.output) * static_cast<double>(keys[keys.size() - 2]);
}

std::vector<int64_t> KnownDims(const graph::Model& model, const std::string& value) {
  Shape dims;
  for (const graph::Dimension& dim : model.InfoOf(value).shape) {
    dims.push_back(std::max<int64_t>(1, dim.value));
  }
  return dims;
}

ProductShapes KnownShapes(const graph::Model& model, const graph::Node& node) {
  const CodeInputs& codes = TraitsNamed(node.op_type()).codes;
  const auto dims_of = [&](size_t input) {
    return input < node.num_inputs() ? KnownDims(model, node.input(input)) : Shape();
  };
  const auto [first, second] = WeightInputs(node);
  ProductShapes shapes;
  shapes.data = dims_of(0);
  shapes.weight = node.GetInts("shape");  // of the codes that our operators read
  if (shapes.weight.empty())
    shapes.weight = dims_of(codes.weight >= 0 ? static_cast<size_t>(codes.weight) : first);
  shapes.states = dims_of(second);
  if (node.num_outputs() > 0) shapes.output = KnownDims(model, node.output(0));
  return shapes;
}

double CountProducts(const graph::Model& model) {
  double sum = 0;
  for (const graph::Node& node : model.AllNodes()) {
    sum += MultiplyAdds(node, KnownShapes(model, node));
  }
  return sum;
}

double UnknownDimensions(const graph::Model& model, std::span<const double> num_elements) {
  double unknown = 1;
  const std::vector<std::string> inputs = model.InputNames();
  for (size_t i = 0; i < std::min(inputs.size(), num_elements.size()); ++i) {
    unknown = std::max(unknown, num_elements[i] / ElementsOf(KnownDims(model, inputs[i])));
  }
  return unknown;
}

}  // namespace bitpress::ops
