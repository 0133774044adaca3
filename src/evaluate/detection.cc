#include "evaluate/detection.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/error.h"

namespace bitpress::evaluate {
namespace {

Box Centred(double x, double y, double width, double height) {
  return {x - width / 2, y - height / 2, x + width / 2, y + height / 2};
}

// Returns the numbers of an output of floats or integers.
std::vector<double> NumbersOf(const SampleOutput& output) {
  if (output.integers.empty()) return {output.values.begin(), output.values.end()};
  return {output.integers.begin(), output.integers.end()};
}

[[noreturn]] void FailLayout(const std::string& layout, std::string_view expected) {
  Fail(ErrorCode::kInvalidArgument, "the outputs hold no boxes of layout {}: expected {}", layout,
       expected);
}

// Boxes of one output in which box i has field j at i * box_step + j * field_step.
struct Fields {
  const double* data;
  size_t num_boxes, num_fields, box_step, field_step;

  double At(size_t box, size_t field) const { return data[box * box_step + field * field_step]; }
};

// Adds the boxes of YOLO heads. With an objectness, scores are its products.
void ReadYolo(const Fields& fields, bool has_objectness, double least, std::vector<Box>& boxes) {
  const size_t first = has_objectness ? 5 : 4;
  for (size_t i = 0; i < fields.num_boxes; ++i) {
    const double objectness = has_objectness ? fields.At(i, 4) : 1;
    if (!(objectness >= least)) continue;
    size_t best = first;
    for (size_t j = first; j < fields.num_fields; ++j) {
      if (fields.At(i, j) > fields.At(i, best)) best = j;
    }
    const double score = fields.num_fields > first ? objectness * fields.At(i, best) : objectness;
    if (!(score >= least)) continue;
    Box box = Centred(fields.At(i, 0), fields.At(i, 1), fields.At(i, 2), fields.At(i, 3));
    box.score = score;
    box.label = static_cast<int64_t>(best - first);
    box.row = i;
    boxes.push_back(box);
  }
}

// The cells of YOLOX, one grid behind the other.
struct Cell {
  double x, y, pixels;
};
std::vector<Cell> CellsOf(int64_t height, int64_t width) {
  std::vector<Cell> cells;
  for (const int64_t pixels : {8, 16, 32}) {
    for (int64_t y = 0; y < height / pixels; ++y) {
      for (int64_t x = 0; x < width / pixels; ++x) {
        cells.push_back(
            {static_cast<double>(x), static_cast<double>(y), static_cast<double>(pixels)});
      }
    }
  }
  return cells;
}

// Returns rows of YOLOX with centres and sizes in pixels.
std::vector<double> InPixels(const SampleOutput& output, const DetectionSettings& settings) {
  const std::vector<Cell> cells = CellsOf(settings.input_height, settings.input_width);
  const auto num_fields = static_cast<size_t>(output.dims[1]);
  if (std::ssize(cells) != output.dims[0] || num_fields < 5) {
    FailLayout("yolox", fmt::format("[{}, 5 + classes] for an image of {}x{} pixels", cells.size(),
                                    settings.input_width, settings.input_height));
  }
  std::vector<double> values(output.values.begin(), output.values.end());
  for (size_t i = 0; i < cells.size(); ++i) {
    double* const row = &values[i * num_fields];
    row[0] = (row[0] + cells[i].x) * cells[i].pixels;
    row[1] = (row[1] + cells[i].y) * cells[i].pixels;
    for (double* size : {&row[2], &row[3]}) *size = std::exp(*size) * cells[i].pixels;
  }
  return values;
}

const SampleOutput& OfAxes(const std::vector<SampleOutput>& outputs, size_t num_axes,
                           const std::string& layout, std::string_view expected) {
  for (const SampleOutput& output : outputs) {
    if (output.dims.size() == num_axes && !output.values.empty()) return output;
  }
  FailLayout(layout, expected);
}

void ReadEndToEnd(const Fields& fields, double least, std::vector<Box>& boxes) {
  if (fields.num_fields != 6) FailLayout("end2end", "[boxes, 6]");
  for (size_t i = 0; i < fields.num_boxes; ++i) {
    const double score = fields.At(i, 4);
    if (!(score >= least)) continue;
    boxes.push_back({fields.At(i, 0), fields.At(i, 1), fields.At(i, 2), fields.At(i, 3), score,
                     std::llround(fields.At(i, 5)), i});
  }
}

void ReadApart(const std::vector<SampleOutput>& outputs, double least, std::vector<Box>& boxes) {
  constexpr std::string_view kExpected = "[boxes, 4], then [boxes] scores and [boxes] classes";
  const SampleOutput& corners = OfAxes(outputs, 2, "apart", kExpected);
  const auto num_boxes = static_cast<size_t>(corners.dims[0]);
  std::vector<std::vector<double>> lists;
  std::optional<double> number;
  for (const SampleOutput& output : outputs) {
    std::vector<double> numbers = NumbersOf(output);
    const bool is_list = output.dims.size() == 1 && numbers.size() == num_boxes;
    if (numbers.size() == 1 && num_boxes != 1) number = numbers[0];
    if (is_list) lists.push_back(std::move(numbers));
  }
  if (corners.dims[1] != 4 || lists.size() != 2) FailLayout("apart", kExpected);
  const size_t count =
      number ? std::min(num_boxes, static_cast<size_t>(std::max(0.0, *number))) : num_boxes;
  for (size_t i = 0; i < count; ++i) {
    const double* const row = &corners.values[4 * i];
    if (!(lists[0][i] >= least)) continue;
    boxes.push_back({row[0], row[1], row[2], row[3], lists[0][i], std::llround(lists[1][i]), i});
  }
}

void ReadCenterMap(const std::vector<SampleOutput>& outputs, double stride, double least,
                   std::vector<Box>& boxes) {
  constexpr std::string_view kExpected = "[1, h, w], [2, h, w] and [2, h, w]";
  std::vector<const SampleOutput*> pairs;
  const SampleOutput* scores = nullptr;
  for (const SampleOutput& output : outputs) {
    if (output.dims.size() != 3) continue;
    if (output.dims[0] == 1 && scores == nullptr) scores = &output;
    if (output.dims[0] == 2) pairs.push_back(&output);
  }
  if (scores == nullptr || pairs.size() != 2) FailLayout("centermap", kExpected);
  const auto width = static_cast<size_t>(scores->dims[2]);
  const size_t num_cells = scores->values.size();
  for (size_t i = 0; i < num_cells; ++i) {
    if (!(scores->values[i] >= least)) continue;
    const auto at = [&](size_t pair, size_t channel) {
      return pairs[pair]->values[channel * num_cells + i];
    };
    Box box = Centred((static_cast<double>(i % width) + at(1, 1) + 0.5) * stride,
                      (static_cast<double>(i / width) + at(1, 0) + 0.5) * stride,
                      std::exp(at(0, 1)) * stride, std::exp(at(0, 0)) * stride);
    box.score = scores->values[i];
    boxes.push_back(box);
  }
}

// Leaves out boxes that a better one of their class covers. The result is the best first.
std::vector<Box> Suppressed(std::vector<Box> boxes, double iou) {
  std::ranges::stable_sort(boxes, std::greater<>(), &Box::score);
  constexpr size_t kMostBoxes = 300;
  std::vector<Box> kept;
  for (const Box& box : boxes) {
    if (kept.size() == kMostBoxes) break;
    const bool is_covered = std::ranges::any_of(kept, [&](const Box& better) {
      return better.label == box.label && Iou(better, box) > iou;
    });
    if (!is_covered) kept.push_back(box);
  }
  return kept;
}

double AreaOf(const Box& box) {
  return std::max(0.0, box.right - box.left) * std::max(0.0, box.bottom - box.top);
}

double Shared(const Box& a, const Box& b) {
  return AreaOf({std::max(a.left, b.left), std::max(a.top, b.top), std::min(a.right, b.right),
                 std::min(a.bottom, b.bottom)});
}

// Returns whether the fields from the fifth on are shares, as scores are.
bool HasScores(const Fields& fields) {
  for (size_t i = 0; i < fields.num_boxes; ++i) {
    for (size_t j = 4; j < fields.num_fields; ++j) {
      const double value = fields.At(i, j);
      if (!(value >= 0 && value <= 1)) return false;
    }
  }
  return true;
}

// Returns whether fields 2 and 3 are sizes, which are not below 0, as their logarithms may be.
bool HasSizes(const Fields& fields) {
  for (size_t i = 0; i < fields.num_boxes; ++i) {
    if (!(fields.At(i, 2) >= 0 && fields.At(i, 3) >= 0)) return false;
  }
  return true;
}

Fields FieldsOfRows(std::span<const double> values, size_t rows, size_t columns) {
  return {values.data(), rows, columns, columns, 1};
}
Fields FieldsOfColumns(std::span<const double> values, size_t rows, size_t columns) {
  return {values.data(), columns, rows, 1, columns};
}

// Returns the number of masks of an output with prototypes, [masks, height, width]; 0: it is none.
size_t NumPrototypes(std::span<const int64_t> dims, int64_t input_height, int64_t input_width) {
  constexpr int64_t kLeastMasks = 8, kPixels = 4;
  const bool fits = dims.size() == 3 && dims[0] >= kLeastMasks && dims[1] > 0 &&
                    dims[1] * kPixels == input_height && dims[2] * kPixels == input_width;
  return fits ? static_cast<size_t>(dims[0]) : 0;
}

// Takes the factors of masks from the end of fields that have some besides those of a box. Returns
// whether it has.
bool TakeMasks(size_t num_masks, Fields& fields) {
  constexpr size_t kLeastFields = 5;
  if (num_masks == 0 || fields.num_fields < num_masks + kLeastFields) return false;
  fields.num_fields -= num_masks;
  return true;
}

// The head of a layout with one output.
struct Head {
  const SampleOutput* output = nullptr;
  Fields fields = {};                        // without the factors of masks, which follow
  const SampleOutput* prototypes = nullptr;  // null: there are no masks
};
Head HeadOf(const std::vector<SampleOutput>& outputs, const DetectionSettings& settings) {
  Head head;
  head.output = &OfAxes(outputs, 2, settings.layout, "one output of two axes a sample");
  const auto rows = static_cast<size_t>(head.output->dims[0]),
             columns = static_cast<size_t>(head.output->dims[1]);
  head.fields = settings.layout == "yolo8" ? FieldsOfColumns(head.output->values, rows, columns)
                                           : FieldsOfRows(head.output->values, rows, columns);
  for (const SampleOutput& output : outputs) {
    const size_t num_masks =
        NumPrototypes(output.dims, settings.input_height, settings.input_width);
    if (output.values.empty() || !TakeMasks(num_masks, head.fields)) continue;
    head.prototypes = &output;
    break;
  }
  return head;
}

}  // namespace

double Iou(const Box& a, const Box& b) {
  const double shared = Shared(a, b);
  const double all = AreaOf(a) + AreaOf(b) - shared;
  return all > 0 ? shared / all : 0;
}

double ShareWithin(const Box& box, const Box& other) {
  const double area = AreaOf(box);
  return area > 0 ? Shared(box, other) / area : 0;
}

std::string FindBoxLayout(const TaskInterface& interface) {
  if (!interface.reads_image) return "";
  size_t num_masks = 0;
  for (const Output& output : interface.outputs) {
    if (output.dims.empty() || num_masks > 0) continue;
    num_masks = NumPrototypes(std::span(output.dims).subspan(1), interface.input_height,
                              interface.input_width);
  }
  for (const Output& output : interface.outputs) {
    if (output.values.empty() || output.dims.size() != 3 ||
        !output.IsPerSample(interface.batch_size)) {
      continue;
    }
    const auto rows = static_cast<size_t>(output.dims[1]),
               columns = static_cast<size_t>(output.dims[2]);
    const std::span<const double> first = output.Row(0, interface.batch_size);
    Fields in_rows = FieldsOfRows(first, rows, columns);
    Fields in_columns = FieldsOfColumns(first, rows, columns);
    TakeMasks(num_masks, in_rows);
    TakeMasks(num_masks, in_columns);
    constexpr size_t kLeastBoxes = 100, kMostFields = 300, kMostEndToEnd = 1000;
    const auto is_head = [](const Fields& fields) {
      return fields.num_boxes >= kLeastBoxes && fields.num_fields >= 5 &&
             fields.num_fields <= kMostFields && fields.num_boxes > 2 * fields.num_fields;
    };
    if (in_rows.num_fields == 6 && rows <= kMostEndToEnd) {
      const bool has_classes = [&] {
        for (size_t i = 0; i < rows; ++i) {
          const double score = in_rows.At(i, 4), label = in_rows.At(i, 5);
          if (!(score >= 0 && score <= 1) || label != std::round(label)) return false;
        }
        return true;
      }();
      if (has_classes) return "end2end";
    }
    if (is_head(in_rows) && HasScores(in_rows)) {
      if (HasSizes(in_rows)) return "yolo5";
      if (CellsOf(interface.input_height, interface.input_width).size() == rows) return "yolox";
    }
    if (is_head(in_columns) && HasScores(in_columns) && HasSizes(in_columns)) return "yolo8";
  }
  return "";
}

std::vector<Box> ReadBoxes(const std::vector<SampleOutput>& outputs,
                           const DetectionSettings& settings, double least_score) {
  std::vector<Box> boxes;
  const std::string& layout = settings.layout;
  if (layout == "yolox") {
    const SampleOutput& output = OfAxes(outputs, 2, layout, "one output of two axes a sample");
    const std::vector<double> values = InPixels(output, settings);
    ReadYolo(FieldsOfRows(values, static_cast<size_t>(output.dims[0]),
                          static_cast<size_t>(output.dims[1])),
             true, least_score, boxes);
  } else if (layout == "yolo5" || layout == "yolo8") {
    const Fields fields = HeadOf(outputs, settings).fields;
    if (fields.num_fields < 5) FailLayout(layout, "5 numbers or more for a box");
    ReadYolo(fields, layout == "yolo5", least_score, boxes);
  } else if (layout == "end2end") {
    ReadEndToEnd(HeadOf(outputs, settings).fields, least_score, boxes);
  } else if (layout == "apart") {
    ReadApart(outputs, least_score, boxes);
  } else {
    ReadCenterMap(outputs, settings.stride, least_score, boxes);
  }
  return Suppressed(std::move(boxes), settings.iou);
}

const SampleOutput* PrototypesOf(const std::vector<SampleOutput>& outputs,
                                 const DetectionSettings& settings) {
  constexpr std::string_view kLayouts[] = {"yolo5", "yolo8", "end2end"};
  const bool may_have_masks = std::ranges::find(kLayouts, settings.layout) != std::end(kLayouts);
  return may_have_masks ? HeadOf(outputs, settings).prototypes : nullptr;
}

std::vector<double> MaskFactorsOf(const Box& box, const std::vector<SampleOutput>& outputs,
                                  const DetectionSettings& settings) {
  const Head head = HeadOf(outputs, settings);
  BITPRESS_DCHECK(head.prototypes != nullptr && box.row < head.fields.num_boxes);
  std::vector<double> factors(static_cast<size_t>(head.prototypes->dims[0]));
  for (size_t k = 0; k < factors.size(); ++k) {
    factors[k] = head.fields.At(box.row, head.fields.num_fields + k);
  }
  return factors;
}

std::vector<std::pair<size_t, size_t>> PairBoxes(std::span<const Box> wanted,
                                                 std::span<const Box> found, double iou) {
  std::vector<bool> is_taken(wanted.size());
  std::vector<std::pair<size_t, size_t>> pairs;
  for (size_t j = 0; j < found.size(); ++j) {
    const Box& box = found[j];
    std::optional<size_t> best;
    for (size_t i = 0; i < wanted.size(); ++i) {
      if (is_taken[i] || wanted[i].label != box.label || Iou(wanted[i], box) < iou) continue;
      if (!best || Iou(wanted[i], box) > Iou(wanted[*best], box)) best = i;
    }
    if (!best) continue;
    is_taken[*best] = true;
    pairs.emplace_back(*best, j);
  }
  return pairs;
}

}  // namespace bitpress::evaluate
