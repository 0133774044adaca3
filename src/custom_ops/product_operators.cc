// Matrix products with a packed weight, bitpress.MatMul_<format>: straight from the codes of the
// weight, which is arranged for the kernels once, when the session starts. MatMulClip_<format> also
// limits its output.
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/thread_pool.h"
#include "custom_ops/operator.h"
#include "custom_ops/packed_inputs.h"
#include "custom_ops/shared_weights.h"
#include "formats/block_products.h"
#include "formats/parameters.h"
#include "kernels/block_products.h"
#include "ort/kernels.h"

namespace bitpress::custom_ops {
namespace {

using formats::FormatSpec;

// Returns how the columns of a weight lie, from the attributes of its product.
kernels::ColumnsView ViewOf(const NodeInfo& node, const PackedInputs& weight) {
  const std::vector<int64_t> perm = node.Ints("perm");
  kernels::ColumnsView view{weight.outer, weight.axis, weight.inner, false};
  if (perm == std::vector<int64_t>{0, 1} && view.outer == 1) {
    view.are_inner = true;
  } else if (perm != std::vector<int64_t>{1, 0} || view.inner != 1) {
    Fail(ErrorCode::kInvalidModel, "attributes blocks and perm do not describe a matrix");
  }
  return view;
}

std::shared_ptr<const kernels::ProductPanels> PanelsOf(const NodeInfo& node,
                                                       const FormatSpec& spec) {
  static auto& shared = *new SharedWeights<kernels::ProductPanels>;  // outlives all sessions
  const PackedInputs weight(node, spec);
  const kernels::ColumnsView view = ViewOf(node, weight);
  WeightKey key;
  key.Add(spec.name);
  for (const int64_t number : {view.outer, view.axis, view.inner, int64_t{view.are_inner}}) {
    key.Add(number);
  }
  key.Add(weight.view);
  return Arranged(shared, key, weight, [&](ThreadPool& pool) {
    return kernels::ProductPanels(spec, view, weight.view, pool);
  });
}

class ProductKernel : public OperatorKernel {
 public:
  ProductKernel(const NodeInfo& node, const FormatSpec& spec)
      : panels_(PanelsOf(node, spec)), bias_input_(1 + NumParts(spec)) {
    output_.least = node.Float("least", output_.least);
    output_.largest = node.Float("largest", output_.largest);
    const std::string rows = node.String("rows", ""), sums = node.String("sums", "");
    if (!sums.empty() && sums != formats::kFastestSums) {
      Fail(ErrorCode::kInvalidModel, "attribute sums: '{}' is not '{}'", sums,
           formats::kFastestSums);
    }
    if (!sums.empty()) order_ = formats::SumOrder::kFastest;
    if (rows.empty()) return;
    rows_ = FormatAttribute(node, "rows");
    const std::string why = formats::WhyNoProduct({spec, rows_});
    if (!why.empty() || formats::SumsOf({spec, rows_}) == formats::ProductSums::kChain) {
      Fail(ErrorCode::kInvalidModel, "attribute rows: no products of {} with {}{}{}", rows,
           spec.name, why.empty() ? "" : ": ", why);
    }
  }

  void Compute(Ort::KernelContext& context) const override {
    const Ort::ConstValue a = context.GetInput(0), bias = context.GetInput(bias_input_);
    std::vector<int64_t> dims = a.GetTensorTypeAndShapeInfo().GetShape();
    const auto depth = panels_->summed().num_elements();
    if (dims.empty() || dims.back() != depth) {
      Fail(ErrorCode::kInvalidArgument, "the last dimension of input 0 must be {}", depth);
    }
    const size_t columns = panels_->num_columns();
    if (bias.GetTensorTypeAndShapeInfo().GetElementCount() != columns) {
      Fail(ErrorCode::kInvalidArgument, "the bias must have {} numbers", columns);
    }
    size_t num_rows = 1;
    for (size_t i = 0; i + 1 < dims.size(); ++i) num_rows *= static_cast<size_t>(dims[i]);
    dims.back() = static_cast<int64_t>(columns);
    Ort::UnownedValue y = context.GetOutput(0, dims);
    kernels::ProductOutput output = output_;
    output.data = y.GetTensorMutableData<float>();
    output.stride = columns;
    output.bias = bias.GetTensorData<float>();
    kernels::BlockProduct product(*panels_, rows_,
                                  {a.GetTensorData<float>(), num_rows, static_cast<size_t>(depth)},
                                  output, order_);
    ort::ParallelFor(context, product.num_row_tasks(), [&](size_t i) { product.RunRowTask(i); });
    ort::ParallelFor(context, product.num_tasks(), [&](size_t i) { product.RunTask(i); });
  }

 private:
  std::shared_ptr<const kernels::ProductPanels> panels_;
  std::optional<FormatSpec> rows_;
  formats::SumOrder order_ = formats::SumOrder::kFixed;
  kernels::ProductOutput output_;  // its limits
  size_t bias_input_;
};

// Throws Error(kInvalidModel) if there are no products with the format.
FormatSpec Checked(FormatSpec spec) {
  const std::string why = formats::WhyNoProduct({spec, std::nullopt});
  if (!why.empty()) Fail(ErrorCode::kInvalidModel, "attribute format: {}", why);
  return spec;
}

// Appends the rows of products with weights of a format, or of formats like it.
void AddProducts(const FormatSpec& format, const std::vector<std::string>& names,
                 KernelFactory make_kernel, std::vector<OperatorSpec>& specs) {
  OperatorSpec spec;
  spec.input_types.assign(2 + NumParts(format), ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8);
  spec.input_types.front() = spec.input_types.back() = ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT;
  spec.shape_rule = ShapeRule::kProduct;
  spec.make_kernel = std::move(make_kernel);
  for (const ONNXTensorElementDataType type : CodeTypes(format)) {
    spec.input_types[1] = type;
    for (const std::string& name : names) {
      for (const char* const prefix : {"MatMul_", "MatMulClip_"}) {
        spec.name = prefix + name;
        specs.push_back(spec);
      }
    }
  }
}

}  // namespace

void AddProductOperators(std::vector<OperatorSpec>& specs) {
  for (const FormatSpec& row : formats::AllFormats()) {
    if (!formats::WhyNoProduct({row, std::nullopt}).empty()) continue;
    const KernelFactory make = [row](const NodeInfo& node) {
      return std::make_unique<ProductKernel>(node, row);
    };
    // Weights that need the general decoder have a function, and so a name, of their own.
    std::vector<std::string> names{row.name};
    if (row.is_blocked()) names.push_back(row.name + "_padded");
    AddProducts(row, names, make, specs);
  }
  for (const FormatSpec& base : ParametricFormats()) {
    const KernelFactory make = [base](const NodeInfo& node) {
      return std::make_unique<ProductKernel>(node, Checked(WeightFormat(node, base)));
    };
    AddProducts(base, NumberedNames(base), make, specs);
  }
}

}  // namespace bitpress::custom_ops
