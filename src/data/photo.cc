#include "data/photo.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <system_error>
#include <utility>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/paths.h"

namespace bitpress::data {
namespace {

constexpr int64_t kMaxPixels = 100'000'000;
// The most bytes of a file that is read. Pictures within the limits take less; a mislabelled file
// may have more.
constexpr uintmax_t kMaxFileBytes = uintmax_t{1} << 30;

// Returns the first pixel of a crop of `crop` of `size` pixels: half of the rest, with halves to
// even as Python rounds.
int CropBegin(int size, int crop) {
  const int rest = size - crop;
  const int half = rest / 2;
  return rest % 2 == 0 || half % 2 == 0 ? half : half + 1;
}

// Returns the normalized float of each channel and each pixel value.
std::array<std::array<float, 256>, 3> NormalizationTable(const ImageSpec& spec) {
  std::array<std::array<float, 256>, 3> table;
  for (size_t c = 0; c < 3; ++c) {
    for (size_t value = 0; value < 256; ++value) {
      table[c][value] = (static_cast<float>(value) / 255.0f - spec.mean[c]) / spec.std[c];
    }
  }
  return table;
}

}  // namespace

Photo ResizeShorterSide(Photo photo, int size) {
  const int shorter = std::min(photo.width, photo.height);
  const int longer = std::max(photo.width, photo.height);
  if (shorter == size) return photo;
  const int64_t scaled = int64_t{size} * longer / shorter;
  if (scaled * size > kMaxPixels) {
    Fail(ErrorCode::kInvalidArgument,
         "{}x{} pixels with the shorter side scaled to {} are more than 100 megapixels",
         photo.width, photo.height, size);
  }
  const bool is_wide = photo.width > photo.height;
  return Resample(photo, is_wide ? static_cast<int>(scaled) : size,
                  is_wide ? size : static_cast<int>(scaled));
}

Photo Letterbox(const Photo& photo, int size) {
  constexpr uint8_t kGrey = 114;
  const double scale = static_cast<double>(size) / std::max(photo.width, photo.height);
  const auto scaled = [&](int side) {
    return std::max(1, static_cast<int>(std::lround(side * scale)));
  };
  const Photo inner = Resample(photo, scaled(photo.width), scaled(photo.height));
  const auto side = static_cast<size_t>(size), row = static_cast<size_t>(inner.width) * 3;
  Photo square{.width = size, .height = size, .rgb = std::vector<uint8_t>(side * side * 3, kGrey)};
  const auto left = static_cast<size_t>((size - inner.width) / 2),
             top = static_cast<size_t>((size - inner.height) / 2);
  for (size_t y = 0; y < static_cast<size_t>(inner.height); ++y) {
    std::copy_n(inner.rgb.data() + y * row, row, &square.rgb[((top + y) * side + left) * 3]);
  }
  return square;
}

Tensor PhotoToTensor(Photo photo, const ImageSpec& spec) {
  if (spec.fit == ImageSpec::Fit::kLetterbox) {
    photo = Letterbox(photo, spec.resize);
  } else if (spec.fit == ImageSpec::Fit::kStretch) {
    photo = Resample(photo, spec.resize, spec.resize);
  } else if (spec.resize > 0) {
    photo = ResizeShorterSide(std::move(photo), spec.resize);
  }
  const int crop_width = spec.crop > 0 ? spec.crop : photo.width;
  const int crop_height = spec.crop > 0 ? spec.crop : photo.height;
  if (photo.width < crop_width || photo.height < crop_height) {
    Fail(ErrorCode::kInvalidArgument,
         "the picture has {}x{} pixels, which is smaller than the crop of {}x{}; give a resize",
         photo.width, photo.height, crop_width, crop_height);
  }
  const size_t width = static_cast<size_t>(crop_width);
  const size_t height = static_cast<size_t>(crop_height);
  const size_t left = static_cast<size_t>(CropBegin(photo.width, crop_width));
  const size_t top = static_cast<size_t>(CropBegin(photo.height, crop_height));
  const auto table = NormalizationTable(spec);
  const size_t x_stride = spec.nhwc ? 3 : 1;
  const size_t channel_stride = spec.nhwc ? 1 : width * height;

  Tensor result{.type = DataType::kFloat, .dims = {1, 3, crop_height, crop_width}, .bytes = {}};
  if (spec.nhwc) result.dims = {1, crop_height, crop_width, 3};
  result.bytes.resize(width * height * 3 * sizeof(float));
  float* const out = result.values<float>().data();
  for (size_t y = 0; y < height; ++y) {
    const uint8_t* const row =
        photo.rgb.data() + ((top + y) * static_cast<size_t>(photo.width) + left) * 3;
    for (size_t c = 0; c < 3; ++c) {
      float* const target = out + y * width * x_stride + (spec.bgr ? 2 - c : c) * channel_stride;
      for (size_t x = 0; x < width; ++x) target[x * x_stride] = table[c][row[3 * x + c]];
    }
  }
  return result;
}

Tensor LoadPhoto(const std::filesystem::path& path, const ImageSpec& spec) {
  std::error_code ignored;
  const uintmax_t num_bytes = std::filesystem::file_size(path, ignored);
  if (!ignored && num_bytes > kMaxFileBytes) {
    Fail(ErrorCode::kInvalidArgument, "{}: the file is too large for a photo", PathText(path));
  }
  const std::string bytes = ReadFile(path);
  return WithContext(PathText(path), [&] { return PhotoToTensor(DecodePhoto(bytes), spec); });
}

}  // namespace bitpress::data
