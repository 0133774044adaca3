// One photo: from the bytes of a file to a tensor. Functions are pure and may run concurrently.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>
#include <vector>

#include "base/tensor.h"
#include "data/source.h"

namespace bitpress::data {

// An 8-bit RGB picture, row by row.
struct Photo {
  int width = 0;
  int height = 0;
  std::vector<uint8_t> rgb;
};

// Decodes a JPEG or PNG (told apart by content). Throws Error(kInvalidArgument) if it is damaged or
// neither, and before decoding if it is over 100 megapixels.
Photo DecodePhoto(std::string_view bytes);

// Scales to exactly this size with an antialiased Catmull-Rom filter (cubic, a = -0.5), in 8 bits.
// Pixels beyond the edge are those of the edge.
Photo Resample(const Photo& photo, int width, int height);

// Scales so that the shorter side has `size` pixels; the longer one is rounded down.
// Throws Error(kInvalidArgument) if that makes more than 100 megapixels.
Photo ResizeShorterSide(Photo photo, int size);

// Resize, crop, normalize and lay out: float32 of [1, 3, H, W] or [1, H, W, 3].
Tensor PhotoToTensor(Photo photo, const ImageSpec& spec);

// All of it for a file, whose name is put in front of every error.
Tensor LoadPhoto(const std::filesystem::path& path, const ImageSpec& spec);

}  // namespace bitpress::data
