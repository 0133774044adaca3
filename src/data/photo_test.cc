#include "data/photo.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>

#include "base/test_support.h"
#include "data/test_files.h"

namespace bitpress::data {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

int LargestDifference(const std::vector<uint8_t>& a, const std::vector<uint8_t>& b) {
  EXPECT_EQ(a.size(), b.size());
  int largest = 0;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    largest = std::max(largest, std::abs(a[i] - b[i]));
  }
  return largest;
}

std::string DecodeFailure(const std::string& bytes) {
  return ExpectError(ErrorCode::kInvalidArgument, [&] { DecodePhoto(bytes); });
}

TEST(DecodePhoto, PngIsExact) {
  const Photo photo = MakePhoto(37, 23);
  for (const PngKind kind : {PngKind::kRgb8, PngKind::kRgba8, PngKind::kRgb16}) {
    const Photo decoded = DecodePhoto(EncodePng(photo, kind));
    EXPECT_EQ(decoded.width, 37);
    EXPECT_EQ(decoded.height, 23);
    EXPECT_EQ(decoded.rgb, photo.rgb) << static_cast<int>(kind);
  }
}

TEST(DecodePhoto, GrayAndPalettePngBecomeRgb) {
  const Photo photo = MakePhoto(37, 23);
  const Photo gray = DecodePhoto(EncodePng(photo, PngKind::kGray8));
  const Photo palette = DecodePhoto(EncodePng(photo, PngKind::kPalette));
  ASSERT_EQ(gray.rgb.size(), photo.rgb.size());
  ASSERT_EQ(palette.rgb.size(), photo.rgb.size());
  for (size_t i = 0; i < photo.rgb.size(); i += 3) {
    const uint8_t value = photo.rgb[i];
    ASSERT_THAT(std::vector(&gray.rgb[i], &gray.rgb[i] + 3), Each(value));
    ASSERT_THAT(std::vector(&palette.rgb[i], &palette.rgb[i] + 3),
                ElementsAre(value, 255 - value, value / 2));
  }
}

// A BMP of two rows of three pixels, the last row first.
std::string SmallBmp() {
  std::string bytes = "BM";
  const auto add = [&](uint32_t value, int num_bytes) {
    for (int i = 0; i < num_bytes; ++i) bytes += static_cast<char>(value >> (8 * i));
  };
  for (const uint32_t value : {78U, 0U, 54U, 40U, 3U, 2U}) add(value, 4);
  for (const uint32_t value : {1U, 24U}) add(value, 2);
  for (int i = 0; i < 6; ++i) add(0, 4);
  for (const uint32_t row : {1U, 0U}) {
    for (uint32_t x = 0; x < 3; ++x) add(0x102030 * (row + 1) + x, 3);
    add(0, 3);
  }
  return bytes;
}

TEST(DecodePhoto, BmpIsExact) {
  const Photo photo = DecodePhoto(SmallBmp());
  EXPECT_EQ(std::pair(photo.width, photo.height), std::pair(3, 2));
  EXPECT_THAT(photo.rgb,
              testing::ElementsAre(0x10, 0x20, 0x30, 0x10, 0x20, 0x31, 0x10, 0x20, 0x32, 0x20, 0x40,
                                   0x60, 0x20, 0x40, 0x61, 0x20, 0x40, 0x62));
}

TEST(DecodePhotoError, DamagedBmpNeverCrashes) {
  const std::string whole = SmallBmp();
  for (size_t size = 0; size < whole.size(); ++size) DecodeFailure(whole.substr(0, size));
  for (size_t at = 2; at < whole.size(); ++at) {
    for (const int flip : {1, 128, 255}) {
      std::string bytes = whole;
      bytes[at] = static_cast<char>(bytes[at] ^ flip);
      try {
        DecodePhoto(bytes);
      } catch (const Error&) {
      }
    }
  }
}

