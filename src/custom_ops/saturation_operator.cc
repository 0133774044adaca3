// bitpress::AddPairSaturation: adds to integer products the losses that they have on an x86
// processor without VNNI. Models that `bitpress evaluate` simulates contain it; model files of
// users do not.
//
//   inputs   products:    int32, the output of ConvInteger or MatMulInteger
//            activations: uint8 [..., channels], or an image [N, channels, ...]
//            zero_point:  uint8 scalar, the zero point of the activations
//            pairs:       int32 [pairs, 7], see kernels::SaturatingPair; pairs of one sum are
//                         neighbours
//   output   the products plus their losses
//   attributes of images: kernel_shape, strides, dilations, pads, auto_pad, as ConvInteger's
#include <algorithm>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "custom_ops/operator.h"
#include "kernels/pair_saturation.h"
#include "ort/kernels.h"

namespace bitpress::custom_ops {
namespace {

using kernels::SaturatingPair;

std::vector<int64_t> DimsOf(const Ort::ConstValue& value) {
  return value.GetTensorTypeAndShapeInfo().GetShape();
}

int64_t ProductOf(std::span<const int64_t> dims) {
  int64_t product = 1;
  for (const int64_t dim : dims) product *= dim;
  return product;
}

class SaturationKernel : public OperatorKernel {
 public:
  explicit SaturationKernel(const NodeInfo& node)
      : kernel_(node.Ints("kernel_shape")),
        strides_(node.Ints("strides")),
        dilations_(node.Ints("dilations")),
        pads_(node.Ints("pads")),
        auto_pad_(node.String("auto_pad", "NOTSET")) {
    const size_t rank = kernel_.size();
    if (strides_.empty()) strides_.assign(rank, 1);
    if (dilations_.empty()) dilations_.assign(rank, 1);
    if (pads_.empty()) pads_.assign(2 * rank, 0);
    const auto is_positive = [](int64_t value) { return value > 0; };
    if (strides_.size() != rank || dilations_.size() != rank || pads_.size() != 2 * rank ||
        !std::ranges::all_of(kernel_, is_positive) || !std::ranges::all_of(strides_, is_positive) ||
        !std::ranges::all_of(dilations_, is_positive)) {
      Fail(ErrorCode::kInvalidModel,
           "strides, dilations and pads must fit kernel_shape, which has {} dimensions", rank);
    }
  }

  void Compute(Ort::KernelContext& context) const override {
    const Ort::ConstValue products = context.GetInput(0);
    const Ort::ConstValue activations = context.GetInput(1);
    const std::vector<int64_t> dims = DimsOf(products);
    const std::vector<int64_t> input_dims = DimsOf(activations);
    const std::vector<int64_t> pair_dims = DimsOf(context.GetInput(3));
    const bool is_image = !kernel_.empty();
    const bool has_zero_point = ProductOf(DimsOf(context.GetInput(2))) == 1;
    if (!BelongTogether(dims, input_dims) || !has_zero_point || pair_dims.size() != 2 ||
        pair_dims[1] != static_cast<int64_t>(SaturatingPair::kNumFields)) {
      Fail(ErrorCode::kInvalidModel, "products and activations do not belong together");
    }
    Ort::UnownedValue output = context.GetOutput(0, dims);
    auto* const y = output.GetTensorMutableData<int32_t>();
    const auto* const x = products.GetTensorData<int32_t>();
    const int64_t count = ProductOf(dims);
    if (y != x && count > 0) std::memcpy(y, x, static_cast<size_t>(count) * sizeof(int32_t));
    if (count == 0) return;
    const size_t channel_axis = is_image ? 1 : dims.size() - 1;
    const std::vector<SaturatingPair> pairs =
        Pairs(context.GetInput(3).GetTensorData<int32_t>(), pair_dims[0], input_dims[channel_axis],
              dims[channel_axis]);
    const auto* const codes = activations.GetTensorData<uint8_t>();
    if (is_image) {
      const uint8_t padding = *context.GetInput(2).GetTensorData<uint8_t>();
      AddToImages(context, pairs, codes, input_dims, dims, padding, y);
    } else {
      AddToRows(context, pairs, codes, input_dims.back(), count / dims.back(), dims.back(), y);
    }
  }

 private:
  // Returns whether products of this shape may come from activations of that shape. The spatial
  // dimensions of images may differ: places outside the image are padding.
  bool BelongTogether(std::span<const int64_t> dims, std::span<const int64_t> input_dims) const {
    if (dims.size() != input_dims.size()) return false;
    if (!kernel_.empty()) return dims.size() == kernel_.size() + 2 && dims[0] == input_dims[0];
    return !dims.empty() &&
           std::ranges::equal(dims.first(dims.size() - 1), input_dims.first(dims.size() - 1));
  }

