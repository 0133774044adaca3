#include "weights/weight_job.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "formats/packed_tensor.h"
#include "kernels/fake_quantize.h"
#include "kernels/half.h"
#include "kernels/pack_tensor.h"
#include "plan/quantizer_spelling.h"

namespace bitpress::weights {
namespace {

// The number of elements in one task. Sums are taken per chunk and then in order, so that they are
// the same for any number of threads.
constexpr size_t kChunk = size_t{1} << 16;

// Return whether a value is neither NaN nor infinity: these have all exponent bits set.
bool IsFinite(float value) { return (std::bit_cast<uint32_t>(value) & 0x7F800000U) != 0x7F800000U; }
bool IsFinite(uint16_t half) { return (half & 0x7C00U) != 0x7C00U; }

template <typename T>
std::span<const T> ValuesOf(const graph::HeldInitializer& source) {
  return {reinterpret_cast<const T*>(source.bytes.data()), source.bytes.size() / sizeof(T)};
}

// Calls `function(begin, end)` for every chunk.
template <typename Function>
void ForEachChunk(ThreadPool& pool, size_t count, const Function& function) {
  pool.ParallelFor((count + kChunk - 1) / kChunk, [&](size_t chunk) {
    function(chunk * kChunk, std::min(count, (chunk + 1) * kChunk));
  });
}

template <typename T>
size_t FirstNonFinite(std::span<const T> values, ThreadPool& pool) {
  std::atomic<size_t> first{values.size()};
  ForEachChunk(pool, values.size(), [&](size_t begin, size_t end) {
    bool is_finite = true;
    for (size_t i = begin; i < end; ++i) is_finite &= IsFinite(values[i]);  // vectorized
    if (is_finite) return;
    while (IsFinite(values[begin])) ++begin;
    size_t known = first.load();
    while (begin < known && !first.compare_exchange_weak(known, begin)) {
    }
  });
  return first;
}

// Returns the position of an element: "[1, 0, 2, 2]".
std::string Position(size_t index, std::span<const int64_t> dims) {
  std::vector<std::string> words(dims.size());
  for (size_t i = dims.size(); i-- > 0;) {
    const auto dim = static_cast<size_t>(dims[i]);
    words[i] = std::to_string(index % dim);
    index /= dim;
  }
  return fmt::format("[{}]", Join(words, ", "));
}

size_t AxisOf(const plan::TensorPlan& row, std::span<const int64_t> dims) {
  const int64_t axis = row.axis.value_or(0);
  return static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(dims.size()) : axis);
}

BlockView ViewOf(const plan::TensorPlan& row, std::span<const int64_t> dims) {
  if (!row.axis) return {1, NumElements(dims), 1};
  const size_t axis = AxisOf(row, dims);
  const int64_t outer = NumElements(dims.first(axis));
  const int64_t inner = NumElements(dims.subspan(axis + 1));
  return row.flatten ? BlockView{outer, dims[axis] * inner, 1}
                     : BlockView{outer, dims[axis], inner};
}

// Returns the format as it is stored. Codes in two's complement have no -0, and shared exponents
// have a limited range.
formats::FormatSpec StoredSpec(const plan::TensorPlan& row, plan::OperatorSet operators) {
  formats::FormatSpec spec = plan::SpecOf(operators, row.Spec());
  const formats::FormatSpec stored = row.Spec();
  spec.zero_rule = stored.zero_rule;
  spec.limit_shared_exponent = stored.limit_shared_exponent;
  return spec;
}

// Returns the largest magnitude that a format has, whatever the scale of a block.
float LargestOf(const formats::FormatSpec& spec) {
  if (spec.is_float()) return static_cast<float>(formats::LayoutOf(spec.element_type).max_value);
  if (!spec.has_exponent_scales()) return static_cast<float>(spec.scaled_maximum);
  constexpr int kLargestExponent = 127;  // of float32, and of a shared exponent
  const formats::BlockRange range = formats::RangeOf(spec);
  return static_cast<float>(std::ldexp(range.max_value, kLargestExponent - range.max_exponent));
}

// Counts the elements beyond the largest magnitude of the format. With these a block would choose a
// scale at which the nearest value is no float32: `limited` holds what is to be rounded then.
uint64_t LimitOverflow(const formats::FormatSpec& spec, std::span<const float>& x,
                       std::vector<float>& limited) {
  if (spec.is_block_float()) return 0;
  const float largest = LargestOf(spec);
  const auto count = static_cast<uint64_t>(
      std::ranges::count_if(x, [&](float value) { return std::abs(value) > largest; }));
  if (count == 0) return 0;
  limited.assign(x.begin(), x.end());
  for (float& value : limited) value = std::clamp(value, -largest, largest);
  x = limited;
  return count;
}

}  // namespace

