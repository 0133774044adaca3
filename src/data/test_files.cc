#include "data/test_files.h"

#include <png.h>
#include <turbojpeg.h>
#include <zip.h>

#include <cstring>

namespace bitpress::data {

Photo MakePhoto(int width, int height) {
  Photo photo{.width = width, .height = height, .rgb = {}};
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      photo.rgb.push_back(static_cast<uint8_t>(255 * x / width));
      photo.rgb.push_back(static_cast<uint8_t>(255 * y / height));
      photo.rgb.push_back(static_cast<uint8_t>(255 - 255 * (x + y) / (width + height)));
    }
  }
  return photo;
}

namespace {

// Writes 16 bits a channel and no colour information, which the simplified interface cannot do.
std::string EncodePng16(const Photo& photo) {
  std::string bytes;
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  png_set_write_fn(
      png, &bytes,
      [](png_structp writer, png_bytep data, size_t size) {
        static_cast<std::string*>(png_get_io_ptr(writer))
            ->append(reinterpret_cast<const char*>(data), size);
      },
      nullptr);
  png_set_IHDR(png, info, static_cast<png_uint_32>(photo.width),
               static_cast<png_uint_32>(photo.height), 16, PNG_COLOR_TYPE_RGB, PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  png_write_info(png, info);
  const size_t row_size = static_cast<size_t>(photo.width) * 3;
  std::vector<uint8_t> row(row_size * 2);
  for (size_t y = 0; y < static_cast<size_t>(photo.height); ++y) {
    for (size_t i = 0; i < row_size; ++i) row[2 * i] = row[2 * i + 1] = photo.rgb[y * row_size + i];
    png_write_row(png, row.data());
  }
  png_write_end(png, info);
  png_destroy_write_struct(&png, &info);
  return bytes;
}

}  // namespace

std::string EncodePng(const Photo& photo, PngKind kind) {
  if (kind == PngKind::kRgb16) return EncodePng16(photo);
  const size_t num_pixels = photo.rgb.size() / 3;
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(photo.width);
  image.height = static_cast<png_uint_32>(photo.height);
  std::vector<uint8_t> pixels = photo.rgb;
  std::vector<uint8_t> colormap;
  image.format = PNG_FORMAT_RGB;
  if (kind == PngKind::kRgba8) {
    image.format = PNG_FORMAT_RGBA;
    pixels.clear();
    for (size_t i = 0; i < num_pixels; ++i) {
      pixels.insert(pixels.end(), photo.rgb.begin() + static_cast<std::ptrdiff_t>(3 * i),
                    photo.rgb.begin() + static_cast<std::ptrdiff_t>(3 * i + 3));
      pixels.push_back(static_cast<uint8_t>(i * 37));  // any transparency
    }
  } else if (kind == PngKind::kGray8) {
    image.format = PNG_FORMAT_GRAY;
    pixels.clear();
    for (size_t i = 0; i < num_pixels; ++i) pixels.push_back(photo.rgb[3 * i]);
  } else if (kind == PngKind::kPalette) {
    image.format = PNG_FORMAT_RGB_COLORMAP;
    image.colormap_entries = 256;
    pixels.clear();
    for (size_t i = 0; i < num_pixels; ++i) pixels.push_back(photo.rgb[3 * i]);
    for (size_t i = 0; i < 256; ++i) {  // colour i: (i, 255 - i, i / 2)
      colormap.push_back(static_cast<uint8_t>(i));
      colormap.push_back(static_cast<uint8_t>(255 - i));
      colormap.push_back(static_cast<uint8_t>(i / 2));
    }
  }
  png_alloc_size_t size = 0;
  const void* const map = colormap.empty() ? nullptr : colormap.data();
  EXPECT_NE(png_image_write_to_memory(&image, nullptr, &size, 0, pixels.data(), 0, map), 0);
  std::string bytes(size, '\0');
  EXPECT_NE(png_image_write_to_memory(&image, bytes.data(), &size, 0, pixels.data(), 0, map), 0);
  bytes.resize(size);
  return bytes;
}

std::string EncodeJpeg(const Photo& photo, JpegKind kind, int quality) {
  std::vector<uint8_t> pixels = photo.rgb;
  int format = TJPF_RGB;
  int subsampling = TJSAMP_444;
  if (kind == JpegKind::kGray) subsampling = TJSAMP_GRAY;
  if (kind == JpegKind::kCmyk) {
    // Adobe stores ink inverted. Here there is no black at all (255).
    format = TJPF_CMYK;
    pixels.clear();
    for (size_t i = 0; i < photo.rgb.size() / 3; ++i) {
      for (size_t c = 0; c < 3; ++c) pixels.push_back(photo.rgb[3 * i + c]);
      pixels.push_back(255);
    }
  }
  const tjhandle encoder = tjInitCompress();
  unsigned char* data = nullptr;
  unsigned long size = 0;
  EXPECT_EQ(tjCompress2(encoder, pixels.data(), photo.width, 0, photo.height, format, &data, &size,
                        subsampling, quality, TJFLAG_ACCURATEDCT),
            0)
      << tjGetErrorStr2(encoder);
  std::string bytes(reinterpret_cast<const char*>(data), size);
  tjFree(data);
  tjDestroy(encoder);
  return bytes;
}

std::string EncodeNpy(std::string_view dictionary, std::string_view data, int version) {
  std::string bytes = "\x93NUMPY";
  bytes.push_back(static_cast<char>(version));
  bytes.push_back('\0');
  const size_t length = dictionary.size() + 1;
  for (size_t i = 0; i < (version == 1 ? 2u : 4u); ++i) {
    bytes.push_back(static_cast<char>((length >> (8 * i)) & 0xff));
  }
  bytes.append(dictionary);
  bytes.push_back('\n');
  bytes.append(data);
  return bytes;
}

std::string EncodeNpy(const Tensor& tensor) {
  std::string description = "?";
  if (tensor.type == DataType::kFloat) description = "<f4";
  if (tensor.type == DataType::kInt32) description = "<i4";
  if (tensor.type == DataType::kInt64) description = "<i8";
  if (tensor.type == DataType::kUInt8) description = "|u1";
  EXPECT_NE(description, "?");
  std::string shape;
  for (const int64_t dim : tensor.dims) shape += fmt::format("{}, ", dim);
  return EncodeNpy(
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", description, shape),
      {reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size()});
}

void WriteZip(const std::filesystem::path& path,
              const std::vector<std::pair<std::string, std::string>>& members) {
  std::filesystem::create_directories(path.parent_path());
  int code = 0;
  zip_t* const zip = zip_open(PathText(path).c_str(), ZIP_CREATE | ZIP_TRUNCATE, &code);
  ASSERT_NE(zip, nullptr) << code;
  for (const auto& [name, bytes] : members) {
    zip_source_t* const source = zip_source_buffer(zip, bytes.data(), bytes.size(), 0);
    ASSERT_GE(zip_file_add(zip, name.c_str(), source, ZIP_FL_ENC_UTF_8), 0);
  }
  ASSERT_EQ(zip_close(zip), 0) << zip_strerror(zip);
}

}  // namespace bitpress::data