  // Reads the pairs and checks that they lie inside the weight and in the order of their sums.
  // Tasks of AddToImages would else write to the same sum at the same time.
  std::vector<SaturatingPair> Pairs(const int32_t* fields, int64_t count, int64_t channels,
                                    int64_t num_sums) const {
    std::vector<SaturatingPair> pairs(static_cast<size_t>(count));
    const int64_t num_positions = ProductOf(kernel_);
    int32_t last_sum = 0;
    for (SaturatingPair& pair : pairs) {
      pair = {fields[0], {fields[1], fields[2]}, {fields[3], fields[4]}, {fields[5], fields[6]}};
      fields += SaturatingPair::kNumFields;
      for (size_t i = 0; i < 2; ++i) {
        const bool is_inside = pair.sum >= 0 && pair.sum < num_sums && pair.channel[i] >= 0 &&
                               pair.channel[i] < channels && pair.position[i] >= 0 &&
                               pair.position[i] < num_positions;
        if (!is_inside) Fail(ErrorCode::kInvalidModel, "a pair lies outside the weight");
      }
      if (pair.sum < last_sum) Fail(ErrorCode::kInvalidModel, "pairs are not in order of sums");
      last_sum = pair.sum;
    }
    return pairs;
  }

  static void AddToRows(Ort::KernelContext& context, std::span<const SaturatingPair> pairs,
                        const uint8_t* codes, int64_t channels, int64_t rows, int64_t num_sums,
                        int32_t* y) {
    ort::ParallelFor(context, static_cast<size_t>(rows), [&](size_t task) {
      const auto row = static_cast<int64_t>(task);
      kernels::MatrixSaturation(pairs, codes + row * channels, 1, channels, num_sums,
                                y + row * num_sums);
    });
  }

  void AddToImages(Ort::KernelContext& context, std::span<const SaturatingPair> pairs,
                   const uint8_t* codes, std::span<const int64_t> input_dims,
                   std::span<const int64_t> dims, uint8_t padding, int32_t* y) const {
    const kernels::ConvWindow window = WindowOf(input_dims, dims);
    const int64_t image = input_dims[1] * ProductOf(window.input);
    const int64_t plane = ProductOf(window.output);
    // Each sum of each image is a task. The pairs of a sum are neighbours.
    std::vector<std::span<const SaturatingPair>> of_sums;
    for (size_t begin = 0; begin < pairs.size();) {
      size_t end = begin + 1;
      while (end < pairs.size() && pairs[end].sum == pairs[begin].sum) ++end;
      of_sums.push_back(pairs.subspan(begin, end - begin));
      begin = end;
    }
    if (of_sums.empty()) return;
    ort::ParallelFor(context, static_cast<size_t>(dims[0]) * of_sums.size(), [&](size_t task) {
      const auto n = static_cast<int64_t>(task / of_sums.size());
      const std::span<const SaturatingPair> of_sum = of_sums[task % of_sums.size()];
      kernels::ConvSaturation(of_sum, codes + n * image, window, padding,
                              y + (n * dims[1] + of_sum.front().sum) * plane);
    });
  }

  kernels::ConvWindow WindowOf(std::span<const int64_t> input_dims,
                               std::span<const int64_t> dims) const {
    kernels::ConvWindow window;
    window.input.assign(input_dims.begin() + 2, input_dims.end());
    window.output.assign(dims.begin() + 2, dims.end());
    window.kernel = kernel_;
    window.strides = strides_;
    window.dilations = dilations_;
    window.pads_begin.assign(pads_.begin(),
                             pads_.begin() + static_cast<std::ptrdiff_t>(kernel_.size()));
    for (size_t d = 0; d < kernel_.size() && auto_pad_ != "NOTSET"; ++d) {
      const int64_t reach = (window.output[d] - 1) * strides_[d] + (kernel_[d] - 1) * dilations_[d];
      const int64_t pads = std::max<int64_t>(0, reach + 1 - window.input[d]);
      window.pads_begin[d] = auto_pad_ == "SAME_UPPER"   ? pads / 2
                             : auto_pad_ == "SAME_LOWER" ? (pads + 1) / 2
                                                         : 0;
    }
    return window;
  }

  std::vector<int64_t> kernel_, strides_, dilations_, pads_;
  std::string auto_pad_;
};

}  // namespace

void AddSaturationOperator(std::vector<OperatorSpec>& specs) {
  OperatorSpec spec;
  spec.name = "AddPairSaturation";
  spec.input_types = {ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32, ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8,
                      ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8, ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32};
  spec.output_type = ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32;
  spec.may_run_in_place = true;
  spec.make_kernel = [](const NodeInfo& node) -> std::unique_ptr<OperatorKernel> {
    return std::make_unique<SaturationKernel>(node);
  };
  specs.push_back(std::move(spec));
}

}  // namespace bitpress::custom_ops