void MeasureErrors(std::span<const float> x, std::span<const float> y, ThreadPool& pool,
                   WeightStatistics& statistics) {
  struct Sums {
    double signal = 0;
    double noise = 0;
  };
  std::vector<Sums> sums((x.size() + kChunk - 1) / kChunk);
  ForEachChunk(pool, x.size(), [&](size_t begin, size_t end) {
    // Several chains of additions, so that one need not wait for the other.
    constexpr size_t kLanes = 8;
    double signal[kLanes] = {};
    double noise[kLanes] = {};
    size_t i = begin;
    for (; i + kLanes <= end; i += kLanes) {
      for (size_t lane = 0; lane < kLanes; ++lane) {
        const double value = x[i + lane];
        const double error = y[i + lane] - value;
        signal[lane] += value * value;
        noise[lane] += error * error;
      }
    }
    for (; i < end; ++i) {
      const double value = x[i];
      const double error = y[i] - value;
      signal[0] += value * value;
      noise[0] += error * error;
    }
    Sums& sum = sums[begin / kChunk];
    for (size_t lane = 0; lane < kLanes; ++lane) {
      sum.signal += signal[lane];
      sum.noise += noise[lane];
    }
  });
  Sums total;
  for (const Sums& sum : sums) {
    total.signal += sum.signal;
    total.noise += sum.noise;
  }
  statistics.mean_squared_error = x.empty() ? 0 : total.noise / static_cast<double>(x.size());
  statistics.sqnr_db = total.noise == 0 ? std::numeric_limits<double>::infinity()
                                        : 10 * std::log10(total.signal / total.noise);
  if (statistics.tied) {
    statistics.tied->mean_squared_error = statistics.mean_squared_error;
    statistics.tied->sqnr_db = statistics.sqnr_db;
  }
}

float ScaleOf(const formats::FormatSpec& spec, std::span<const float> values) {
  float largest = 0;
  for (const float value : values) largest = std::max(largest, std::abs(value));
  const auto ratio = static_cast<float>(largest / spec.scaled_maximum);
  return std::isnormal(ratio) ? ratio : 1.0F;
}

WeightJob::WeightJob(graph::HeldInitializer source, const plan::TensorPlan& row,
                     plan::OperatorSet operators, std::string reader, std::optional<float> scale)
    : source_(std::move(source)),
      value_(row.value),
      role_(plan::RoleName(row.role)),
      reader_(std::move(reader)),
      spec_(StoredSpec(row, operators)),
      axis_(AxisOf(row, source_.dims)),
      view_(ViewOf(row, source_.dims)),
      is_scaled_(row.scaled.has_value()),
      given_scale_(row.scaled && !scale ? row.scaled->scale : scale) {}

void WeightJob::CheckFinite(ThreadPool& pool) const {
  const size_t count = static_cast<size_t>(NumElements(source_.dims));
  const size_t index = is_half() ? FirstNonFinite(ValuesOf<uint16_t>(source_), pool)
                                 : FirstNonFinite(ValuesOf<float>(source_), pool);
  if (index == count) return;
  const bool is_nan = is_half() ? (ValuesOf<uint16_t>(source_)[index] & 0x3FFU) != 0
                                : std::isnan(ValuesOf<float>(source_)[index]);
  Fail(ErrorCode::kInvalidModel,
       "{}: {} '{}' holds {} at index {}, position {}; a weight must be finite to be quantized "
       "(exclude the node, or repair the model)",
       reader_, role_, value_, is_nan ? "NaN" : "infinity", index, Position(index, source_.dims));
}

