#include "data/decode_others.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/shared_library.h"

namespace bitpress::data {
namespace {

uint32_t LittleEndian(std::string_view bytes, size_t at, size_t num_bytes) {
  if (at + num_bytes > bytes.size()) {
    Fail(ErrorCode::kInvalidArgument, "the BMP is damaged: it ends in its header");
  }
  uint32_t value = 0;
  for (size_t i = 0; i < num_bytes; ++i) {
    value |= static_cast<uint32_t>(static_cast<unsigned char>(bytes[at + i])) << (8 * i);
  }
  return value;
}

Photo BlackPhoto(int64_t width, int64_t height) {
  return {.width = static_cast<int>(width),
          .height = static_cast<int>(height),
          .rgb = std::vector<uint8_t>(static_cast<size_t>(width * height) * 3)};
}

// A library that is opened at its first use and stays open.
class PhotoLibrary {
 public:
  PhotoLibrary(std::string_view kind, std::initializer_list<const char*> names,
               std::string_view package)
      : kind_(kind), name_(*names.begin()), package_(package) {
    for (const char* const name : names) {
      std::string why;
      if (!library_ || !library_->is_open()) library_.emplace(name, why);
    }
  }
  // Returns a function of the library. Throws Error(kUnsupported) if there is none.
  template <typename Function>
  Function* Find(const char* function) const {
    void* const found = library_->is_open() ? library_->Find(function) : nullptr;
    if (found == nullptr) {
      Fail(ErrorCode::kUnsupported,
           "{} is read by {}, which is not on this machine (on Debian: apt-get install {}); or "
           "convert the photo to PNG",
           kind_, name_, package_);
    }
    return reinterpret_cast<Function*>(found);
  }

