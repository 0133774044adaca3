// Boxes: reading them out of the outputs of detectors, and how well two sets of them agree. Pure.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "evaluate/task.h"

namespace bitpress::evaluate {

// A box in pixels of the image that the model saw.
struct Box {
  double left = 0, top = 0, right = 0, bottom = 0;
  double score = 0;
  int64_t label = 0;
  size_t row = 0;  // of the head that it was read from
};

// Returns the area that both boxes share over the area that one of them covers.
double Iou(const Box& a, const Box& b);
// Returns the part of a box that lies in another one; 0 if it has no area.
double ShareWithin(const Box& box, const Box& other);

// The ways in which outputs hold boxes.
inline constexpr std::array<std::string_view, 6> kBoxLayouts{
    // [boxes, 5 + classes]: centre, size, objectness, and a score for each class (YOLO 5, 7). Here,
    // in `yolo8` and in `end2end`, factors of masks may follow, see PrototypesOf.
    "yolo5",
    // [4 + classes, boxes]: centre, size, and a score for each class (YOLO 8 to 11).
    "yolo8",
    // [cells, 5 + classes] of three grids, with cells of 8, 16 and 32 pixels: centre in cells from
    // the cell's corner, logarithm of the size in cells, objectness, and a score for each class.
    "yolox",
    // [boxes, 6]: corners, score and class, after NMS (YOLO 10 and 26, exports with NMS).
    "end2end",
    // Outputs apart: [boxes, 4] corners, [boxes] scores, [boxes] classes, and perhaps their number.
    "apart",
    // [1, h, w] scores, [2, h, w] logarithms of sizes and [2, h, w] offsets, height before width
    // (CenterFace).
    "centermap"};

struct DetectionSettings {
  std::string layout;
  double score = 0.25;  // boxes below it do not count
  double iou = 0.5;     // of boxes that suppress each other
  double stride = 4;    // pixels of a cell of `centermap`
  // These are the sides of the image that the model saw, for `yolox` and masks.
  int64_t input_height = 0, input_width = 0;
};

// Returns the layout that the outputs of a first run have, or "".
std::string FindBoxLayout(const TaskInterface& interface);

// Returns the boxes of one sample whose score reaches `least_score`, the best first, without those
// that a better one of their class suppresses. Throws Error(kInvalidArgument) if the outputs have
// another layout.
std::vector<Box> ReadBoxes(const std::vector<SampleOutput>& outputs,
                           const DetectionSettings& settings, double least_score);

// Returns the pairs {wanted, found} of boxes of one class with an IoU of `iou` or more: each found
// box, the best first, takes the free wanted one that it covers best.
std::vector<std::pair<size_t, size_t>> PairBoxes(std::span<const Box> wanted,
                                                 std::span<const Box> found, double iou);

// Returns the output with the prototypes of masks, [masks, height, width] at a quarter of the
// image's sides. Each row of the head ends with a factor for each of them. Null: boxes have no
// masks.
const SampleOutput* PrototypesOf(const std::vector<SampleOutput>& outputs,
                                 const DetectionSettings& settings);
// Returns the factors of the prototypes for a box. REQUIRES: there are prototypes, and ReadBoxes
// gave the box.
std::vector<double> MaskFactorsOf(const Box& box, const std::vector<SampleOutput>& outputs,
                                  const DetectionSettings& settings);

}  // namespace bitpress::evaluate
