// Labels of objects in photos, in the form of COCO: boxes, and masks as polygons or as runs.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "evaluate/average_precision.h"
#include "evaluate/run_length_mask.h"

namespace bitpress::evaluate {

// The mask of a label as its file has it: polygons, or runs, or neither.
struct CocoSegmentation {
  std::vector<std::vector<double>> polygons = {};
  std::vector<uint32_t> counts = {};
  std::array<int64_t, 2> size = {};  // height and width of runs

  bool IsGiven() const { return !polygons.empty() || !counts.empty(); }
};

struct CocoAnnotation {
  int64_t id = 0;
  CocoSegmentation segmentation = {};
};

// The labels of one photo, in its own pixels.
struct CocoImage {
  int64_t id = 0;
  int64_t width = 0, height = 0;  // 0: the file does not say
  std::vector<LabelledBox> boxes = {};
  std::vector<CocoAnnotation> annotations = {};  // by `boxes`
};

struct CocoLabels {
  std::string file;
  std::map<std::string, CocoImage> images = {};  // images by the names of their files
  // Masks can be measured: there are labels, each has a segmentation that is not empty, and each
  // image has its width and height. Otherwise the boxes alone are measured.
  bool has_masks = false;
  // The reason why labels with segmentations have no masks, as a clause; "" otherwise.
  std::string why_no_masks = {};

  // Returns the labels of a sample, whose file may be listed with its folders or without; null:
  // none.
  const CocoImage* Of(const std::string& sample) const;
  // Returns the masks of an image's labels. Throws Error(kInvalidArgument) naming the file and the
  // label if it has none or a wrong one, or if the size of the image is not known.
  std::vector<RunLengthMask> MasksOf(const CocoImage& image) const;
};

// Reads labels. Classes are the positions of the category ids in their order, as detectors trained
// on COCO have them. Throws Error(kInvalidArgument) naming the file and the image or annotation
// that is wrong. An image has at most RunLengthMask::kMostPixels.
CocoLabels ReadCocoLabels(const std::string& file);

}  // namespace bitpress::evaluate
