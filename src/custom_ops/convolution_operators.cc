// Convolutions with a packed weight, bitpress.Conv_<format>_by_<input format>: straight from the
// codes of the weight, which is arranged for the kernels once, when the session starts. They
// quantize their input themselves.
#include <algorithm>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/thread_pool.h"
#include "custom_ops/operator.h"
#include "custom_ops/packed_inputs.h"
#include "custom_ops/shared_weights.h"
#include "formats/block_convolutions.h"
#include "formats/parameters.h"
#include "kernels/block_convolutions.h"
#include "ort/kernels.h"

namespace bitpress::custom_ops {
namespace {

using formats::ConvolutionFormats;
using formats::ConvolutionShape;
using formats::FormatSpec;
using formats::WeightBlocks;

// Sizes that no product of two overflows.
constexpr int64_t kMostSize = int64_t{1} << 30;

// Returns an attribute of `count` numbers in [least, kMostSize].
std::vector<int64_t> Numbers(const NodeInfo& node, const char* attribute, size_t count,
                             int64_t least) {
  std::vector<int64_t> numbers = node.Ints(attribute);
  const auto is_wrong = [&](int64_t n) { return n < least || n > kMostSize; };
  if (numbers.size() != count || std::ranges::any_of(numbers, is_wrong)) {
    Fail(ErrorCode::kInvalidModel, "attribute {} must have {} numbers from {} on", attribute, count,
         least);
  }
  return numbers;
}

// Returns what a node says of its convolution, whose weight has this shape.
ConvolutionShape ShapeOf(const NodeInfo& node, const std::vector<int64_t>& weight) {
  const auto is_wrong = [](int64_t size) { return size < 1 || size > kMostSize; };
  if ((weight.size() != 3 && weight.size() != 4) || std::ranges::any_of(weight, is_wrong)) {
    Fail(ErrorCode::kInvalidModel,
         "the shape of the weight must have three or four numbers from 1 on");
  }
  const size_t dimensions = weight.size() - 2;
  const std::vector<int64_t> strides = Numbers(node, "strides", dimensions, 1);
  const std::vector<int64_t> dilations = Numbers(node, "dilations", dimensions, 1);
  const std::vector<int64_t> pads = Numbers(node, "pads", 2 * dimensions, 0);
  ConvolutionShape shape;
  shape.outputs = weight[0];
  shape.groups = node.Int("group", 1);
  if (shape.groups < 1 || shape.groups > shape.outputs || shape.outputs % shape.groups != 0) {
    Fail(ErrorCode::kInvalidModel, "attribute group must divide the {} outputs", shape.outputs);
  }
  shape.channels = shape.groups * weight[1];
  for (size_t i = 0; i < dimensions; ++i) {
    const size_t d = 2 - dimensions + i;  // one dimension is the columns of one row
    shape.kernel[d] = weight[2 + i];
    shape.strides[d] = strides[i];
    shape.dilations[d] = dilations[i];
    shape.pads_begin[d] = pads[i];
    shape.pads_end[d] = pads[dimensions + i];
  }
  return shape;
}

WeightBlocks BlocksOf(const PackedInputs& weight, const ConvolutionShape& shape) {
  const auto blocks = formats::WeightBlocksOf(shape, weight.outer, weight.axis, weight.inner);
  if (!blocks) Fail(ErrorCode::kInvalidModel, "attributes blocks and shape do not fit");
  return *blocks;
}

// Returns a number for what a weight of the kernels follows from.
WeightKey KeyOf(const ConvolutionFormats& formats, const ConvolutionShape& shape,
                WeightBlocks blocks, const formats::PackedView& weight) {
  WeightKey key;
  const FormatSpec& input = formats.input;
  for (const std::string_view word :
       {std::string_view(formats.weight.name), std::string_view(input.name),
        formats::ScaleChoiceName(input.scale_choice), formats::RoundingModeName(input.rounding)}) {
    key.Add(word);
  }
  for (const int64_t number :
       {shape.channels, shape.outputs, shape.groups, static_cast<int64_t>(blocks)}) {
    key.Add(number);
  }
  for (const auto& numbers :
       {shape.kernel, shape.strides, shape.dilations, shape.pads_begin, shape.pads_end}) {
    for (const int64_t number : numbers) key.Add(number);
  }
  key.Add(weight);
  return key;
}

std::shared_ptr<const kernels::ConvolutionWeights> WeightsOf(const NodeInfo& node,
                                                             const ConvolutionFormats& as_named) {
  static auto& shared = *new SharedWeights<kernels::ConvolutionWeights>;  // outlives all sessions
  const ConvolutionFormats formats{as_named.weight, QuantizerFormat(node, as_named.input)};
  const PackedInputs weight(node, formats.weight);
  const ConvolutionShape shape = ShapeOf(node, weight.shape);
  const WeightBlocks blocks = BlocksOf(weight, shape);
  const formats::PackedSizes expected =
      formats::SizesOf(formats.weight, weight.outer, weight.axis, weight.inner);
  if (weight.view.codes.size() != expected.codes) {
    Fail(ErrorCode::kInvalidModel, "the codes have {} bytes, expected {}", weight.view.codes.size(),
         expected.codes);
  }
  const WeightKey key = KeyOf(formats, shape, blocks, weight.view);
  return Arranged(shared, key, weight, [&](ThreadPool& pool) {
    return kernels::ConvolutionWeights(formats, shape, blocks, weight.view, pool);
  });
}

// Throws Error(kUnsupported) if padding and dilations, which may be any numbers, make sizes that
// overflow.
void CheckSize(const ConvolutionShape& shape) {
  double size = static_cast<double>(shape.channels) * static_cast<double>(shape.positions());
  for (size_t d = 0; d < shape.input.size(); ++d) {
    size *= static_cast<double>(shape.input[d] + shape.pads_begin[d] + shape.pads_end[d]);
  }
  constexpr double kMost = 0x1p42;
  if (size > kMost) Fail(ErrorCode::kUnsupported, "input 0 with its padding is too large");
}

class ConvolutionKernel : public OperatorKernel {
 public:
  ConvolutionKernel(const NodeInfo& node, const ConvolutionFormats& formats, bool has_other)
      : weights_(WeightsOf(node, formats)),
        num_dimensions_(node.Ints("strides").size()),
        bias_input_(1 + NumParts(formats.weight)),
        has_other_(has_other) {
    output_.slope = node.Float("slope", output_.slope);
    output_.least = node.Float("least", output_.least);
    output_.largest = node.Float("largest", output_.largest);
  }

