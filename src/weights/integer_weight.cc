#include "weights/integer_weight.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "formats/pack.h"
#include "formats/qparams_search.h"
#include "kernels/half.h"
#include "kernels/weight_range.h"

namespace bitpress::weights {
namespace {

using formats::QParams;
using plan::Granularity;

constexpr float kMostMultiple = 16;  // of LPBQ: codes of 4 bits times multiples are codes of 8 bits

std::vector<float> ToFloats(const graph::HeldInitializer& source) {
  std::vector<float> values(static_cast<size_t>(NumElements(source.dims)));
  if (source.type == DataType::kFloat16) {
    const std::span<const uint16_t> halves(reinterpret_cast<const uint16_t*>(source.bytes.data()),
                                           values.size());
    kernels::HalfToFloat(halves, values.data());
  } else {
    const auto* const floats = reinterpret_cast<const float*>(source.bytes.data());
    std::copy(floats, floats + values.size(), values.begin());
  }
  return values;
}

// Returns the scale and zero point of all values. `pool` is null inside a loop of the pool.
QParams Choose(const plan::RangeMethod& method, std::span<const float> values,
               const formats::IntegerSpec& spec, ThreadPool* pool) {
  switch (method.kind) {
    case plan::RangeMethod::Kind::kPercentile:
      return kernels::PercentileQParams(values, method.percentile, spec);
    case plan::RangeMethod::Kind::kMse:
    case plan::RangeMethod::Kind::kAuto:
      return kernels::MseQParams(values, spec, pool);
    default:  // the other methods are for samples, and a weight has none
      return kernels::MinMaxQParams(values, spec);
  }
}

// Returns the scale and zero point of a block. Codes of blocks are decoded to floats, so that a
// scale may have either sign. Integer kernels read whole channels.
QParams ChooseOfBlock(const plan::RangeMethod& method, std::span<const float> values,
                      const formats::IntegerSpec& spec) {
  using Kind = plan::RangeMethod::Kind;
  constexpr int64_t kMostCodes = 256;  // wider types lose too little to search for
  const formats::CodeRange codes = formats::SearchedCodes(spec);
  const bool is_for_products =
      method.kind == Kind::kAuto && codes.quant_max - codes.quant_min < kMostCodes;
  const QParams params = is_for_products ? kernels::ProductQParams(values, spec)
                                         : Choose(method, values, spec, nullptr);
  if (method.kind == Kind::kPercentile) return params;
  const auto use = is_for_products                ? kernels::SmallestCode::kForProducts
                   : method.kind == Kind::kMinMax ? kernels::SmallestCode::kWhole
                                                  : kernels::SmallestCode::kForElements;
  return kernels::WithSmallestCode(values, params, spec, use);
}

// Returns whole numbers as codes of so many bits, little-endian. Those of less than 8 bits lie
// several to a byte as formats/pack.h has them, which is how ONNX stores 2 and 4 bits.
template <typename Number>
Tensor Store(DataType type, int bits, std::vector<int64_t> dims, const std::vector<Number>& numbers,
             ThreadPool& pool) {
  const auto num_bytes = static_cast<size_t>(bits) / 8;  // of a code; 0: less than one
  Tensor tensor{type, std::move(dims),
                std::vector<std::byte>(bits < 8 ? formats::PackedBytes(numbers.size(), bits)
                                                : numbers.size() * num_bytes)};
  constexpr size_t kPerTask = size_t{1} << 16;  // whole groups of codes, whatever the bits
  pool.ParallelFor((numbers.size() + kPerTask - 1) / kPerTask, [&](size_t task) {
    const size_t begin = task * kPerTask;
    const size_t end = std::min(numbers.size(), begin + kPerTask);
    if (bits < 8) {
      std::vector<uint8_t> codes;
      for (size_t i = begin; i < end; ++i) {
        codes.push_back(static_cast<uint8_t>(static_cast<uint64_t>(int64_t{numbers[i]})));
      }
      auto* const bytes = reinterpret_cast<uint8_t*>(tensor.bytes.data());
      formats::PackCodes(
          codes, bits,
          {bytes + formats::PackedBytes(begin, bits), formats::PackedBytes(codes.size(), bits)});
      return;
    }
    for (size_t i = begin; i < end; ++i) {
      const auto code = static_cast<uint64_t>(int64_t{numbers[i]});
      for (size_t byte = 0; byte < num_bytes; ++byte) {
        tensor.bytes[i * num_bytes + byte] = static_cast<std::byte>(code >> (8 * byte));
      }
    }
  });
  return tensor;
}

}  // namespace

IntegerWeight::IntegerWeight(graph::HeldInitializer source, const plan::TensorPlan& row,
                             std::string reader, std::vector<Int32Bias> biases,
                             std::vector<QParams> given, std::vector<PairRule> pairs)
    : source_(std::move(source)),
      value_(row.value),
      reader_(std::move(reader)),
      spec_(row.IntegerSpec()),
      range_(row.integer->range),
      given_(std::move(given)),
      biases_(std::move(biases)),
      pairs_(std::move(pairs)),
      code_type_(row.Spec().onnx_type),
      element_bits_(row.Spec().element_bits) {
  if (given_.empty() && row.integer->params) given_ = {*row.integer->params};
  if (given_.empty()) given_ = row.integer->channel_params;
  DescribeScales(row);
  if (!given_.empty() && given_.size() != static_cast<size_t>(NumElements(scale_dims_))) {
    Fail(ErrorCode::kInvalidArgument, "{}: '{}' takes {} scales, not the {} that are given",
         reader_, value_, NumElements(scale_dims_), given_.size());
  }
}

void IntegerWeight::DescribeScales(const plan::TensorPlan& row) {
  const std::span<const int64_t> dims = source_.dims;
  if (row.integer->granularity == Granularity::kPerTensor || !row.axis) {
    view_.axis = view_.length = NumElements(dims);
    return;  // scale_dims_ stay empty: a scalar
  }
  const auto rank = static_cast<int64_t>(dims.size());
  axis_ = *row.axis < 0 ? *row.axis + rank : *row.axis;
  const auto axis = static_cast<size_t>(axis_);
  view_.outer = NumElements(dims.first(axis));
  view_.axis = dims[axis];
  view_.inner = NumElements(dims.subspan(axis + 1));
  if (row.integer->granularity == Granularity::kPerAxis) {
    view_.length = 1;
    scale_dims_ = {view_.axis};
    return;
  }
  view_.length = row.integer->block_size;
  view_.is_per_column = true;
  scale_dims_ = source_.dims;
  if (row.flatten) {
    view_.axis *= view_.inner;
    view_.inner = 1;
    scale_dims_.resize(axis + 1);
  }
  scale_dims_[axis] = view_.num_parts();
}

std::vector<int64_t> IntegerWeight::code_dims() const {
  std::vector<int64_t> dims = source_.dims;
  if (view_.is_per_column && scale_dims_.size() < dims.size()) {
    dims.resize(scale_dims_.size());
    dims.back() = view_.axis;
  }
  return dims;
}

IntegerLayout IntegerWeight::Layout() const {
  IntegerLayout layout{
      {view_.outer, view_.axis, view_.inner}, view_.length, view_.is_per_column, {}};
  if (given_.size() == 1 || spec_.is_symmetric) {
    const int64_t zero_point = given_.size() == 1
                                   ? given_[0].zero_point
                                   : formats::QParamsForRange(0, 0, spec_).zero_point;
    const bool is_signed = formats::IntegerRange(spec_.element_type).quant_min < 0;
    if (zero_point == 0 || !is_signed) layout.zero_point = zero_point;
  }
  return layout;
}

std::vector<float> IntegerWeight::Floats() const {
  std::vector<float> values = ToFloats(source_);
  const auto found =
      std::ranges::find_if(values, [](float value) { return !std::isfinite(value); });
  if (found != values.end()) {
    Fail(
        ErrorCode::kInvalidModel,
        "{}: '{}' holds {} at index {}; a weight must be finite to be quantized (exclude the node, "
        "or repair the model)",
        reader_, value_, std::isnan(*found) ? "NaN" : "infinity", found - values.begin());
  }
  return values;
}

const std::vector<QParams>& IntegerWeight::Params(ThreadPool& pool) const {
  std::call_once(once_, [&] { params_ = ComputeParams(pool); });
  return params_;
}

std::vector<QParams> IntegerWeight::ComputeParams(ThreadPool& pool) const {
  const std::vector<float> values = Floats();
  std::vector<QParams> params = given_;
  if (given_.empty()) {
    params = ChooseParams(values, pool);
    if (!pairs_.empty()) {
      params = ChoosePairSafeScales(
          pairs_, values, std::move(params), spec_,
          [&](size_t element) { return ParamsIndexOf(element); }, pool);
    }
  }
  if (given_.empty() && channel_axis()) MakeMultiples(values, params, pool);
  RaiseForBiases(params);
  return params;
}

std::optional<int64_t> IntegerWeight::channel_axis() const {
  if (spec_.scale_kind != formats::ScaleKind::kLpbq || scale_dims_.size() < 2) return std::nullopt;
  return axis_ == 0 ? 1 : axis_ - 1;
}

size_t IntegerWeight::ChannelOf(size_t parameter) const {
  const auto axis = static_cast<size_t>(*channel_axis());
  const auto stride = static_cast<size_t>(NumElements(std::span(scale_dims_).subspan(axis + 1)));
  return parameter / stride % static_cast<size_t>(scale_dims_[axis]);
}

void IntegerWeight::MakeMultiples(std::span<const float> values, std::vector<QParams>& params,
                                  ThreadPool& pool) const {
  // The scale of a block of zeros says nothing.
  std::vector<float> largest(params.size());
  for (size_t i = 0; i < values.size(); ++i) {
    float& of_block = largest[ParamsIndexOf(i)];
    of_block = std::max(of_block, std::abs(values[i]));
  }
  std::vector<float> channels(
      static_cast<size_t>(scale_dims_[static_cast<size_t>(*channel_axis())]));
  for (size_t i = 0; i < params.size(); ++i) {
    float& of_channel = channels[ChannelOf(i)];
    if (largest[i] > 0) of_channel = std::max(of_channel, params[i].scale);
  }
  std::vector<std::vector<float>> members(params.size());
  for (size_t i = 0; i < values.size(); ++i) members[ParamsIndexOf(i)].push_back(values[i]);
  pool.ParallelFor(params.size(), [&](size_t i) {
    float unit = channels[ChannelOf(i)] / kMostMultiple;
    if (!(unit >= std::numeric_limits<float>::min())) unit = 1;
    const QParams given = params[i];
    params[i].scale = unit;
    if (largest[i] == 0) return;
    // Rounding down clips the largest element, rounding up coarsens all of them.
    double least = std::numeric_limits<double>::infinity();
    for (const float multiple :
         {std::floor(given.scale / unit), std::floor(given.scale / unit) + 1}) {
      const QParams candidate{std::clamp(multiple, 1.0F, kMostMultiple) * unit, given.zero_point};
      const double error = kernels::SumOfSquaredErrors(members[i], candidate, spec_);
      if (error >= least) continue;
      least = error;
      params[i] = candidate;
    }
  });
}

PairLoss IntegerWeight::LossOfPairs(ThreadPool& pool) const {
  BITPRESS_DCHECK(!pairs_.empty() && given_.empty());
  const std::vector<float> values = Floats();
  return EstimatePairLoss(
      pairs_, values, ChooseParams(values, pool), spec_,
      [&](size_t element) { return ParamsIndexOf(element); }, pool);
}

std::vector<QParams> IntegerWeight::ChooseParams(std::span<const float> values,
                                                 ThreadPool& pool) const {
  if (scale_dims_.empty()) return {Choose(range_, values, spec_, &pool)};
  const auto outer = static_cast<size_t>(view_.outer);
  const auto axis = static_cast<size_t>(view_.axis);
  const auto inner = static_cast<size_t>(view_.inner);
  const auto length = static_cast<size_t>(view_.length);
  const auto num_parts = static_cast<size_t>(view_.num_parts());
  const size_t num_groups = view_.is_per_column ? outer * num_parts * inner : num_parts;
  std::vector<QParams> params(num_groups);
  pool.ParallelFor(num_groups, [&](size_t group) {
    std::vector<float> members;
    if (view_.is_per_column) {
      const size_t column = group % inner;
      const size_t part = group / inner % num_parts;
      const size_t row = group / inner / num_parts;
      for (size_t k = part * length; k < std::min(axis, (part + 1) * length); ++k) {
        members.push_back(values[(row * axis + k) * inner + column]);
      }
    } else {
      members.reserve(outer * inner);
      for (size_t row = 0; row < outer; ++row) {
        const auto begin =
            values.begin() + static_cast<std::ptrdiff_t>((row * axis + group) * inner);
        members.insert(members.end(), begin, begin + static_cast<std::ptrdiff_t>(inner));
      }
    }
    params[group] = view_.is_per_column ? ChooseOfBlock(range_, members, spec_)
                                        : Choose(range_, members, spec_, nullptr);
  });
  return params;
}

// Raises scales so that bias / (input_scale * scale) stays below 2^31. Scales of another kind than
// kFloat are doubled, as far as their kind allows. A bias for which that is not enough saturates.
void IntegerWeight::RaiseForBiases(std::vector<QParams>& params) const {
  constexpr double kMost = 2147483000.0;
  for (const Int32Bias& bias : biases_) {
    const std::vector<float> values = ToFloats(bias.data);
    for (size_t i = 0; i < values.size(); ++i) {
      QParams& of_channel = params[params.size() == 1 ? 0 : i % params.size()];
      const double least = std::abs(double{values[i]}) / (kMost * bias.input_scale);
      if (!std::isfinite(least)) continue;
      while (of_channel.scale < least) {
        const float raised =
            spec_.scale_kind == formats::ScaleKind::kFloat
                ? std::nextafter(static_cast<float>(least), std::numeric_limits<float>::infinity())
                : formats::AllowedScale(2 * double{of_channel.scale}, spec_.scale_kind);
        if (raised <= of_channel.scale) break;
        of_channel.scale = raised;
      }
    }
  }
}

std::vector<int32_t> IntegerWeight::Round(ThreadPool& pool, std::vector<float>& y,
                                          WeightStatistics& statistics) const {
  const std::vector<QParams>& params = Params(pool);
  const std::vector<float> x = Floats();
  y.resize(x.size());
  std::vector<int32_t> codes(x.size());
  kernels::QuantizeIntegers(x, view_, params, formats::SearchedCodes(spec_), codes, y, pool);
  if (!pairs_.empty()) statistics.num_fitted_pairs = FitToPairs(x, codes, y, pool);
  MeasureErrors(x, y, pool, statistics);
  return codes;
}

uint64_t IntegerWeight::FitToPairs(std::span<const float> x, std::vector<int32_t>& codes,
                                   std::vector<float>& y, ThreadPool& pool) const {
  std::vector<float> target(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    target[i] = formats::CodeUnits(x[i], params_[ParamsIndexOf(i)]);
  }
  const uint64_t num_changed = FitPairs(pairs_, target, codes, pool);
  if (num_changed == 0) return 0;
  // A bias of the products makes up for their mean error (LostMeans). Convolutions stay as they
  // are: the positions of a kernel see neighbours of one image, which are alike, so that their
  // errors do not add up as if they were independent.
  const bool is_matrix = pairs_.front().sums.channels == pairs_.front().sums.length;
  if (pairs_.size() == 1 && biases_.empty() && is_matrix) {
    BalanceMeans(pairs_.front(), target, formats::SearchedCodes(spec_), codes, pool);
  }
  kernels::DequantizeIntegers(codes, view_, params_, y, pool);
  return num_changed;
}

std::vector<int32_t> IntegerWeight::Codes(ThreadPool& pool, WeightStatistics& statistics) const {
  std::vector<float> y;
  std::vector<int32_t> codes = Round(pool, y, statistics);
  if (std::ranges::any_of(y, [](float value) { return !std::isfinite(value); })) {
    Fail(ErrorCode::kInvalidModel,
         "{}: '{}' has values whose codes times the scale are beyond float32; exclude the node, or "
         "give another scale",
         reader_, value_);
  }
  return codes;
}

IntegerWeight::Result IntegerWeight::Quantize(ThreadPool& pool, WeightStatistics& statistics,
                                              bool is_packed) const {
  const std::vector<int32_t> codes = Codes(pool, statistics);
  const int bits = is_packed ? element_bits_ : static_cast<int>(ElementBits(code_type_));
  Result result;
  result.codes = Store(code_type_, bits, source_.dims, codes, pool);
  std::vector<int64_t> zero_points;
  result.scales = {DataType::kFloat, scale_dims_,
                   std::vector<std::byte>(params_.size() * sizeof(float))};
  for (size_t i = 0; i < params_.size(); ++i) {
    result.scales.values<float>()[i] = params_[i].scale;
    zero_points.push_back(params_[i].zero_point);
  }
  result.zero_points = Store(code_type_, bits, scale_dims_, zero_points, pool);
  if (const std::optional<int64_t> axis = channel_axis()) {
    // The largest multiple in a channel is 16, unless all of its blocks are zeros.
    const int64_t num_channels = scale_dims_[static_cast<size_t>(*axis)];
    result.channel_scales = {
        DataType::kFloat,
        {num_channels},
        std::vector<std::byte>(static_cast<size_t>(num_channels) * sizeof(float))};
    const std::span<float> channels = result.channel_scales.values<float>();
    for (size_t i = 0; i < params_.size(); ++i) {
      channels[ChannelOf(i)] = std::max(channels[ChannelOf(i)], params_[i].scale / kMostMultiple);
    }
    std::vector<int64_t> multiples;
    for (size_t i = 0; i < params_.size(); ++i) {
      multiples.push_back(std::lround(params_[i].scale / channels[ChannelOf(i)]));
      const float scale = static_cast<float>(multiples.back()) * channels[ChannelOf(i)];
      if (scale != params_[i].scale) {
        Fail(ErrorCode::kInvalidArgument, "{}: '{}' has scales that are no multiples (lpbq)",
             reader_, value_);
      }
    }
    result.multiples = Store(DataType::kUInt8, 8, scale_dims_, multiples, pool);
  }
  return result;
}

std::vector<double> IntegerWeight::LostMeans(const std::string& node, ThreadPool& pool) const {
  const auto rule = std::ranges::find_if(pairs_, [&](const PairRule& candidate) {
    return candidate.node == node && !candidate.means.empty();
  });
  if (rule == pairs_.end()) return {};
  WeightStatistics ignored;
  std::vector<float> y;
  Round(pool, y, ignored);
  const std::vector<float> x = Floats();
  std::vector<double> lost(static_cast<size_t>(rule->sums.num_sums));
  pool.ParallelFor(lost.size(), [&](size_t task) {
    const auto sum = static_cast<int64_t>(task);
    for (int64_t i = 0; i < rule->sums.length; ++i) {
      const size_t element = rule->sums.ElementOf(sum, i);
      lost[task] += rule->means[rule->sums.ChannelOf(sum, i)] * (double{x[element]} - y[element]);
    }
  });
  return lost;
}

Tensor IntegerWeight::Simulate(ThreadPool& pool, WeightStatistics& statistics) const {
  std::vector<float> y;
  Round(pool, y, statistics);
  Tensor tensor{source_.type, source_.dims, std::vector<std::byte>(source_.bytes.size())};
  if (source_.type == DataType::kFloat16) {
    kernels::FloatToHalf(y, tensor.values<uint16_t>().data());
  } else {
    std::ranges::copy(y, tensor.values<float>().begin());
  }
  return tensor;
}

std::vector<Tensor> QuantizeBias(const graph::HeldInitializer& bias, float input_scale,
                                 const std::vector<QParams>& weight, bool is_per_tensor,
                                 std::span<const double> lost_means, ThreadPool& pool,
                                 WeightStatistics& statistics) {
  std::vector<float> x = ToFloats(bias);
  const bool fits = (is_per_tensor || weight.size() == x.size()) &&
                    (lost_means.empty() || lost_means.size() == x.size());
  if (!fits) {
    Fail(ErrorCode::kInvalidArgument,
         "'{}' is a bias of {} elements for a weight with {} outputs; int32 biases have one for "
         "each output: leave it float in the plan",
         statistics.value, x.size(), lost_means.empty() ? weight.size() : lost_means.size());
  }
  for (size_t i = 0; i < lost_means.size(); ++i) {
    x[i] = static_cast<float>(x[i] + lost_means[i]);
  }
  std::vector<float> scales;
  std::vector<QParams> params;
  for (size_t i = 0; i < (is_per_tensor ? 1 : x.size()); ++i) {
    // The product of scales that are far from 1 may be no normal number. Zero would make NaN of a
    // bias of 0, and infinity NaN of its code.
    using Limits = std::numeric_limits<float>;
    const float product = input_scale * weight[is_per_tensor ? 0 : i].scale;
    scales.push_back(std::clamp(product, Limits::min(), Limits::max()));
    params.push_back({scales.back(), 0});
  }
  const auto count = static_cast<int64_t>(x.size());
  std::vector<float> y(x.size());
  std::vector<int32_t> codes(x.size());
  kernels::QuantizeIntegers(x, {.axis = count, .length = is_per_tensor ? count : 1}, params,
                            formats::IntegerRange(formats::ElementType::kInt32), codes, y, pool);
  MeasureErrors(x, y, pool, statistics);
  std::vector<int64_t> dims;
  if (!is_per_tensor) dims = {static_cast<int64_t>(scales.size())};
  Tensor scale{DataType::kFloat, dims, std::vector<std::byte>(scales.size() * sizeof(float))};
  std::ranges::copy(scales, scale.values<float>().begin());
  std::vector<Tensor> tensors;
  tensors.push_back(Store(DataType::kInt32, 32, bias.dims, codes, pool));
  tensors.push_back(std::move(scale));
  tensors.push_back(Store(DataType::kInt32, 32, dims, std::vector<int64_t>(scales.size()), pool));
  return tensors;
}

}  // namespace bitpress::weights
