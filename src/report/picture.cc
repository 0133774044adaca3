#include "report/picture.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

#include "data/photo.h"

namespace bitpress::report {
namespace {

using evaluate::DrawnPixel;

bool IsChannels(int64_t count) { return count == 1 || count == 3; }

// Returns the picture in 8 bits; nothing if it is none.
std::optional<data::Photo> PhotoOf(const evaluate::TaskPicture& picture, bool is_bgr) {
  if (picture.dims.size() != 3 || picture.pixels.empty()) return std::nullopt;
  const bool is_first = IsChannels(picture.dims[0]);
  if (!is_first && !IsChannels(picture.dims[2])) return std::nullopt;
  const int64_t height = picture.dims[is_first ? 1 : 0], width = picture.dims[is_first ? 2 : 1];
  const auto channels = static_cast<size_t>(picture.dims[is_first ? 0 : 2]);
  const auto num_pixels = static_cast<size_t>(height * width);
  const auto [least, most] = std::ranges::minmax(picture.pixels);
  const double scale = most > least ? 255 / (most - least) : 0;
  data::Photo photo{static_cast<int>(width), static_cast<int>(height),
                    std::vector<uint8_t>(3 * num_pixels)};
  for (size_t i = 0; i < num_pixels; ++i) {
    for (size_t c = 0; c < 3; ++c) {
      const size_t channel = channels == 1 ? 0 : is_bgr ? 2 - c : c;
      const double value =
          picture.pixels[is_first ? channel * num_pixels + i : i * channels + channel];
      const double level = (value - least) * scale;
      photo.rgb[3 * i + c] =
          std::isfinite(level) ? static_cast<uint8_t>(std::clamp(level, 0.0, 255.0)) : 0;
    }
  }
  return photo;
}

void LayMask(const evaluate::TaskDrawing& drawing, data::Photo& photo) {
  constexpr std::array<uint8_t, 3> kGreen = {0, 170, 90}, kRed = {230, 30, 30};
  const auto place = [](int i, int size, int64_t of) {
    return static_cast<size_t>(static_cast<int64_t>(i) * of / size);
  };
  for (int y = 0; y < photo.height; ++y) {
    for (int x = 0; x < photo.width; ++x) {
      const size_t row = place(y, photo.height, drawing.mask_height);
      const DrawnPixel pixel = drawing.mask[row * static_cast<size_t>(drawing.mask_width) +
                                            place(x, photo.width, drawing.mask_width)];
      if (pixel == DrawnPixel::kNothing) continue;
      const bool differs = pixel == DrawnPixel::kDiffers;
      const unsigned part = differs ? 3 : 1;  // of four
      uint8_t* const rgb =
          &photo.rgb[3 * (static_cast<size_t>(y) * static_cast<size_t>(photo.width) +
                          static_cast<size_t>(x))];
      for (size_t c = 0; c < 3; ++c) {
        rgb[c] =
            static_cast<uint8_t>(((4 - part) * rgb[c] + part * (differs ? kRed : kGreen)[c]) / 4);
      }
    }
  }
}

}  // namespace

std::string Base64(std::string_view bytes) {
  constexpr std::string_view kLetters =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t group = 0;
    for (size_t k = 0; k < 3; ++k) {
      group = group << 8 | (i + k < bytes.size() ? static_cast<uint8_t>(bytes[i + k]) : 0U);
    }
    for (size_t k = 0; k < 4; ++k) {
      const bool is_there = k < 2 || i + k - 1 < bytes.size();
      text += is_there ? kLetters[group >> (18 - 6 * k) & 63U] : '=';
    }
  }
  return text;
}

std::optional<PictureReport> MakePicture(const evaluate::TaskPicture& picture, bool is_bgr) {
  std::optional<data::Photo> photo = PhotoOf(picture, is_bgr);
  if (!photo) return std::nullopt;
  PictureReport report;
  report.name = picture.name;
  report.width = photo->width;
  report.height = photo->height;
  report.boxes = picture.drawing.boxes;
  report.has_mask = !picture.drawing.mask.empty();
  constexpr int kMostPixels = 480;  // of a side
  const int longest = std::max(photo->width, photo->height);
  if (longest > kMostPixels) {
    const auto shrunk = [&](int side) { return std::max(1, side * kMostPixels / longest); };
    photo = data::Resample(*photo, shrunk(photo->width), shrunk(photo->height));
  }
  if (report.has_mask) LayMask(picture.drawing, *photo);
  report.image = "data:image/jpeg;base64," + Base64(data::ToJpeg(*photo));
  return report;
}

}  // namespace bitpress::report