TEST(DecodePhoto, JpegIsNear) {
  const Photo photo = MakePhoto(50, 40);
  const Photo rgb = DecodePhoto(EncodeJpeg(photo));
  EXPECT_EQ(rgb.width, 50);
  EXPECT_EQ(rgb.height, 40);
  EXPECT_LE(LargestDifference(rgb.rgb, photo.rgb), 4);
  const Photo cmyk = DecodePhoto(EncodeJpeg(photo, JpegKind::kCmyk));
  EXPECT_LE(LargestDifference(cmyk.rgb, photo.rgb), 4);
  const Photo gray = DecodePhoto(EncodeJpeg(photo, JpegKind::kGray));
  ASSERT_EQ(gray.rgb.size(), photo.rgb.size());
  for (size_t i = 0; i < photo.rgb.size(); i += 3) {
    const double luma = 0.299 * photo.rgb[i] + 0.587 * photo.rgb[i + 1] + 0.114 * photo.rgb[i + 2];
    ASSERT_NEAR(gray.rgb[i], luma, 3);
    ASSERT_EQ(gray.rgb[i], gray.rgb[i + 1]);
    ASSERT_EQ(gray.rgb[i], gray.rgb[i + 2]);
  }
}

TEST(DecodePhotoError, OtherAndDamagedFiles) {
  EXPECT_THAT(DecodeFailure(""), HasSubstr("empty"));
  EXPECT_THAT(DecodeFailure("GIF89a"), HasSubstr("neither JPEG, PNG, WebP, BMP nor TIFF"));
  EXPECT_THAT(DecodeFailure("\xff\xd8 and then nothing"), HasSubstr("JPEG"));
  EXPECT_THAT(DecodeFailure("\x89PNG and then nothing"), HasSubstr("PNG"));
  const Photo photo = MakePhoto(64, 64);
  const std::string jpeg = EncodeJpeg(photo);
  EXPECT_THAT(DecodeFailure(jpeg.substr(0, jpeg.size() / 2)), HasSubstr("JPEG is damaged"));
  EXPECT_THAT(DecodeFailure(jpeg.substr(0, 30)), HasSubstr("JPEG"));
  const std::string png = EncodePng(photo);
  EXPECT_THAT(DecodeFailure(png.substr(0, png.size() / 2)), HasSubstr("PNG is damaged"));
  std::string flipped = png;
  flipped[png.size() / 2] = static_cast<char>(flipped[png.size() / 2] ^ 1);
  EXPECT_THAT(DecodeFailure(flipped), HasSubstr("PNG is damaged"));
}

TEST(DecodePhotoError, NeverCrashesOnFlippedBytes) {
  const Photo photo = MakePhoto(24, 24);
  for (const std::string& whole : {EncodeJpeg(photo), EncodePng(photo)}) {
    for (size_t i = 0; i < whole.size(); i += 3) {
      std::string damaged = whole;
      damaged[i] = static_cast<char>(damaged[i] ^ 0x41);
      try {
        DecodePhoto(damaged);
      } catch (const Error&) {
      }
    }
  }
}

TEST(DecodePhotoError, HugePicturesAreRefusedBeforeDecoding) {
  std::string jpeg = EncodeJpeg(MakePhoto(16, 16));
  const size_t frame = jpeg.find("\xff\xc0");
  ASSERT_NE(frame, std::string::npos);
  jpeg.replace(frame + 5, 4, "\xea\x60\xea\x60");  // height and width
  EXPECT_THAT(DecodeFailure(jpeg), HasSubstr("60000x60000 pixels; at most 100 megapixels"));

  // The area of the PNG is within the limit, but one side is too long. It is black and so small.
  const Photo line{.width = 70000, .height = 1, .rgb = std::vector<uint8_t>(210000)};
  EXPECT_THAT(DecodeFailure(EncodePng(line)), HasSubstr("70000x1 pixels"));
}

// Resamples slowly by the definition. Each output pixel is the weighted mean of the input around
// it, with the filter stretched when shrinking. Pixels beyond the edge have the value of the edge.
Photo SlowRows(const Photo& photo, int width) {
  const auto cubic = [](double x) {
    x = std::abs(x);
    if (x < 1) return 1.5 * x * x * x - 2.5 * x * x + 1;
    if (x < 2) return -0.5 * x * x * x + 2.5 * x * x - 4 * x + 2;
    return 0.0;
  };
  const double scale = static_cast<double>(photo.width) / width;
  const double stretch = std::max(1.0, scale);
  Photo result{.width = width, .height = photo.height, .rgb = {}};
  for (int y = 0; y < photo.height; ++y) {
    for (int x = 0; x < width; ++x) {
      const double centre = (x + 0.5) * scale;
      double sums[3] = {0, 0, 0};
      double sum_of_weights = 0;
      const int reach = static_cast<int>(std::ceil(2 * stretch)) + 1;
      for (int i = static_cast<int>(centre) - reach; i <= static_cast<int>(centre) + reach; ++i) {
        const double weight = cubic((i + 0.5 - centre) / stretch);
        const int column = std::clamp(i, 0, photo.width - 1);
        for (size_t c = 0; c < 3; ++c) {
          sums[c] += weight * photo.rgb[static_cast<size_t>(y * photo.width + column) * 3 + c];
        }
        sum_of_weights += weight;
      }
      for (const double sum : sums) {
        result.rgb.push_back(
            static_cast<uint8_t>(std::clamp(std::floor(sum / sum_of_weights + 0.5), 0.0, 255.0)));
      }
    }
  }
  return result;
}

