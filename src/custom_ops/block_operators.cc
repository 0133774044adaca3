// The operators that quantize and dequantize in one step: Quark's two for block formats, and ours,
// one for each format.
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "base/error.h"
#include "custom_ops/operator.h"
#include "formats/format_spec.h"
#include "formats/parameters.h"
#include "formats/quark.h"
#include "kernels/fake_quantize.h"
#include "ort/kernels.h"

namespace bitpress::custom_ops {
namespace {

using formats::FormatSpec;

// The meaning of `axis`. Quark's operators leave tensors of one element alone and ignore the axis
// of vectors.
enum class AxisRule { kOurs, kQuark };

class FakeQuantizeKernel : public OperatorKernel {
 public:
  FakeQuantizeKernel(const NodeInfo& node, FormatSpec spec, AxisRule rule)
      : spec_(std::move(spec)), axis_(node.Int("axis", 1)), rule_(rule) {
    formats::Validate(spec_);
    if (const std::optional<int64_t> rank = node.InputRank(0)) Axis(*rank);
  }

  void Compute(Ort::KernelContext& context) const override {
    const Ort::ConstValue x = context.GetInput(0);
    const Ort::TensorTypeAndShapeInfo info = x.GetTensorTypeAndShapeInfo();
    const std::vector<int64_t> dims = info.GetShape();
    Ort::UnownedValue y = context.GetOutput(0, dims);
    const size_t count = info.GetElementCount();
    const bool is_half = info.GetElementType() == ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16;
    if (rule_ == AxisRule::kQuark && count == 1) {
      std::memcpy(y.GetTensorMutableRawData(), x.GetTensorRawData(),
                  is_half ? sizeof(uint16_t) : sizeof(float));
      return;
    }
    int64_t outer = 1, length = 1, inner = 1;
    if (spec_.is_blocked() && !dims.empty()) {
      const int64_t axis = Axis(static_cast<int64_t>(dims.size()));
      for (int64_t i = 0; i < axis; ++i) outer *= dims[static_cast<size_t>(i)];
      length = dims[static_cast<size_t>(axis)];
      for (size_t i = static_cast<size_t>(axis) + 1; i < dims.size(); ++i) inner *= dims[i];
    } else {
      length = static_cast<int64_t>(count);
    }
    const kernels::FakeQuantizer quantizer(spec_, outer, length, inner);
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
  // Returns the axis counted from the front. Throws if a tensor of this rank has no such axis.
  int64_t Axis(int64_t rank) const {
    if (!spec_.is_blocked()) return 0;
    if (rule_ == AxisRule::kQuark && rank == 1) return 0;
    return AxisFromFront(axis_, rank);
  }

  FormatSpec spec_;
  int64_t axis_;
  AxisRule rule_;
};

// Appends a row for float32 and one for float16.
void AddForFloats(const std::string& name, const KernelFactory& make_kernel,
                  std::vector<OperatorSpec>& specs) {
  for (const auto type :
       {ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16}) {
    OperatorSpec spec;
    spec.name = name;
    spec.input_types = {type};
    spec.output_type = type;
    spec.may_run_in_place = true;
    spec.make_kernel = make_kernel;
    specs.push_back(std::move(spec));
  }
}

std::unique_ptr<OperatorKernel> MakeQuarkKernel(const NodeInfo& node, FormatSpec spec) {
  // The attribute scale_choice is our addition. Quark itself knows `floor` only.
  spec.scale_choice = formats::ParseScaleChoice(node.String("scale_choice", "floor"));
  return std::make_unique<FakeQuantizeKernel>(node, std::move(spec), AxisRule::kQuark);
}

std::unique_ptr<OperatorKernel> MakeMx(const NodeInfo& node) {
  formats::QuarkMxAttributes attributes;
  const std::string element_dtype =
      node.String("element_dtype", std::string(attributes.element_dtype));
  attributes.element_dtype = element_dtype;
  attributes.block_size = node.Int("block_size", attributes.block_size);
  attributes.rounding_mode = node.Int("rounding_mode", attributes.rounding_mode);
  return MakeQuarkKernel(node, formats::QuarkSpec(attributes));
}

std::unique_ptr<OperatorKernel> MakeBfp(const NodeInfo& node) {
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
  return MakeQuarkKernel(node, formats::QuarkSpec(attributes));
}

// Makes the kernel of one of our operators. The format is in the operator's name; scale choice and
// rounding are attributes.
std::unique_ptr<OperatorKernel> MakeOurs(const NodeInfo& node, FormatSpec spec) {
  return std::make_unique<FakeQuantizeKernel>(node, QuantizerFormat(node, std::move(spec)),
                                              AxisRule::kOurs);
}

// Makes the kernel of one of our operators whose format has its parameters in attributes.
std::unique_ptr<OperatorKernel> MakeParametric(const NodeInfo& node, std::string_view base) {
  return MakeOurs(node, formats::MakeFormat(base, [&](const formats::FormatParameter& parameter) {
                    return node.Int(std::string(parameter.attribute).c_str(), parameter.fallback);
                  }));
}

}  // namespace

void AddQuarkBlockOperators(const QuarkNames& names, std::vector<OperatorSpec>& specs) {
  AddForFloats(names.mx, MakeMx, specs);
  AddForFloats(names.bfp, MakeBfp, specs);
}

void AddBitpressOperators(std::vector<OperatorSpec>& specs) {
  for (const FormatSpec& row : formats::AllFormats()) {
    if (row.is_integer() || !formats::ParametersOf(row.name).empty()) continue;
    AddForFloats(
        "QuantizeDequantize_" + row.name,
        [row](const NodeInfo& node) { return MakeOurs(node, row); }, specs);
  }
  for (const std::string_view base : formats::ParametricBases()) {
    AddForFloats(
        fmt::format("QuantizeDequantize_{}", base),
        [base](const NodeInfo& node) { return MakeParametric(node, base); }, specs);
  }
}

}  // namespace bitpress::custom_ops
