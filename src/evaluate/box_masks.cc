#include "evaluate/box_masks.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace bitpress::evaluate {
namespace {

// A row or column of an image between two of the prototypes.
struct Between {
  int64_t pixel = 0;             // row or column of the image
  size_t first = 0, second = 0;  // rows or columns of the prototypes
  double weight = 0;             // weight of the second row or column, from 0 to 1
};

// Returns the rows, or columns, of an image whose middles lie between the edges of a box.
std::vector<Between> PixelsOf(double begin, double end, int64_t num_pixels, double scale,
                              double offset, double prototype_scale, int64_t num_prototypes) {
  std::vector<Between> pixels;
  for (int64_t i = 0; i < num_pixels; ++i) {
    const double middle = (static_cast<double>(i) + 0.5) * scale + offset;
    if (!(middle >= begin && middle < end)) continue;
    const double at =
        std::clamp(middle * prototype_scale - 0.5, 0.0, static_cast<double>(num_prototypes - 1));
    const double first = std::floor(at);
    const auto second = std::min(static_cast<int64_t>(first) + 1, num_prototypes - 1);
    pixels.push_back({i, static_cast<size_t>(first), static_cast<size_t>(second), at - first});
  }
  return pixels;
}

// Sums of prototypes in a rectangle of their pixels.
class Sums {
 public:
  Sums(const SampleOutput& prototypes, const std::vector<double>& factors, const Between& top,
       const Between& bottom, const Between& left, const Between& right)
      : top_(top.first), left_(left.first), num_columns_(right.second - left.first + 1) {
    const auto height = static_cast<size_t>(prototypes.dims[1]),
               width = static_cast<size_t>(prototypes.dims[2]);
    sums_.resize((bottom.second - top.first + 1) * num_columns_);
    for (size_t k = 0; k < factors.size(); ++k) {
      for (size_t i = 0; i < sums_.size(); ++i) {
        const size_t y = top_ + i / num_columns_, x = left_ + i % num_columns_;
        sums_[i] += factors[k] * prototypes.values[(k * height + y) * width + x];
      }
    }
  }

  double At(const Between& row, const Between& column) const {
    const auto in_row = [&](size_t y) {
      const double first = Sum(y, column.first);
      return first + column.weight * (Sum(y, column.second) - first);
    };
    const double first = in_row(row.first);
    return first + row.weight * (in_row(row.second) - first);
  }

 private:
  double Sum(size_t y, size_t x) const { return sums_[(y - top_) * num_columns_ + (x - left_)]; }

  size_t top_ = 0, left_ = 0, num_columns_ = 0;
  std::vector<double> sums_;
};

}  // namespace

ImageFit FitOfPrototypes(const SampleOutput& prototypes, const DetectionSettings& settings) {
  const int64_t height = prototypes.dims[1], width = prototypes.dims[2];
  return {.height = height,
          .width = width,
          .x_scale = static_cast<double>(settings.input_width) / static_cast<double>(width),
          .y_scale = static_cast<double>(settings.input_height) / static_cast<double>(height)};
}

RunLengthMask MaskOf(const Box& box, const std::vector<SampleOutput>& outputs,
                     const DetectionSettings& settings, const ImageFit& fit) {
  const SampleOutput* const prototypes = PrototypesOf(outputs, settings);
  BITPRESS_DCHECK(prototypes != nullptr);
  // The mask checks the sides of the image, before anything is computed for each row and column.
  RunLengthMask mask(fit.height, fit.width);
  const ImageFit own = FitOfPrototypes(*prototypes, settings);
  const std::vector<Between> rows =
      PixelsOf(box.top, box.bottom, fit.height, fit.y_scale, fit.top, 1 / own.y_scale, own.height);
  const std::vector<Between> columns =
      PixelsOf(box.left, box.right, fit.width, fit.x_scale, fit.left, 1 / own.x_scale, own.width);
  const auto height = static_cast<uint64_t>(fit.height);
  uint64_t num_before = 0;
  if (!rows.empty() && !columns.empty()) {
    const Sums sums(*prototypes, MaskFactorsOf(box, outputs, settings), rows.front(), rows.back(),
                    columns.front(), columns.back());
    for (const Between& column : columns) {
      const uint64_t first =
          static_cast<uint64_t>(column.pixel) * height + static_cast<uint64_t>(rows.front().pixel);
      mask.Append(first - num_before, false);
      for (const Between& row : rows) mask.Append(1, sums.At(row, column) > 0);
      num_before = first + rows.size();
    }
  }
  mask.Append(static_cast<uint64_t>(fit.width) * height - num_before, false);
  return mask;
}

}  // namespace bitpress::evaluate
