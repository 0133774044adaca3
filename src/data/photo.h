// The steps of one photo from the bytes of a file to a tensor. Functions are pure and may run
// concurrently.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
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

// Decodes a JPEG, PNG, WebP, BMP or TIFF, which it tells apart by content. Throws
// Error(kInvalidArgument) if the bytes are damaged or none of these, and before decoding if the
// photo is over 100 megapixels.
Photo DecodePhoto(std::string_view bytes);

// Encodes a picture as a JPEG of good quality. REQUIRES: it has a pixel.
std::string ToJpeg(const Photo& photo);

// Scales to exactly this size with an antialiased Catmull-Rom filter (cubic, a = -0.5), in 8 bits.
// Pixels beyond the edge have the value of the edge.
Photo Resample(const Photo& photo, int width, int height);

// Scales so that the shorter side has `size` pixels; the longer one is rounded down.
// Throws Error(kInvalidArgument) if that makes more than 100 megapixels.
Photo ResizeShorterSide(Photo photo, int size);

// Scales so that the longer side has `size` pixels, and puts the photo into the middle of a square
// of grey (114), as detectors of the YOLO kind are trained.
Photo Letterbox(const Photo& photo, int size);

// Resizes, crops, normalizes and lays out a photo: the result is float32 [1, 3, H, W] or
// [1, H, W, 3].
Tensor PhotoToTensor(Photo photo, const ImageSpec& spec);

// Decodes a file and makes its tensor. The file's name stands in front of every error.
Tensor LoadPhoto(const std::filesystem::path& path, const ImageSpec& spec);

}  // namespace bitpress::data
