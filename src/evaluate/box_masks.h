// Masks of boxes: the sums of prototypes by which YOLO's heads show objects. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "evaluate/detection.h"
#include "evaluate/run_length_mask.h"

namespace bitpress::evaluate {

// The pixels of an image, and how they lie in what the model saw: x of the image is at
// x * x_scale + left there.
struct ImageFit {
  int64_t height = 0, width = 0;
  double x_scale = 1, y_scale = 1, left = 0, top = 0;
};

// Returns the fit of the prototypes' own pixels.
ImageFit FitOfPrototypes(const SampleOutput& prototypes, const DetectionSettings& settings);

// Returns which pixels of an image show the object of a box: those whose middles lie in the box and
// where the sum of the prototypes, interpolated between their four nearest pixels, is above 0.
// Throws Error(kInvalidArgument) if the image has no pixels or more than
// RunLengthMask::kMostPixels. REQUIRES: PrototypesOf gives some, and ReadBoxes gave the box.
RunLengthMask MaskOf(const Box& box, const std::vector<SampleOutput>& outputs,
                     const DetectionSettings& settings, const ImageFit& fit);

}  // namespace bitpress::evaluate
