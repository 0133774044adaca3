#include "gradients/convolution_shape.h"

#include <algorithm>

namespace bitpress::gradients {
namespace {

// Calls run(index among the positions, index in the plane or -1 if it is padding).
template <typename Run>
void ForTap(const ConvolutionShape& shape, size_t tap, size_t begin, size_t end, const Run& run) {
  const auto row_of_tap = static_cast<int64_t>(tap / shape.kernel[1] * shape.dilations[0]) -
                          static_cast<int64_t>(shape.pads[0]);
  const auto column_of_tap = static_cast<int64_t>(tap % shape.kernel[1] * shape.dilations[1]) -
                             static_cast<int64_t>(shape.pads[1]);
  const auto height = static_cast<int64_t>(shape.height);
  const auto width = static_cast<int64_t>(shape.width);
  size_t row = begin / shape.out_width;
  size_t column = begin % shape.out_width;
  for (size_t i = begin; i < end; ++row, column = 0) {
    const int64_t y = static_cast<int64_t>(row * shape.strides[0]) + row_of_tap;
    const size_t last = std::min(end, i + shape.out_width - column);
    int64_t x = static_cast<int64_t>(column * shape.strides[1]) + column_of_tap;
    for (; i < last; ++i, x += static_cast<int64_t>(shape.strides[1])) {
      const bool is_inside = y >= 0 && y < height && x >= 0 && x < width;
      run(i - begin, is_inside ? y * width + x : -1);
    }
  }
}

}  // namespace

bool ConvolutionShape::is_pointwise() const {
  return num_taps() == 1 && strides[0] == 1 && strides[1] == 1 &&
         std::ranges::all_of(pads, [](size_t pad) { return pad == 0; });
}

ConvolutionShape ShapeOf(const ConvolutionWindow& window, std::span<const int64_t> input,
                         std::span<const int64_t> weight) {
  const bool fits = (input.size() == 3 || input.size() == 4) && weight.size() == input.size() &&
                    input[1] == weight[1] * window.groups && weight[0] % window.groups == 0;
  if (!fits) {
    Fail(ErrorCode::kInvalidArgument, "a convolution of [{}] with [{}] does not fit",
         fmt::join(input, ", "), fmt::join(weight, ", "));
  }
  const auto size = [](int64_t value) { return static_cast<size_t>(value); };
  ConvolutionShape shape;
  shape.images = size(input[0]);
  shape.groups = size(window.groups);
  shape.inputs = size(weight[1]);
  shape.outputs = size(weight[0] / window.groups);
  shape.height = input.size() == 4 ? size(input[2]) : 1;
  shape.width = size(input.back());
  const int64_t extents[2] = {static_cast<int64_t>(shape.height),
                              static_cast<int64_t>(shape.width)};
  size_t* const out[2] = {&shape.out_height, &shape.out_width};
  for (size_t d = 0; d < 2; ++d) {
    const int64_t taps = d == 1 ? weight.back() : input.size() == 4 ? weight[2] : 1;
    const int64_t reach = (taps - 1) * window.dilations[d] + 1;
    int64_t before = window.pads[d], behind = window.pads[d + 2];
    if (window.auto_pad.starts_with("SAME")) {
      const int64_t outputs = (extents[d] + window.strides[d] - 1) / window.strides[d];
      const int64_t all =
          std::max<int64_t>((outputs - 1) * window.strides[d] + reach - extents[d], 0);
      before = window.auto_pad == "SAME_UPPER" ? all / 2 : all - all / 2;
      behind = all - before;
    }
    const int64_t room = extents[d] + before + behind - reach;
    if (room < 0) Fail(ErrorCode::kInvalidArgument, "a kernel is larger than its input");
    shape.kernel[d] = size(taps);
    shape.strides[d] = size(window.strides[d]);
    shape.dilations[d] = size(window.dilations[d]);
    shape.pads[d] = size(before);
    shape.pads[d + 2] = size(behind);
    *out[d] = size(room / window.strides[d] + 1);
  }
  return shape;
}

template <typename T>
void ReadTap(const ConvolutionShape& shape, const T* plane, size_t tap, size_t begin, size_t end,
             T* out) {
  ForTap(shape, tap, begin, end, [&](size_t i, int64_t at) { out[i] = at < 0 ? T{0} : plane[at]; });
}

template <typename T>
void AddTap(const ConvolutionShape& shape, const T* row, size_t tap, size_t begin, size_t end,
            T* plane) {
  ForTap(shape, tap, begin, end, [&](size_t i, int64_t at) {
    if (at >= 0) plane[at] += row[i];
  });
}

template void ReadTap<float>(const ConvolutionShape&, const float*, size_t, size_t, size_t, float*);
template void ReadTap<double>(const ConvolutionShape&, const double*, size_t, size_t, size_t,
                              double*);
template void AddTap<float>(const ConvolutionShape&, const float*, size_t, size_t, size_t, float*);
template void AddTap<double>(const ConvolutionShape&, const double*, size_t, size_t, size_t,
                             double*);

}  // namespace bitpress::gradients
