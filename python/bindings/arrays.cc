// quantize_dequantize: applies a format to numpy arrays.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "bindings.h"
#include "formats/format_spec.h"
#include "kernels/half.h"
#include "kernels/quantize_array.h"

namespace bitpress::python {
namespace {

using namespace nb::literals;

using Input = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;
using Output = nb::ndarray<nb::c_contig, nb::device::cpu>;

constexpr nb::dlpack::dtype kHalf{static_cast<uint8_t>(nb::dlpack::dtype_code::Float), 16, 1};

struct Options {
  formats::FormatSpec spec;
  std::optional<int64_t> axis;
  formats::IntegerSpec integer;
};

void RunFloat(const Options& options, std::span<const int64_t> dims, const float* x, float* y,
              ThreadPool& pool) {
  if (options.spec.is_integer()) {
    kernels::QuantizeDequantizeInteger(options.integer, dims, options.axis, x, y, pool);
  } else {
    kernels::QuantizeDequantize(options.spec, dims, options.axis.value_or(-1), x, y, pool);
  }
}

void RunHalf(const Options& options, std::span<const int64_t> dims, const uint16_t* x, uint16_t* y,
             ThreadPool& pool) {
  if (!options.spec.is_integer()) {
    kernels::QuantizeDequantizeHalf(options.spec, dims, options.axis.value_or(-1), x, y, pool);
    return;
  }
  std::vector<float> values(static_cast<size_t>(NumElements(dims)));
  kernels::HalfToFloat({x, values.size()}, values.data());
  RunFloat(options, dims, values.data(), values.data(), pool);
  kernels::FloatToHalf(values, y);
}

void QuantizeDequantize(const Input& x, const Output& y, const std::string& format,
                        std::optional<int64_t> axis, const std::optional<std::string>& scale,
                        const std::optional<std::string>& rounding, std::optional<bool> symmetric,
                        bool reduce_range, size_t num_threads) {
  Options options{formats::FindFormat(format), axis, {}};
  if (scale) options.spec.scale_choice = formats::ParseScaleChoice(*scale);
  if (rounding) options.spec.rounding = formats::ParseRoundingMode(*rounding);
  options.integer.element_type = options.spec.element_type;
  const bool is_signed =
      options.spec.is_integer() && formats::IntegerRange(options.spec.element_type).quant_min < 0;
  options.integer.is_symmetric = symmetric.value_or(is_signed);
  options.integer.is_reduced = reduce_range;
  const bool is_half = x.dtype() == kHalf;
  if ((!is_half && x.dtype() != nb::dtype<float>()) || x.dtype() != y.dtype()) {
    Fail(ErrorCode::kInvalidArgument, "expected two arrays of float32 or of float16");
  }
  std::vector<int64_t> dims;
  for (size_t i = 0; i < x.ndim(); ++i) dims.push_back(static_cast<int64_t>(x.shape(i)));
  for (size_t i = 0; i < std::max(x.ndim(), y.ndim()); ++i) {
    if (x.ndim() != y.ndim() || x.shape(i) != y.shape(i)) {
      Fail(ErrorCode::kInvalidArgument, "the output has another shape than the input");
    }
  }
  const nb::gil_scoped_release release;
  // Starting threads costs more than the work on small arrays.
  constexpr size_t kLeastForThreads = 1 << 16;
  ThreadPool pool(x.size() < kLeastForThreads ? 1 : num_threads);
  if (is_half) {
    RunHalf(options, dims, static_cast<const uint16_t*>(x.data()), static_cast<uint16_t*>(y.data()),
            pool);
  } else {
    RunFloat(options, dims, static_cast<const float*>(x.data()), static_cast<float*>(y.data()),
             pool);
  }
}

}  // namespace

void BindArrays(nb::module_& module) {
  module.def("quantize_dequantize", &QuantizeDequantize, "x"_a.noconvert(), "y"_a.noconvert(),
             "format"_a, "axis"_a.none(), "scale"_a.none(), "rounding"_a.none(),
             "symmetric"_a.none(), "reduce_range"_a, "threads"_a,
             "Quantizes and dequantizes x and writes the result to y. Both are row-major arrays of "
             "float32 "
             "or of float16.");
}

}  // namespace bitpress::python