float WeightJob::Quantize(ThreadPool& pool, std::span<float> y,
                          WeightStatistics& statistics) const {
  CheckFinite(pool);
  std::vector<float> widened;
  std::span<const float> x;
  if (is_half()) {
    widened.resize(y.size());
    kernels::HalfToFloat(ValuesOf<uint16_t>(source_), widened.data());
    x = widened;
  } else {
    x = ValuesOf<float>(source_);
  }
  const kernels::FakeQuantizer quantizer(spec_, view_.outer, view_.axis, view_.inner);
  const auto round = [&](const float* values) {
    pool.ParallelFor(quantizer.num_tasks(),
                     [&](size_t task) { quantizer.RunTask(task, values, y.data()); });
  };
  if (!is_scaled_) {
    std::vector<float> limited;
    std::span<const float> rounded = x;
    statistics.num_overflowed = LimitOverflow(spec_, rounded, limited);
    if (statistics.tied) statistics.tied->num_overflowed = statistics.num_overflowed;
    round(rounded.data());
    MeasureErrors(x, y, pool, statistics);
    return 1;
  }
  const float scale = given_scale_ ? *given_scale_ : ScaleOf(spec_, x);
  std::vector<float> scaled(x.begin(), x.end());
  for (float& value : scaled) value /= scale;
  round(scaled.data());
  for (size_t i = 0; i < y.size(); ++i) scaled[i] = y[i] * scale;
  MeasureErrors(x, scaled, pool, statistics);
  return scale;
}

Tensor WeightJob::Simulate(ThreadPool& pool, WeightStatistics& statistics) const {
  Tensor tensor{source_.type, source_.dims, std::vector<std::byte>(source_.bytes.size())};
  if (is_half()) {
    std::vector<float> y(source_.bytes.size() / sizeof(uint16_t));
    const float scale = Quantize(pool, y, statistics);
    for (float& value : y) value *= scale;
    kernels::FloatToHalf(y, tensor.values<uint16_t>().data());
  } else {
    const float scale = Quantize(pool, tensor.values<float>(), statistics);
    if (is_scaled_) {
      for (float& value : tensor.values<float>()) value *= scale;
    }
  }
  return tensor;
}

std::vector<Tensor> WeightJob::Pack(const std::vector<PackedStorage::Initializer>& parts,
                                    ThreadPool& pool, WeightStatistics& statistics) const {
  std::vector<float> y(static_cast<size_t>(NumElements(source_.dims)));
  const float scale = Quantize(pool, y, statistics);
  std::vector<Tensor> tensors;
  formats::PackedSpans spans;
  for (const PackedStorage::Initializer& part : parts) {
    const uint64_t num_bytes = NumBytes(part.type, NumElements(part.dims));
    tensors.push_back({part.type, part.dims, std::vector<std::byte>(num_bytes)});
  }
  const std::vector<formats::PackedPart> meanings = formats::PartsOf(spec_);
  for (size_t i = 0; i < parts.size(); ++i) {
    spans[meanings[i]] = {reinterpret_cast<uint8_t*>(tensors[i].bytes.data()),
                          tensors[i].bytes.size()};
  }
  WithContext(fmt::format("{}: {} '{}'", reader_, role_, value_), [&] {
    kernels::PackTensor(spec_, view_.outer, view_.axis, view_.inner, y, spans, pool);
  });
  if (is_scaled_) {
    tensors.push_back({DataType::kFloat, {}, std::vector<std::byte>(sizeof(float))});
    tensors.back().values<float>()[0] = scale;
  }
  return tensors;
}

}  // namespace bitpress::weights