Photo Transpose(const Photo& photo) {
  Photo result{.width = photo.height, .height = photo.width, .rgb = {}};
  for (int x = 0; x < photo.width; ++x) {
    for (int y = 0; y < photo.height; ++y) {
      for (int c = 0; c < 3; ++c) {
        result.rgb.push_back(photo.rgb[static_cast<size_t>((y * photo.width + x) * 3 + c)]);
      }
    }
  }
  return result;
}

TEST(Resample, FollowsTheDefinition) {
  Photo photo = MakePhoto(61, 47);
  uint32_t state = 7;
  for (uint8_t& value : photo.rgb) {  // hard edges: half of the pixels at random black or white
    state = state * 1664525u + 1013904223u;
    if (state >> 31) value = (state >> 30) & 1 ? 255 : 0;
  }
  for (const auto& [width, height] : {std::pair(20, 31), {61, 47}, {90, 47}, {61, 12}, {100, 95}}) {
    const Photo expected = Transpose(SlowRows(Transpose(SlowRows(photo, width)), height));
    const Photo found = Resample(photo, width, height);
    EXPECT_EQ(found.width, width);
    EXPECT_EQ(found.height, height);
    EXPECT_LE(LargestDifference(found.rgb, expected.rgb), 1) << width << "x" << height;
  }
}

TEST(PhotoToTensor, FitsAPhotoIntoASquare) {
  const Photo white{.width = 8, .height = 4, .rgb = std::vector<uint8_t>(8 * 4 * 3, 255)};
  const Photo boxed = Letterbox(white, 4);
  EXPECT_EQ(boxed.width, 4);
  EXPECT_EQ(boxed.height, 4);
  for (size_t i = 0; i < boxed.rgb.size(); ++i) {
    const size_t row = i / 12;
    EXPECT_EQ(boxed.rgb[i], row == 1 || row == 2 ? 255 : 114) << i;
  }
  for (const char* spec : {"resize=4,fit=letterbox", "resize=4,fit=stretch"}) {
    EXPECT_EQ(PhotoToTensor(white, ParseImageSpec(spec)).dims, (std::vector<int64_t>{1, 3, 4, 4}));
  }
  EXPECT_EQ(PhotoToTensor(white, ParseImageSpec("resize=4")).dims,
            (std::vector<int64_t>{1, 3, 4, 8}));
  EXPECT_EQ(PhotoToTensor(white, ParseImageSpec("resize=4,fit=stretch")).values<float>().front(),
            1);
}

TEST(ResizeShorterSide, RoundsTheLongerSideDown) {
  const Photo wide = ResizeShorterSide(MakePhoto(500, 375), 256);
  EXPECT_EQ(wide.width, 341);
  EXPECT_EQ(wide.height, 256);
  const Photo tall = ResizeShorterSide(MakePhoto(375, 500), 256);
  EXPECT_EQ(tall.width, 256);
  EXPECT_EQ(tall.height, 341);
  const Photo same = ResizeShorterSide(MakePhoto(30, 40), 30);
  EXPECT_EQ(same.rgb, MakePhoto(30, 40).rgb);
  EXPECT_THAT(
      ExpectError(ErrorCode::kInvalidArgument, [] { ResizeShorterSide(MakePhoto(20000, 1), 256); }),
      HasSubstr("20000x1 pixels with the shorter side scaled to 256"));
}

// Returns a picture whose red is 10 * column and green 10 * row.
Photo MakeGrid(int width, int height) {
  Photo photo{.width = width, .height = height, .rgb = {}};
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      photo.rgb.push_back(static_cast<uint8_t>(10 * x));
      photo.rgb.push_back(static_cast<uint8_t>(10 * y));
      photo.rgb.push_back(200);
    }
  }
  return photo;
}

