// The operators that quantize and dequantize in one step: Quark's two for block formats, and ours,
// one for each format.
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "base/error.h"
#include "custom_ops/block_node.h"
#include "custom_ops/operator.h"
#include "formats/format_spec.h"
#include "formats/parameters.h"
#include "formats/quark.h"
#include "kernels/fake_quantize.h"
#include "ort/kernels.h"

namespace bitpress::custom_ops {
namespace {

using formats::FormatSpec;

// Runs a quantizer on a processor.
class FakeQuantizeKernel : public OperatorKernel {
 public:
  explicit FakeQuantizeKernel(BlockNode node) : node_(std::move(node)) {}

  void Compute(Ort::KernelContext& context) const override {
    const Ort::ConstValue x = context.GetInput(0);
    const Ort::TensorTypeAndShapeInfo info = x.GetTensorTypeAndShapeInfo();
    const std::vector<int64_t> dims = info.GetShape();
    Ort::UnownedValue y = context.GetOutput(0, dims);
    const size_t count = info.GetElementCount();
    const bool is_half = info.GetElementType() == ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16;
    if (node_.PassesThrough(count)) {
      std::memcpy(y.GetTensorMutableRawData(), x.GetTensorRawData(),
                  is_half ? sizeof(uint16_t) : sizeof(float));
      return;
    }
    const cuda::Shape shape = node_.ShapeOf(dims, count);
    const kernels::FakeQuantizer quantizer(node_.spec(), shape.outer, shape.length, shape.inner);
    if (is_half) {
      const auto* in = static_cast<const uint16_t*>(x.GetTensorRawData());
      auto* out = static_cast<uint16_t*>(y.GetTensorMutableRawData());
      ort::ParallelFor(context, quantizer.num_tasks(),
                       [&](size_t task) { quantizer.RunTaskHalf(task, in, out); });
    } else {
      const float* in = x.GetTensorData<float>();
      float* out = y.GetTensorMutableData<float>();
      ort::ParallelFor(context, quantizer.num_tasks(),
                       [&](size_t task) { quantizer.RunTask(task, in, out); });
    }
  }

 private:
  BlockNode node_;
};

using NodeFactory = std::function<BlockNode(const NodeInfo&)>;

// Appends a row for each provider and type.
void AddForFloats(const std::string& name, const NodeFactory& make_node,
                  std::vector<OperatorSpec>& specs) {
  for (const Provider provider : {Provider::kCpu, Provider::kCuda}) {
    for (const auto type :
         {ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16}) {
      OperatorSpec spec;
      spec.name = name;
      spec.provider = provider;
      spec.input_types = {type};
      spec.output_type = type;
      spec.may_run_in_place = true;
      spec.make_kernel = [make_node, provider](const NodeInfo& node) {
        return provider == Provider::kCuda ? MakeCudaBlockKernel(make_node(node))
                                           : std::make_unique<FakeQuantizeKernel>(make_node(node));
      };
      specs.push_back(std::move(spec));
    }
  }
}

BlockNode QuarkNode(const NodeInfo& node, FormatSpec spec) {
  // The attribute scale_choice is our addition. Quark itself knows `floor` only.
  spec.scale_choice = formats::ParseScaleChoice(node.String("scale_choice", "floor"));
  return {node, std::move(spec), AxisRule::kQuark};
}

BlockNode MxNode(const NodeInfo& node) {
  formats::QuarkMxAttributes attributes;
  const std::string element_dtype =
      node.String("element_dtype", std::string(attributes.element_dtype));
  attributes.element_dtype = element_dtype;
  attributes.block_size = node.Int("block_size", attributes.block_size);
  attributes.rounding_mode = node.Int("rounding_mode", attributes.rounding_mode);
  return QuarkNode(node, formats::QuarkSpec(attributes));
}

BlockNode BfpNode(const NodeInfo& node) {
  for (const char* unsupported :
       {"convert_to_bfloat_before_bfp", "use_compiler_version_cpu_kernel"}) {
    if (node.Int(unsupported, 0) != 0) {
      Fail(ErrorCode::kUnsupported, "attribute {} other than 0 is not supported", unsupported);
    }
  }
  formats::QuarkBfpAttributes attributes;
  const std::string method = node.String("bfp_method", std::string(attributes.bfp_method));
  attributes.bfp_method = method;
  attributes.bit_width = node.Int("bit_width", attributes.bit_width);
  attributes.block_size = node.Int("block_size", attributes.block_size);
  attributes.rounding_mode = node.Int("rounding_mode", attributes.rounding_mode);
  attributes.sub_block_size = node.Int("sub_block_size", attributes.sub_block_size);
  attributes.sub_block_shift_bits =
      node.Int("sub_block_shift_bits", attributes.sub_block_shift_bits);
  return QuarkNode(node, formats::QuarkSpec(attributes));
}

// Reads a node of one of our operators. The format is in the operator's name; scale choice and
// rounding are attributes.
BlockNode OurNode(const NodeInfo& node, FormatSpec spec) {
  return {node, QuantizerFormat(node, std::move(spec)), AxisRule::kOurs};
}

// Reads a node of one of our operators whose format has its parameters in attributes.
BlockNode ParametricNode(const NodeInfo& node, std::string_view base) {
  return OurNode(node, formats::MakeFormat(base, [&](const formats::FormatParameter& parameter) {
                   return node.Int(std::string(parameter.attribute).c_str(), parameter.fallback);
                 }));
}

}  // namespace

void AddQuarkBlockOperators(const QuarkNames& names, std::vector<OperatorSpec>& specs) {
  AddForFloats(names.mx, MxNode, specs);
  AddForFloats(names.bfp, BfpNode, specs);
}

void AddBitpressOperators(std::vector<OperatorSpec>& specs) {
  for (const FormatSpec& row : formats::AllFormats()) {
    if (row.is_integer() || !formats::ParametersOf(row.name).empty()) continue;
    AddForFloats(
        "QuantizeDequantize_" + row.name,
        [row](const NodeInfo& node) { return OurNode(node, row); }, specs);
  }
  for (const std::string_view base : formats::ParametricBases()) {
    AddForFloats(
        fmt::format("QuantizeDequantize_{}", base),
        [base](const NodeInfo& node) { return ParametricNode(node, base); }, specs);
  }
}

}  // namespace bitpress::custom_ops