 private:
  std::string_view kind_, name_, package_;
  std::optional<SharedLibrary> library_;
};

// The file that libtiff reads: bytes in memory.
struct TiffBytes {
  std::string_view bytes;
  uint64_t at = 0;
};
ptrdiff_t ReadTiff(void* handle, void* target, ptrdiff_t num_bytes) {
  auto& file = *static_cast<TiffBytes*>(handle);
  const uint64_t left = file.at < file.bytes.size() ? file.bytes.size() - file.at : 0;
  const size_t count = static_cast<size_t>(
      std::min<uint64_t>(left, static_cast<uint64_t>(std::max<ptrdiff_t>(0, num_bytes))));
  std::memcpy(target, file.bytes.data() + (count > 0 ? file.at : 0), count);
  file.at += count;
  return static_cast<ptrdiff_t>(count);
}
ptrdiff_t WriteTiff(void* /*handle*/, void* /*source*/, ptrdiff_t /*num_bytes*/) { return 0; }
uint64_t SeekTiff(void* handle, uint64_t offset, int whence) {
  auto& file = *static_cast<TiffBytes*>(handle);
  const uint64_t base = whence == SEEK_CUR ? file.at : whence == SEEK_END ? file.bytes.size() : 0;
  file.at = base + offset;
  return file.at;
}
int CloseTiff(void* /*handle*/) { return 0; }
uint64_t SizeOfTiff(void* handle) { return static_cast<TiffBytes*>(handle)->bytes.size(); }
int MapTiff(void* /*handle*/, void** /*base*/, uint64_t* /*size*/) { return 0; }
void UnmapTiff(void* /*handle*/, void* /*base*/, uint64_t /*size*/) {}

}  // namespace

bool IsBmp(std::string_view bytes) { return bytes.starts_with("BM"); }
bool IsWebp(std::string_view bytes) {
  return bytes.size() >= 12 && bytes.starts_with("RIFF") && bytes.substr(8, 4) == "WEBP";
}
bool IsTiff(std::string_view bytes) {
  using std::string_view_literals::operator""sv;
  return bytes.starts_with("II*\0"sv) || bytes.starts_with("MM\0*"sv);
}

// Microsoft's BITMAPFILEHEADER (14 bytes) and BITMAPINFOHEADER or a longer one of the same
// beginning.
Photo DecodeBmp(std::string_view bytes, const CheckPhotoSize& check) {
  constexpr uint32_t kUncompressed = 0;
  constexpr uint32_t kMasks = 3;
  const uint32_t first_pixel = LittleEndian(bytes, 10, 4);
  const uint32_t header_bytes = LittleEndian(bytes, 14, 4);
  const auto width = static_cast<int32_t>(LittleEndian(bytes, 18, 4));
  const auto stored_height = static_cast<int32_t>(LittleEndian(bytes, 22, 4));
  const uint32_t bits = LittleEndian(bytes, 28, 2);
  const uint32_t compression = LittleEndian(bytes, 30, 4);
  const bool has_plain_masks =
      compression == kMasks && bits == 32 && LittleEndian(bytes, 54, 4) == 0xff0000 &&
      LittleEndian(bytes, 58, 4) == 0xff00 && LittleEndian(bytes, 62, 4) == 0xff;
  if (header_bytes < 40 || (bits != 8 && bits != 24 && bits != 32) ||
      (compression != kUncompressed && !has_plain_masks)) {
    Fail(ErrorCode::kUnsupported,
         "a BMP of {} bits a pixel with compression {} is not read; expected 8, 24 or 32 bits "
         "without compression: convert it to PNG",
         bits, compression);
  }
  const int64_t height = stored_height < 0 ? -int64_t{stored_height} : stored_height;
  check(width, height);
  const size_t num_columns = static_cast<size_t>(width);
  const size_t row_bytes = (num_columns * bits / 8 + 3) / 4 * 4;
  if (first_pixel > bytes.size() ||
      (bytes.size() - first_pixel) / row_bytes < static_cast<size_t>(height)) {
    Fail(ErrorCode::kInvalidArgument, "the BMP is damaged: it ends before its last row");
  }
  const size_t palette = 14 + size_t{header_bytes};
  Photo photo = BlackPhoto(width, height);
  for (size_t y = 0; y < static_cast<size_t>(height); ++y) {
    const size_t row = stored_height < 0 ? y : static_cast<size_t>(height) - 1 - y;
    for (size_t x = 0; x < num_columns; ++x) {
      size_t at = first_pixel + row * row_bytes + x * (bits / 8);
      if (bits == 8) at = palette + 4 * static_cast<unsigned char>(bytes[at]);
      const uint32_t bgr = LittleEndian(bytes, at, 3);
      for (size_t c = 0; c < 3; ++c) {
        photo.rgb[3 * (y * num_columns + x) + c] = static_cast<uint8_t>(bgr >> (8 * (2 - c)));
      }
    }
  }
  return photo;
}

Photo DecodeWebp(std::string_view bytes, const CheckPhotoSize& check) {
  static const PhotoLibrary library("WebP", {"libwebp.so.7"}, "libwebp7");
  auto* const get_info = library.Find<int(const uint8_t*, size_t, int*, int*)>("WebPGetInfo");
  auto* const decode =
      library.Find<uint8_t*(const uint8_t*, size_t, uint8_t*, size_t, int)>("WebPDecodeRGBInto");
  const auto* const data = reinterpret_cast<const uint8_t*>(bytes.data());
  int width = 0;
  int height = 0;
  if (get_info(data, bytes.size(), &width, &height) == 0) {
    Fail(ErrorCode::kInvalidArgument, "not a readable WebP: its header is damaged");
  }
  check(width, height);
  Photo photo = BlackPhoto(width, height);
  if (decode(data, bytes.size(), photo.rgb.data(), photo.rgb.size(), 3 * width) == nullptr) {
    Fail(ErrorCode::kInvalidArgument, "the WebP is damaged or an animation");
  }
  return photo;
}

Photo DecodeTiff(std::string_view bytes, const CheckPhotoSize& check) {
  static const PhotoLibrary library("TIFF", {"libtiff.so.6", "libtiff.so.5"}, "libtiff6");
  using Handler = void(const char*, const char*, void*);
  // The library would print its errors. Its handlers are for all threads.
  [[maybe_unused]] static const bool is_quiet = [] {
    library.Find<Handler*(Handler*)>("TIFFSetErrorHandler")(nullptr);
    library.Find<Handler*(Handler*)>("TIFFSetWarningHandler")(nullptr);
    return true;
  }();
  auto* const open =
      library.Find<void*(const char*, const char*, void*, decltype(ReadTiff)*, decltype(WriteTiff)*,
                         decltype(SeekTiff)*, decltype(CloseTiff)*, decltype(SizeOfTiff)*,
                         decltype(MapTiff)*, decltype(UnmapTiff)*)>("TIFFClientOpen");
  TiffBytes file{.bytes = bytes};
  const std::unique_ptr<void, void (*)(void*)> tiff(
      open("photo", "rm", &file, ReadTiff, WriteTiff, SeekTiff, CloseTiff, SizeOfTiff, MapTiff,
           UnmapTiff),
      library.Find<void(void*)>("TIFFClose"));
  constexpr uint32_t kImageWidth = 256;  // tags of TIFF 6.0
  constexpr uint32_t kImageLength = 257;
  constexpr int kTopLeft = 1;
  auto* const get = library.Find<int(void*, uint32_t, ...)>("TIFFGetField");
  uint32_t width = 0;
  uint32_t height = 0;
  if (!tiff || get(tiff.get(), kImageWidth, &width) == 0 ||
      get(tiff.get(), kImageLength, &height) == 0) {
    Fail(ErrorCode::kInvalidArgument, "not a readable TIFF: its header is damaged");
  }
  check(width, height);
  std::vector<uint32_t> pixels(size_t{width} * height);
  auto* const read = library.Find<int(void*, uint32_t, uint32_t, uint32_t*, int, int)>(
      "TIFFReadRGBAImageOriented");
  if (read(tiff.get(), width, height, pixels.data(), kTopLeft, 1) == 0) {
    Fail(ErrorCode::kInvalidArgument,
         "the TIFF is damaged, or of a kind that is no picture in RGB");
  }
  Photo photo = BlackPhoto(width, height);
  for (size_t i = 0; i < pixels.size(); ++i) {
    for (size_t c = 0; c < 3; ++c) {
      photo.rgb[3 * i + c] = static_cast<uint8_t>(pixels[i] >> (8 * c));
    }
  }
  return photo;
}

}  // namespace bitpress::data
