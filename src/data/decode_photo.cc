// The decoders of photos: JPEG through TurboJPEG, PNG through libpng's simplified interface.
#include <png.h>
#include <turbojpeg.h>

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/error.h"
#include "data/decode_others.h"
#include "data/photo.h"

namespace bitpress::data {
namespace {

// The limits of a picture, because a small file can claim any size. Both the JPEG format and the
// resampler take sides up to this.
constexpr int64_t kMaxFilePixels = 100'000'000;
constexpr int64_t kMaxFileSide = 65535;

void CheckSize(int64_t width, int64_t height) {
  if (width < 1 || height < 1 || width > kMaxFileSide || height > kMaxFileSide ||
      width * height > kMaxFilePixels) {
    Fail(ErrorCode::kInvalidArgument,
         "the picture has {}x{} pixels; at most 100 megapixels and {} a side are read", width,
         height, kMaxFileSide);
  }
}

// Converts ink to light by Adobe's convention, which CMYK JPEGs follow: ink is stored inverted
// (255: none).
void CmykToRgb(const std::vector<uint8_t>& cmyk, std::vector<uint8_t>& rgb) {
  for (size_t i = 0; i < cmyk.size() / 4; ++i) {
    const unsigned black = cmyk[4 * i + 3];
    for (size_t c = 0; c < 3; ++c) {
      rgb[3 * i + c] = static_cast<uint8_t>((cmyk[4 * i + c] * black + 127) / 255);
    }
  }
}

Photo DecodeJpeg(std::string_view bytes) {
  struct Destroy {
    void operator()(void* handle) const { tjDestroy(handle); }
  };
  const std::unique_ptr<std::remove_pointer_t<tjhandle>, Destroy> decoder(tjInitDecompress());
  if (!decoder) Fail(ErrorCode::kRuntime, "libjpeg-turbo does not start");
  const auto* const data = reinterpret_cast<const unsigned char*>(bytes.data());
  Photo photo;
  int subsampling = 0;
  int color_space = 0;
  const int status = tjDecompressHeader3(decoder.get(), data, bytes.size(), &photo.width,
                                         &photo.height, &subsampling, &color_space);
  // A file that ends before its picture counts as one of tables only, which has no size and is no
  // failure.
  if (status == 0 && photo.width < 1) {
    Fail(ErrorCode::kInvalidArgument, "not a readable JPEG: the file ends before the picture");
  }
  if (status != 0 && tjGetErrorCode(decoder.get()) == TJERR_FATAL) {
    Fail(ErrorCode::kInvalidArgument, "not a readable JPEG: {}", tjGetErrorStr2(decoder.get()));
  }
  CheckSize(photo.width, photo.height);
  const bool is_cmyk = color_space == TJCS_CMYK || color_space == TJCS_YCCK;
  const size_t num_pixels = static_cast<size_t>(photo.width) * static_cast<size_t>(photo.height);
  photo.rgb.resize(num_pixels * 3);
  std::vector<uint8_t> cmyk(is_cmyk ? num_pixels * 4 : 0);
  // A progressive file can make the decoder run for minutes without LIMITSCANS.
  if (tjDecompress2(decoder.get(), data, bytes.size(), is_cmyk ? cmyk.data() : photo.rgb.data(),
                    photo.width, 0, photo.height, is_cmyk ? TJPF_CMYK : TJPF_RGB,
                    TJFLAG_ACCURATEDCT | TJFLAG_LIMITSCANS) != 0) {
    const std::string message = tjGetErrorStr2(decoder.get());
    // Only these warnings mean that a part of the picture is missing.
    if (tjGetErrorCode(decoder.get()) == TJERR_FATAL ||
        message.find("remature end") != std::string::npos ||
        message.find("bad Huffman") != std::string::npos) {
      Fail(ErrorCode::kInvalidArgument, "the JPEG is damaged: {}", message);
    }
  }
  if (is_cmyk) CmykToRgb(cmyk, photo.rgb);
  return photo;
}

Photo DecodePng(std::string_view bytes) {
  struct Image : png_image {
    Image() : png_image{} { version = PNG_IMAGE_VERSION; }
    ~Image() { png_image_free(this); }
  } image;
  if (png_image_begin_read_from_memory(&image, bytes.data(), bytes.size()) == 0) {
    Fail(ErrorCode::kInvalidArgument, "not a readable PNG: {}", image.message);
  }
  CheckSize(image.width, image.height);
  // The picture is read with transparency, because libpng would otherwise blend with a background.
  image.format = PNG_FORMAT_RGBA;
  // Files of 16 bits that say nothing about it are not linear light.
  image.flags |= PNG_IMAGE_FLAG_16BIT_sRGB;
  std::vector<uint8_t> rgba(PNG_IMAGE_SIZE(image));
  if (png_image_finish_read(&image, nullptr, rgba.data(), 0, nullptr) == 0) {
    Fail(ErrorCode::kInvalidArgument, "the PNG is damaged: {}", image.message);
  }
  Photo photo{.width = static_cast<int>(image.width),
              .height = static_cast<int>(image.height),
              .rgb = std::vector<uint8_t>(rgba.size() / 4 * 3)};
  for (size_t i = 0; i < rgba.size() / 4; ++i) {
    for (size_t c = 0; c < 3; ++c) photo.rgb[3 * i + c] = rgba[4 * i + c];
  }
  return photo;
}

}  // namespace

Photo DecodePhoto(std::string_view bytes) {
  if (bytes.empty()) Fail(ErrorCode::kInvalidArgument, "the file is empty");
  if (bytes.starts_with("\xff\xd8")) return DecodeJpeg(bytes);
  if (bytes.starts_with("\x89PNG")) return DecodePng(bytes);
  if (IsWebp(bytes)) return DecodeWebp(bytes, CheckSize);
  if (IsTiff(bytes)) return DecodeTiff(bytes, CheckSize);
  if (IsBmp(bytes)) return DecodeBmp(bytes, CheckSize);
  Fail(ErrorCode::kInvalidArgument, "the file is neither JPEG, PNG, WebP, BMP nor TIFF");
}

}  // namespace bitpress::data
