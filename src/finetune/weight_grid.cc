#include "finetune/weight_grid.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <memory>
#include <optional>
#include <utility>

#include "formats/qparams_search.h"
#include "formats/reference.h"
#include "weights/integer_weight.h"
#include "weights/weight_job.h"

namespace bitpress::finetune {
namespace {

// Wraps values without copying them. They must outlive the result.
graph::HeldInitializer Lend(std::span<const float> values, const std::vector<int64_t>& dims) {
  return {DataType::kFloat, dims, std::as_bytes(values), nullptr};
}

// Returns the whole number next to x, ties to even. NaN stays NaN. REQUIRES: |x| < 2^51.
double RoundToEven(double x) {
  BITPRESS_DCHECK(!(std::abs(x) >= 0x1p51));
  constexpr double kMagic = 0x1.8p52;
  return (x + kMagic) - kMagic;
}

// Returns floor(log2 x) of a positive normal number.
int ExponentOf(double x) {
  return static_cast<int>((std::bit_cast<uint64_t>(x) >> 52) & 0x7FF) - 1023;
}
double PowerOfTwo(int exponent) {
  return std::bit_cast<double>(static_cast<uint64_t>(exponent + 1023) << 52);
}

}  // namespace

WeightGrid::WeightGrid(const plan::TensorPlan& row, plan::OperatorSet operators,
                       std::vector<int64_t> dims, std::string reader,
                       std::vector<weights::PairRule> pairs)
    : row_(row),
      operators_(operators),
      dims_(std::move(dims)),
      reader_(std::move(reader)),
      pairs_(std::move(pairs)) {
  for (const weights::PairRule& rule : pairs_) {
    Neighbours& neighbours = neighbours_.emplace_back();
    neighbours.of.resize(static_cast<size_t>(NumElements(dims_)));
    neighbours.largest.resize(neighbours.of.size());
    for (int64_t sum = 0; sum < rule.sums.num_sums; ++sum) {
      for (int64_t i = 0; i < rule.sums.length; ++i) {
        const size_t element = rule.sums.ElementOf(sum, i);
        const int64_t other = std::min(i ^ 1, rule.sums.length - 1);
        neighbours.of[element] = static_cast<uint32_t>(rule.sums.ElementOf(sum, other));
        neighbours.largest[element] =
            static_cast<uint8_t>(rule.LargestOf(rule.sums.ChannelOf(sum, i)));
      }
    }
  }
  const formats::FormatSpec spec = row.Spec();
  if (row.integer) {
    const formats::CodeRange codes = formats::SearchedCodes(row.IntegerSpec());
    least_ = static_cast<double>(codes.quant_min);
    largest_ = static_cast<double>(codes.quant_max);
  } else if (spec.has_float_elements()) {
    const formats::FloatLayout layout = formats::LayoutOf(spec.element_type);
    has_float_elements_ = true;
    mantissa_bits_ = layout.mantissa_bits;
    min_exponent_ = 1 - layout.bias;
    max_exponent_ = layout.max_exponent;
    largest_ = layout.max_value;
  } else {
    largest_ = std::ldexp(1.0, spec.element_bits - 1) - 1;
    least_ = spec.is_block_float() ? -largest_ : -largest_ - 1;
  }
}

void WeightGrid::KeepSignOf(std::span<const float> weights) {
  const auto [least, most] = std::ranges::minmax(weights);
  sign_ = least >= 0 && most > 0 ? 1 : least < 0 && most <= 0 ? -1 : 0;
}

void WeightGrid::FitScales(std::span<const float> values, ThreadPool& pool) {
  BITPRESS_DCHECK(std::ssize(values) == NumElements(dims_));
  if (row_.integer) {
    const weights::IntegerWeight weight(Lend(values, dims_), row_, reader_, {}, {}, pairs_);
    params_ = weight.Params(pool);
    params_index_.resize(values.size());
    for (size_t i = 0; i < values.size(); ++i) {
      params_index_[i] = static_cast<uint32_t>(weight.ParamsIndexOf(i));
    }
    num_scales_ = params_.size();
    UseParams();
  } else if (row_.Spec().is_blocked()) {
    if (row_.scaled) {
      tensor_scale_ = row_.scaled->scale.value_or(weights::ScaleOf(row_.Spec(), values));
    }
    FitBlocks(values, pool);
  } else if (row_.scaled) {
    params_ = {{row_.scaled->scale.value_or(weights::ScaleOf(row_.Spec(), values)), 0}};
    params_index_.assign(values.size(), 0);
    num_scales_ = 1;
    UseParams();
  }
}

void WeightGrid::set_params(std::vector<formats::QParams> params) {
  BITPRESS_DCHECK(params.size() == params_.size());
  params_ = std::move(params);
  UseParams();
}

void WeightGrid::UseParams() {
  units_.resize(params_index_.size());
  zero_points_.clear();
  const bool is_asymmetric = std::ranges::any_of(
      params_, [](const formats::QParams& params) { return params.zero_point != 0; });
  if (is_asymmetric) zero_points_.resize(params_index_.size());
  for (size_t i = 0; i < params_index_.size(); ++i) {
    const formats::QParams& params = params_[params_index_[i]];
    units_[i] = params.scale;
    if (is_asymmetric) zero_points_[i] = static_cast<float>(params.zero_point);
  }
}

void WeightGrid::FitBlocks(std::span<const float> values, ThreadPool& pool) {
  const weights::WeightJob job(Lend(values, dims_), row_, operators_, reader_);
  const formats::FormatSpec& spec = job.spec();
  const auto [outer, axis, inner] = job.view();
  const int64_t num_blocks = (axis + spec.block_size - 1) / spec.block_size;
  const int fraction_bits = has_float_elements_ ? 0 : spec.element_bits - 2;
  const float tensor_scale = tensor_scale_.value_or(1);
  units_.resize(values.size());
  block_index_.resize(values.size());
  const auto columns = static_cast<size_t>(inner);
  num_scales_ = static_cast<size_t>(outer * num_blocks) * columns;
  pool.ParallelFor(static_cast<size_t>(outer * num_blocks), [&, axis = axis](size_t task) {
    const auto begin = static_cast<int64_t>(task) % num_blocks * spec.block_size;
    const auto row = static_cast<int64_t>(task) / num_blocks;
    const auto length = static_cast<size_t>(std::min<int64_t>(spec.block_size, axis - begin));
    std::vector<float> block(length);
    for (size_t column = 0; column < columns; ++column) {
      const size_t first = static_cast<size_t>(row * axis + begin) * columns + column;
      for (size_t k = 0; k < length; ++k) block[k] = values[first + k * columns] / tensor_scale;
      const formats::ref::BlockCodes codes = formats::ref::QuantizeBlock(spec, block);
      for (size_t k = 0; k < length; ++k) {
        const int shift =
            codes.shifts.empty() ? 0 : codes.shifts[k / static_cast<size_t>(spec.sub_block_size)];
        units_[first + k * columns] =
            static_cast<float>(std::ldexp(codes.scale * tensor_scale, -shift - fraction_bits));
        block_index_[first + k * columns] = static_cast<uint32_t>(task * columns + column);
      }
    }
  });
}

float WeightGrid::RoundTo(double unit, size_t element, double x) const {
  if (unit == 0) return 0;  // the scale is below the smallest float
  if (x * sign_ < 0) x = 0;
  if (!has_float_elements_) {
    const double zero_point = zero_points_.empty() ? 0.0 : double{zero_points_[element]};
    const double code = std::clamp(x / unit, least_ - zero_point, largest_ - zero_point);
    return static_cast<float>(RoundToEven(code) * unit);
  }
  const double magnitude = std::min(std::abs(x) / unit, largest_);
  const int exponent = StepExponentOf(magnitude);
  const double rounded = RoundToEven(magnitude * PowerOfTwo(-exponent)) * PowerOfTwo(exponent);
  return static_cast<float>(std::copysign(std::min(rounded, largest_) * unit, x));
}

int WeightGrid::StepExponentOf(double magnitude) const {
  const int exponent = magnitude < PowerOfTwo(min_exponent_)
                           ? min_exponent_
                           : std::min(ExponentOf(magnitude), max_exponent_);
  return exponent - mantissa_bits_;
}

double WeightGrid::StepTo(double unit, double x) const {
  if (!has_float_elements_) return std::abs(unit);
  return PowerOfTwo(StepExponentOf(std::min(std::abs(x) / unit, largest_))) * unit;
}

float WeightGrid::Round(size_t element, double x) const {
  return RoundTo(units_.empty() ? 1.0 : double{units_[element]}, element, x);
}

float WeightGrid::RoundSoftly(size_t element, double x, double sharpness) const {
  if (x * sign_ < 0) x = 0;
  const float rounded = Round(element, x);
  const double step = StepAt(element, x);
  const double rest = x - double{rounded};
  if (!(std::abs(rest) <= 0.5 * step)) return rounded;
  const double kept = std::max(0.0, 0.5 * step - sharpness * (0.5 * step - std::abs(rest)));
  return static_cast<float>(double{rounded} + std::copysign(kept, rest));
}

double WeightGrid::StepAt(size_t element, double x) const {
  return StepTo(units_.empty() ? 1.0 : double{units_[element]}, x);
}

std::span<const double> WeightGrid::ScaleFactors() const {
  static constexpr std::array<double, 13> kFree{1,   1.05, 0.95, 0.9,  0.85, 0.8, 0.75,
                                                0.7, 0.65, 0.6,  0.55, 0.5,  0.45};
  static constexpr std::array<double, 3> kPowers{1, 0.5, 2};
  if (!pairs_.empty()) return std::span(kFree).first(1);
  const bool is_free = row_.integer ? row_.integer->scale_kind == formats::ScaleKind::kFloat
                                    : row_.scaled && block_index_.empty();
  if (is_free) return kFree;
  return kPowers;
}

float WeightGrid::ScaledBy(float scale, double factor) const {
  const double scaled = double{scale} * factor;
  // The scale may come from a plan and be of another kind. A factor of 1 leaves it as it is.
  if (!row_.integer || factor == 1) return static_cast<float>(scaled);
  return formats::AllowedScale(scaled, row_.integer->scale_kind);
}

float WeightGrid::RoundScaled(size_t element, double x, double factor) const {
  BITPRESS_DCHECK(element < units_.size());
  return RoundTo(double{ScaledBy(units_[element], factor)}, element, x);
}

void WeightGrid::MultiplyScales(std::span<const double> factors) {
  BITPRESS_DCHECK(factors.size() == num_scales_);
  if (!params_.empty()) {
    for (size_t i = 0; i < params_.size(); ++i) {
      params_[i].scale = ScaledBy(params_[i].scale, factors[i]);
    }
    UseParams();
    return;
  }
  for (size_t i = 0; i < units_.size(); ++i) {
    units_[i] = ScaledBy(units_[i], factors[block_index_[i]]);
  }
}

int32_t WeightGrid::CodeOf(size_t element, float value) const {
  const formats::QParams& params = params_[params_index_[element]];
  return static_cast<int32_t>(std::nearbyint(value / params.scale)) +
         static_cast<int32_t>(params.zero_point);
}

float WeightGrid::ValueOf(size_t element, int32_t code) const {
  const formats::QParams& params = params_[params_index_[element]];
  return formats::ref::DequantizeInteger(code, params.scale, params.zero_point);
}

void WeightGrid::FitPairs(std::span<const float> target, std::span<float> quantized,
                          ThreadPool& pool) const {
  if (pairs_.empty()) return;
  std::vector<float> wanted(target.size());
  std::vector<int32_t> codes(target.size());
  for (size_t i = 0; i < codes.size(); ++i) {
    wanted[i] = formats::CodeUnits(target[i], params_[params_index_[i]]);
    codes[i] = CodeOf(i, quantized[i]);
  }
  if (weights::FitPairs(pairs_, wanted, codes, pool) == 0) return;
  for (size_t i = 0; i < codes.size(); ++i) quantized[i] = ValueOf(i, codes[i]);
}

float WeightGrid::FitBeside(size_t element, float value, std::span<const float> quantized) const {
  if (pairs_.empty()) return value;
  int32_t code = CodeOf(element, value);
  const int32_t before = code;
  for (const Neighbours& neighbours : neighbours_) {
    const size_t other = neighbours.of[element];
    if (other == element) continue;
    const int32_t code_of_other = CodeOf(other, quantized[other]);
    const formats::PairBounds largest{neighbours.largest[element], neighbours.largest[other]};
    while (!formats::FitsPairSum({code, code_of_other}, largest)) code -= code > 0 ? 1 : -1;
  }
  return code == before ? value : ValueOf(element, code);
}

QuantizedWeight WeightGrid::Quantize(std::span<const float> values, ThreadPool& pool) const {
  weights::WeightStatistics statistics;
  QuantizedWeight result;
  const auto take = [&](const Tensor& tensor) {
    const std::span<const float> simulated = tensor.values<float>();
    result.values.assign(simulated.begin(), simulated.end());
  };
  if (row_.integer) {
    const weights::IntegerWeight weight(Lend(values, dims_), row_, reader_, {}, params_, pairs_);
    take(weight.Simulate(pool, statistics));
    result.params = weight.Params(pool);
  } else {
    const weights::WeightJob job(
        Lend(values, dims_), row_, operators_, reader_,
        !params_.empty() ? std::optional(params_.front().scale) : tensor_scale_);
    take(job.Simulate(pool, statistics));
    result.params = params_;
    if (tensor_scale_) result.params = {{*tensor_scale_, 0}};
  }
  return result;
}

}  // namespace bitpress::finetune
