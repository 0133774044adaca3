#include "kernels/quantize_array.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/error.h"
#include "base/tensor.h"
#include "kernels/fake_quantize.h"
#include "kernels/integer_codes.h"

namespace bitpress::kernels {
namespace {

// An array as [outer, length, inner] with the axis in the middle.
struct View {
  int64_t outer = 1;
  int64_t length = 1;
  int64_t inner = 1;
};

View ViewOf(std::span<const int64_t> dims, int64_t axis) {
  const auto rank = static_cast<int64_t>(dims.size());
  // A scalar is a vector of one element.
  const int64_t num_axes = std::max<int64_t>(rank, 1);
  if (axis < -num_axes || axis >= num_axes) {
    Fail(ErrorCode::kInvalidArgument, "there is no axis {} in an array of {} dimensions", axis,
         rank);
  }
  if (rank == 0) return {};
  const auto position = static_cast<size_t>(axis < 0 ? axis + rank : axis);
  return {NumElements(dims.first(position)), dims[position],
          NumElements(dims.subspan(position + 1))};
}

FakeQuantizer MakeQuantizer(const formats::FormatSpec& spec, std::span<const int64_t> dims,
                            int64_t axis) {
  if (spec.is_integer()) {
    Fail(ErrorCode::kInvalidArgument, "{} has scales that follow from the values", spec.name);
  }
  formats::Validate(spec);
  const View view = spec.is_blocked() ? ViewOf(dims, axis) : View{.length = NumElements(dims)};
  return FakeQuantizer(spec, view.outer, view.length, view.inner);
}

struct Range {
  float min = 0;
  float max = 0;

  void Add(float value) {
    if (!std::isfinite(value)) return;
    min = std::min(min, value);
    max = std::max(max, value);
  }
};

// Returns the range of each index of the axis. A task takes some elements of one index.
std::vector<Range> RangesOf(const View& view, std::span<const float> x, ThreadPool& pool) {
  constexpr size_t kElementsPerTask = size_t{1} << 14;
  const auto length = static_cast<size_t>(view.length);
  const size_t per_index = x.empty() ? 0 : x.size() / length;
  const size_t num_tasks = (per_index + kElementsPerTask - 1) / kElementsPerTask;
  const auto inner = static_cast<size_t>(view.inner);
  std::vector<Range> parts(length * num_tasks);
  pool.ParallelFor(parts.size(), [&](size_t task) {
    const size_t index = task / num_tasks;
    const size_t begin = task % num_tasks * kElementsPerTask;
    const size_t end = std::min(per_index, begin + kElementsPerTask);
    Range range;
    for (size_t i = begin; i < end;) {
      const float* const values = x.data() + (i / inner * length + index) * inner + i % inner;
      const size_t count = std::min(inner - i % inner, end - i);
      for (size_t k = 0; k < count; ++k) range.Add(values[k]);
      i += count;
    }
    parts[task] = range;
  });
  std::vector<Range> ranges(length);
  for (size_t task = 0; task < parts.size(); ++task) {
    ranges[task / num_tasks].Add(parts[task].min);
    ranges[task / num_tasks].Add(parts[task].max);
  }
  return ranges;
}

}  // namespace

void QuantizeDequantize(const formats::FormatSpec& spec, std::span<const int64_t> dims,
                        int64_t axis, const float* x, float* y, ThreadPool& pool) {
  const FakeQuantizer quantizer = MakeQuantizer(spec, dims, axis);
  pool.ParallelFor(quantizer.num_tasks(), [&](size_t task) { quantizer.RunTask(task, x, y); });
}

void QuantizeDequantizeHalf(const formats::FormatSpec& spec, std::span<const int64_t> dims,
                            int64_t axis, const uint16_t* x, uint16_t* y, ThreadPool& pool) {
  const FakeQuantizer quantizer = MakeQuantizer(spec, dims, axis);
  pool.ParallelFor(quantizer.num_tasks(), [&](size_t task) { quantizer.RunTaskHalf(task, x, y); });
}

void QuantizeDequantizeInteger(const formats::IntegerSpec& spec, std::span<const int64_t> dims,
                               std::optional<int64_t> axis, const float* x, float* y,
                               ThreadPool& pool) {
  const View view = axis ? ViewOf(dims, *axis) : View{.inner = NumElements(dims)};
  const auto num_elements = static_cast<size_t>(NumElements(dims));
  std::vector<formats::QParams> params;
  for (const Range& range : RangesOf(view, {x, num_elements}, pool)) {
    params.push_back(formats::QParamsForRange(range.min, range.max, spec));
  }
  QuantizeIntegers({x, num_elements}, {view.outer, view.length, view.inner}, params,
                   formats::IntegerRange(spec.element_type), {}, {y, num_elements}, pool);
}

}  // namespace bitpress::kernels
