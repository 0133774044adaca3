// Files that the tests of this room make themselves.
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

// Smooth colours that differ in every pixel and channel.
Photo MakePhoto(int width, int height);

enum class PngKind { kRgb8, kRgba8, kGray8, kRgb16, kPalette };
std::string EncodePng(const Photo& photo, PngKind kind = PngKind::kRgb8);

enum class JpegKind { kRgb, kGray, kCmyk };
std::string EncodeJpeg(const Photo& photo, JpegKind kind = JpegKind::kRgb, int quality = 100);

// An .npy file, version 1, with a header that the caller writes.
std::string EncodeNpy(std::string_view dictionary, std::string_view data, int version = 1);
std::string EncodeNpy(const Tensor& tensor);

// A zip of members (name, bytes).
void WriteZip(const std::filesystem::path& path,
              const std::vector<std::pair<std::string, std::string>>& members);

}  // namespace bitpress::data
