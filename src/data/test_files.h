// Makers of photos, arrays and zips for the tests of this room.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/test_support.h"
#include "data/photo.h"

namespace bitpress::data {

// Returns a photo of smooth colours that differ in every pixel and channel.
Photo MakePhoto(int width, int height);

enum class PngKind { kRgb8, kRgba8, kGray8, kRgb16, kPalette };
std::string EncodePng(const Photo& photo, PngKind kind = PngKind::kRgb8);

enum class JpegKind { kRgb, kGray, kCmyk };
std::string EncodeJpeg(const Photo& photo, JpegKind kind = JpegKind::kRgb, int quality = 100);

// Returns the bytes of an .npy file, with a header that the caller writes.
std::string EncodeNpy(std::string_view dictionary, std::string_view data, int version = 1);
std::string EncodeNpy(const Tensor& tensor);

// Writes a zip of members (name, bytes).
void WriteZip(const std::filesystem::path& path,
              const std::vector<std::pair<std::string, std::string>>& members);

}  // namespace bitpress::data
