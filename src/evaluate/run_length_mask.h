// Masks as runs of pixels, column after column from the top, as COCO has them. Two of them are
// compared without unpacking. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace bitpress::evaluate {

class RunLengthMask {
 public:
  // Makes a mask without pixels, to be filled by Append.
  RunLengthMask(int64_t height, int64_t width);

  // Returns the mask of run lengths in turns of nothing and object, the first of nothing. Throws
  // Error(kInvalidArgument) unless they add up to height * width.
  static RunLengthMask FromCounts(int64_t height, int64_t width, std::vector<uint32_t> counts);
  // Returns the pixels that one of some polygons covers, {x, y, x, y, ...} in pixels, as rleFrPoly
  // of pycocotools finds them: bit for bit, on processors where that computes doubles one operation
  // at a time. Throws Error(kInvalidArgument) if a polygon has no three corners, or one outside of
  // +-kMostCoordinate, or if the edges of all polygons are too long: their longer sides have more
  // than kMostSteps fifths of a pixel.
  static RunLengthMask FromPolygons(int64_t height, int64_t width,
                                    std::span<const std::vector<double>> polygons);
  static constexpr double kMostCoordinate = 1 << 17;
  static constexpr double kMostSteps = 1 << 28;  // drawing them takes about a second
  // The most pixels of a mask.
  static constexpr int64_t kMostPixels = int64_t{1} << 28;

  // Adds the next pixels. REQUIRES: they fit.
  void Append(uint64_t count, bool is_object);

  int64_t height() const { return height_; }
  int64_t width() const { return width_; }
  // The runs of nothing and object in turns. Only the first may be empty.
  const std::vector<uint32_t>& counts() const { return counts_; }
  uint64_t Area() const;
  bool operator==(const RunLengthMask&) const = default;

 private:
  int64_t height_ = 0, width_ = 0;  // sides in pixels
  uint64_t num_pixels_ = 0;         // number of pixels that were added
  std::vector<uint32_t> counts_;
};

// Returns the pixels that both masks have. REQUIRES: they are of one size, and full.
uint64_t SharedArea(const RunLengthMask& a, const RunLengthMask& b);
// Returns the pixels that both masks have over those that one of them has; `of_none` if neither has
// any. REQUIRES: they are of one size, and full.
double MaskIou(const RunLengthMask& a, const RunLengthMask& b, double of_none);

// Returns the part of a mask that lies in another one; 0 if it is empty. REQUIRES: as above.
double ShareWithin(const RunLengthMask& mask, const RunLengthMask& other);

// Returns the run lengths that COCO has as text, six bits a character. Throws
// Error(kInvalidArgument) if it holds another character, ends within a number, or if a number is
// negative or above 2^32 - 1.
std::vector<uint32_t> CountsOfText(std::string_view text);

}  // namespace bitpress::evaluate
