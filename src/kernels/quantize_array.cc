#include "kernels/quantize_array.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/tensor.h"
#include "formats/reference.h"
#include "kernels/fake_quantize.h"

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
  const formats::CodeRange codes = formats::IntegerRange(spec.element_type);
  const auto inner = static_cast<size_t>(view.inner);
  const auto length = static_cast<size_t>(view.length);
  const auto outer = static_cast<size_t>(view.outer);
  pool.ParallelFor(length, [&](size_t index) {
    const auto begin_of = [&](size_t row) { return (row * length + index) * inner; };
    Range range;
    for (size_t row = 0; row < outer; ++row) {
      const float* const values = x + begin_of(row);
      for (size_t i = 0; i < inner; ++i) range.Add(values[i]);
    }
    const formats::QParams params = formats::QParamsForRange(range.min, range.max, spec);
    for (size_t row = 0; row < outer; ++row) {
      const size_t begin = begin_of(row);
      for (size_t i = begin; i < begin + inner; ++i) {
        const int64_t code =
            formats::ref::QuantizeInteger(x[i], params.scale, params.zero_point, codes);
        y[i] = formats::ref::DequantizeInteger(code, params.scale, params.zero_point);
      }
    }
  });
}

}  // namespace bitpress::kernels