TEST(PhotoToTensor, CropsTheCentreRoundingHalvesToEven) {
  struct Case {
    int size, crop, begin;
  };
  for (const Case& c : {Case{4, 3, 0}, {5, 2, 2}, {8, 3, 2}, {9, 2, 4}, {6, 2, 2}, {5, 5, 0}}) {
    const Tensor tensor = PhotoToTensor(MakeGrid(c.size, c.size), {.crop = c.crop});
    EXPECT_THAT(tensor.dims, ElementsAre(1, 3, c.crop, c.crop));
    const size_t plane = static_cast<size_t>(c.crop * c.crop);
    EXPECT_FLOAT_EQ(tensor.values<float>()[0] * 255, static_cast<float>(10 * c.begin));
    EXPECT_FLOAT_EQ(tensor.values<float>()[plane] * 255, static_cast<float>(10 * c.begin));
    EXPECT_FLOAT_EQ(tensor.values<float>()[2 * plane] * 255, 200.0f);
  }
}

TEST(PhotoToTensor, LayoutsAndChannelOrders) {
  const Photo photo = MakeGrid(3, 2);
  const float mean[3] = {0.5f, 0.25f, 0.125f};
  const float std[3] = {0.5f, 2.0f, 4.0f};
  for (const bool nhwc : {false, true}) {
    for (const bool bgr : {false, true}) {
      ImageSpec spec{.nhwc = nhwc, .bgr = bgr};
      std::copy(mean, mean + 3, spec.mean);
      std::copy(std, std + 3, spec.std);
      const Tensor tensor = PhotoToTensor(photo, spec);
      EXPECT_EQ(tensor.type, DataType::kFloat);
      if (nhwc) {
        EXPECT_THAT(tensor.dims, ElementsAre(1, 2, 3, 3));
      } else {
        EXPECT_THAT(tensor.dims, ElementsAre(1, 3, 2, 3));
      }
      for (size_t y = 0; y < 2; ++y) {
        for (size_t x = 0; x < 3; ++x) {
          for (size_t c = 0; c < 3; ++c) {
            const size_t position = bgr ? 2 - c : c;
            const size_t index = nhwc ? (y * 3 + x) * 3 + position : (position * 2 + y) * 3 + x;
            const float value = photo.rgb[(y * 3 + x) * 3 + c];
            EXPECT_EQ(tensor.values<float>()[index], (value / 255.0f - mean[c]) / std[c]);
          }
        }
      }
    }
  }
}

TEST(PhotoToTensor, ResizesThenCrops) {
  const Photo photo = MakePhoto(90, 60);
  const Tensor tensor = PhotoToTensor(photo, {.resize = 40, .crop = 32});
  const Tensor expected = PhotoToTensor(Resample(photo, 60, 40), {.crop = 32});
  EXPECT_EQ(tensor.dims, expected.dims);
  EXPECT_EQ(tensor.bytes, expected.bytes);
}

TEST(LoadPhoto, ErrorsNameTheFile) {
  TemporaryFolder folder;
  WriteBytes(folder / "small.png", EncodePng(MakePhoto(10, 20)));
  EXPECT_THAT(ExpectError(ErrorCode::kInvalidArgument,
                          [&] { LoadPhoto(folder / "small.png", {.crop = 16}); }),
              testing::AllOf(HasSubstr("small.png: "),
                             HasSubstr("10x20 pixels, which is smaller than the crop of 16x16")));
  WriteBytes(folder / "text.jpg", "text");
  EXPECT_THAT(ExpectError(ErrorCode::kInvalidArgument, [&] { LoadPhoto(folder / "text.jpg", {}); }),
              HasSubstr("text.jpg: the file is neither"));
  EXPECT_THAT(ExpectError(ErrorCode::kIo, [&] { LoadPhoto(folder / "no.jpg", {}); }),
              HasSubstr("no.jpg"));
  // The content decides, not the name.
  WriteBytes(folder / "png.jpg", EncodePng(MakePhoto(10, 20)));
  EXPECT_THAT(LoadPhoto(folder / "png.jpg", {}).dims, ElementsAre(1, 3, 20, 10));
}

TEST(ToJpeg, IsReadAgain) {
  Photo photo{.width = 40, .height = 24, .rgb = std::vector<uint8_t>(3 * 40 * 24, 200)};
  const Photo again = DecodePhoto(ToJpeg(photo));
  EXPECT_EQ(again.width, 40);
  EXPECT_EQ(again.height, 24);
  for (const uint8_t value : again.rgb) EXPECT_NEAR(value, 200, 4);
}

}  // namespace
}  // namespace bitpress::data
