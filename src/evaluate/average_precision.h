// Average precision of found objects against labels, as pycocotools computes it: with 101 points of
// recall, ten thresholds of the overlap, and at most 100 objects of a class in an image. Objects
// are boxes or masks: the caller says how far two of them overlap. Pure.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <vector>

#include "base/byte_stream.h"
#include "evaluate/detection.h"

namespace bitpress::evaluate {

// The thresholds, as numpy.linspace gives them from 0.5 to 0.95.
inline constexpr size_t kNumThresholds = 10;
std::array<double, kNumThresholds> OverlapThresholds();

// A box of one image that has labels, as COCO has them.
struct LabelledBox : Box {
  bool is_crowd = false;  // objects that lie in it count neither way
};

// A found object beside the labels of its image. Bit i is about threshold i.
struct MatchedObject {
  double score = 0;
  int64_t label = 0;
  uint16_t is_right = 0;
  uint16_t is_in_crowd = 0;  // it does not count

  auto operator<=>(const MatchedObject&) const = default;
};
struct MatchedImage {
  int64_t id = 0;                               // in the labels; equal scores of images follow it
  std::vector<MatchedObject> found = {};        // the best first
  std::map<int64_t, uint64_t> num_wanted = {};  // labels that count, by class

  auto operator<=>(const MatchedImage&) const = default;
};

// Write and read the matches of images, as the files of evaluations have them. Reading throws
// Error(kInvalidArgument) if the bytes are damaged.
void WriteMatches(std::span<const MatchedImage> images, ByteWriter& writer);
std::vector<MatchedImage> ReadMatches(ByteReader& reader);

// Returns how far a found object overlaps a wanted one, by their positions, 0 to 1: for one that is
// a crowd the part of the found one that lies in it, else the IoU.
using Overlap = std::function<double(size_t found, size_t wanted)>;
// Returns the overlap of boxes.
double BoxOverlap(const Box& found, const LabelledBox& wanted);

// Matches the objects of one image. REQUIRES: the best of `found` is the first.
MatchedImage MatchObjects(int64_t id, std::span<const LabelledBox> wanted,
                          std::span<const Box> found, const Overlap& overlap);

// Returns the average precision: the mean over classes with a label, and over the first
// `num_thresholds`. It does not depend on the order of images with different ids. 0 without labels.
double AveragePrecision(std::span<const MatchedImage> images,
                        size_t num_thresholds = kNumThresholds);

}  // namespace bitpress::evaluate
