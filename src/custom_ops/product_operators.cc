// Matrix products with a packed weight, bitpress.MatMul_<format>: straight from the codes of the
// weight, which is arranged for the kernels once, when the session starts.
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/thread_pool.h"
#include "custom_ops/operator.h"
#include "formats/block_products.h"
#include "formats/packed_tensor.h"
#include "formats/parameters.h"
#include "kernels/block_products.h"
#include "ort/kernels.h"

namespace bitpress::custom_ops {
namespace {

using formats::FormatSpec;

size_t NumParts(const FormatSpec& spec) {
  const bool has_shifts = spec.sub_block_size > 0 && spec.sub_block_shift_bits > 0;
  return has_shifts ? 3 : 2;
}

// Returns how the columns of a weight lie, from the attributes of its product.
kernels::ColumnsView ViewOf(const NodeInfo& node) {
  const std::vector<int64_t> blocks = node.Ints("blocks"), perm = node.Ints("perm");
  if (blocks.size() != 4 || std::ranges::any_of(blocks, [](int64_t n) { return n < 1; })) {
    Fail(ErrorCode::kInvalidModel, "attribute blocks must have four positive numbers");
  }
  constexpr int64_t kMost = int64_t{1} << 40;
  if (blocks[1] > kMost / blocks[2]) {
    Fail(ErrorCode::kInvalidModel, "attribute blocks is too large");
  }
  kernels::ColumnsView view{blocks[0], blocks[1] * blocks[2], blocks[3], false};
  if (perm == std::vector<int64_t>{0, 1} && view.outer == 1) {
    view.are_inner = true;
  } else if (perm != std::vector<int64_t>{1, 0} || view.inner != 1) {
    Fail(ErrorCode::kInvalidModel, "attributes blocks and perm do not describe a matrix");
  }
  return view;
}

// Returns the bytes of a part of a weight, whose elements are bytes.
std::span<const uint8_t> BytesOf(const Ort::ConstValue& value) {
  return {static_cast<const uint8_t*>(value.GetTensorRawData()),
          value.GetTensorTypeAndShapeInfo().GetElementCount()};
}

// Returns the types of codes, which are bytes, in models of old and of new operator sets.
std::vector<ONNXTensorElementDataType> CodeTypes(const FormatSpec& spec) {
  switch (spec.onnx_type) {
    case DataType::kFloat8E4M3FN:
      return {ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT8E4M3FN};
    case DataType::kFloat8E5M2:
      return {ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT8E5M2};
    case DataType::kInt8:
      return {ONNX_TENSOR_ELEMENT_DATA_TYPE_INT8};
    default:
      return {ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8};
  }
}

kernels::ProductPanels MakePanels(const NodeInfo& node, const FormatSpec& spec) {
  std::vector<Ort::ConstValue> parts;
  for (size_t i = 0; i < NumParts(spec); ++i) parts.push_back(node.ConstantInput(1 + i));
  formats::PackedView packed;
  packed.codes = BytesOf(parts[0]);
  packed.scales = BytesOf(parts[1]);
  if (parts.size() > 2) packed.shifts = BytesOf(parts[2]);
  // The threads end here, as ONNX Runtime unloads this library with its last session.
  constexpr size_t kFewBytes = size_t{1} << 16;
  ThreadPool pool(packed.codes.size() > kFewBytes ? 0 : 1);
  return kernels::ProductPanels(spec, ViewOf(node), packed, pool);
}

class ProductKernel : public OperatorKernel {
 public:
  ProductKernel(const NodeInfo& node, const FormatSpec& spec)
      : panels_(MakePanels(node, spec)), bias_input_(1 + NumParts(spec)) {
    const std::string rows = node.String("rows", "");
    if (rows.empty()) return;
    rows_ = formats::FindFormat(rows);
    const std::string why = formats::WhyNoProduct({spec, rows_});
    if (!why.empty() || !formats::IsWholeProduct({spec, rows_})) {
      Fail(ErrorCode::kInvalidModel, "attribute rows: no products of {} with {}{}{}", rows,
           spec.name, why.empty() ? "" : ": ", why);
    }
  }

  void Compute(Ort::KernelContext& context) const override {
    const Ort::ConstValue a = context.GetInput(0), bias = context.GetInput(bias_input_);
    std::vector<int64_t> dims = a.GetTensorTypeAndShapeInfo().GetShape();
    const auto depth = panels_.summed().num_elements();
    if (dims.empty() || dims.back() != depth) {
      Fail(ErrorCode::kInvalidArgument, "the last dimension of input 0 must be {}", depth);
    }
    const size_t columns = panels_.num_columns();
    if (bias.GetTensorTypeAndShapeInfo().GetElementCount() != columns) {
      Fail(ErrorCode::kInvalidArgument, "the bias must have {} numbers", columns);
    }
    size_t num_rows = 1;
    for (size_t i = 0; i + 1 < dims.size(); ++i) num_rows *= static_cast<size_t>(dims[i]);
    dims.back() = static_cast<int64_t>(columns);
    Ort::UnownedValue y = context.GetOutput(0, dims);
    kernels::ProductOutput output;
    output.data = y.GetTensorMutableData<float>();
    output.stride = columns;
    output.bias = bias.GetTensorData<float>();
    kernels::BlockProduct product(
        panels_, rows_, {a.GetTensorData<float>(), num_rows, static_cast<size_t>(depth)}, output);
    ort::ParallelFor(context, product.num_row_tasks(), [&](size_t i) { product.RunRowTask(i); });
    ort::ParallelFor(context, product.num_tasks(), [&](size_t i) { product.RunTask(i); });
  }

 private:
  kernels::ProductPanels panels_;
  std::optional<FormatSpec> rows_;
  size_t bias_input_;
};

}  // namespace

void AddProductOperators(std::vector<OperatorSpec>& specs) {
  for (const FormatSpec& row : formats::AllFormats()) {
    if (!formats::WhyNoProduct({row, std::nullopt}).empty()) continue;
    OperatorSpec spec;
    spec.input_types.assign(2 + NumParts(row), ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8);
    spec.input_types.front() = spec.input_types.back() = ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT;
    spec.shape_rule = ShapeRule::kProduct;
    spec.make_kernel = [row](const NodeInfo& node) {
      return std::make_unique<ProductKernel>(node, row);
    };
    for (const ONNXTensorElementDataType type : CodeTypes(row)) {
      spec.input_types[1] = type;
      // Weights that need the general decoder have a function, and so a name, of their own.
      for (const char* const suffix : {"", "_padded"}) {
        spec.name = "MatMul_" + row.name + suffix;
        specs.push_back(spec);
      }
    }
  }
}

}  // namespace bitpress::custom_ops