  void Compute(Ort::KernelContext& context) const override {
    const Ort::ConstValue x = context.GetInput(0), bias = context.GetInput(bias_input_);
    std::vector<int64_t> dims = x.GetTensorTypeAndShapeInfo().GetShape();
    ConvolutionShape shape = weights_->shape();
    if (dims.size() != num_dimensions_ + 2 || dims[1] != shape.channels) {
      Fail(ErrorCode::kInvalidArgument, "input 0 must have {} dimensions and {} channels",
           num_dimensions_ + 2, shape.channels);
    }
    const auto outputs = static_cast<size_t>(shape.outputs);
    if (bias.GetTensorTypeAndShapeInfo().GetElementCount() != outputs) {
      Fail(ErrorCode::kInvalidArgument, "the bias must have {} numbers", outputs);
    }
    for (size_t i = 0; i < num_dimensions_; ++i) {
      const size_t d = 2 - num_dimensions_ + i;
      shape.input[d] = dims[2 + i];
      if (dims[2 + i] > kMostSize) Fail(ErrorCode::kUnsupported, "input 0 is too large");
      if (shape.output(d) < 1) {
        Fail(ErrorCode::kInvalidArgument, "dimension {} of input 0, {}, is below the kernel's",
             2 + i, dims[2 + i]);
      }
      dims[2 + i] = shape.output(d);
    }
    CheckSize(shape);
    dims[1] = shape.outputs;
    kernels::ConvolutionOutput output = output_;
    if (has_other_) {
      const Ort::ConstValue other = context.GetInput(bias_input_ + 1);
      if (other.GetTensorTypeAndShapeInfo().GetShape() != dims) {
        Fail(ErrorCode::kInvalidArgument, "input {} must have the dimensions of the output, [{}]",
             bias_input_ + 1, fmt::join(dims, ", "));
      }
      output.other = other.GetTensorData<float>();
    }
    Ort::UnownedValue y = context.GetOutput(0, dims);
    output.data = y.GetTensorMutableData<float>();
    output.bias = bias.GetTensorData<float>();
    kernels::BlockConvolution convolution(*weights_, dims[0], shape.input, x.GetTensorData<float>(),
                                          output);
    ort::ParallelFor(context, convolution.num_column_tasks(),
                     [&](size_t i) { convolution.RunColumnTask(i); });
    ort::ParallelFor(context, convolution.num_tasks(), [&](size_t i) { convolution.RunTask(i); });
  }

 private:
  std::shared_ptr<const kernels::ConvolutionWeights> weights_;
  kernels::ConvolutionOutput output_;  // its slope and limits
  size_t num_dimensions_;
  size_t bias_input_;
  bool has_other_;
};

using FormatsOfNode = std::function<ConvolutionFormats(const NodeInfo&)>;

// Appends the rows of operators with these names behind "Conv_", for a weight's format or formats
// like it.
void AddConvolutions(const FormatSpec& weight, const std::vector<std::string>& names,
                     const FormatsOfNode& formats_of, std::vector<OperatorSpec>& specs) {
  for (const bool has_other : {false, true}) {
    OperatorSpec spec;
    spec.input_types.assign(1 + NumParts(weight), ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8);
    spec.input_types.front() = ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT;
    spec.input_types.resize(spec.input_types.size() + (has_other ? 2 : 1),
                            ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT);
    spec.shape_rule = has_other ? ShapeRule::kLastInput : ShapeRule::kUnknown;
    spec.make_kernel = [formats_of, has_other](const NodeInfo& node) {
      return std::make_unique<ConvolutionKernel>(node, formats_of(node), has_other);
    };
    for (const ONNXTensorElementDataType type : CodeTypes(weight)) {
      spec.input_types[1] = type;
      for (const std::string& name : names) {
        spec.name = fmt::format("{}_{}", has_other ? "ConvAdd" : "Conv", name);
        specs.push_back(spec);
      }
    }
  }
}

// Returns the formats that a node has as attributes.
ConvolutionFormats FormatsOf(const NodeInfo& node, const FormatSpec& base) {
  ConvolutionFormats formats{WeightFormat(node, base), FormatAttribute(node, "input_format")};
  std::string why = formats::WhyNoConvolution(formats);
  if (why.empty()) why = formats::WhyNoProduct({formats.weight, std::nullopt});
  if (!why.empty()) Fail(ErrorCode::kInvalidModel, "attributes format and input_format: {}", why);
  return formats;
}

}  // namespace

void AddConvolutionOperators(std::vector<OperatorSpec>& specs) {
  const std::span<const FormatSpec> all = formats::AllFormats();
  for (const FormatSpec& weight : all) {
    for (const FormatSpec& input : all) {
      if (formats::HasParameters(weight) || formats::HasParameters(input) ||
          weight.block_size != input.block_size) {
        continue;
      }
      const ConvolutionFormats formats{weight, input};
      if (!formats::WhyNoConvolution(formats).empty()) continue;
      std::vector<std::string> names{fmt::format("{}_by_{}", weight.name, input.name)};
      // Weights that need the general decoder have a function, and so a name, of their own.
      if (weight.is_blocked()) {
        names.push_back(fmt::format("{}_padded_by_{}", weight.name, input.name));
      }
      AddConvolutions(
          weight, names, [formats](const NodeInfo&) { return formats; }, specs);
    }
  }
  std::vector<FormatSpec> bases = ParametricFormats();
  for (const FormatSpec& row : all) {
    const bool is_base = !formats::ParametersOf(row.name).empty();
    if (!is_base && formats::WhyNoProduct({row, std::nullopt}).empty()) bases.push_back(row);
  }
  for (const FormatSpec& base : bases) {
    AddConvolutions(
        base, NumberedNames(base), [base](const NodeInfo& node) { return FormatsOf(node, base); },
        specs);
  }
}

}  // namespace bitpress::custom_ops
