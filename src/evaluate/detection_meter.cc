// Detection: the boxes of both models beside each other, and their average precision against labels
// in the form of COCO.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/paths.h"
#include "base/text.h"
#include "evaluate/detection.h"
#include "evaluate/task_meters.h"

namespace bitpress::evaluate {
namespace {

// The labels of one photo, in its own pixels.
struct CocoImage {
  double width = 0, height = 0;
  std::vector<LabelledBox> boxes;
};

// Reads labels by the names of photos. Classes are the positions of the category ids in their
// order, as detectors trained on COCO have them.
std::map<std::string, CocoImage> ReadCoco(const std::string& file) {
  using Json = nlohmann::json;
  std::map<std::string, CocoImage> images;
  try {
    const Json coco = Json::parse(ReadFile(PathOf(file)));
    std::map<int64_t, int64_t> classes;
    for (const Json& category : coco.at("categories")) {
      classes.emplace(category.at("id").get<int64_t>(), 0);
    }
    int64_t number = 0;
    for (auto& [id, label] : classes) label = number++;
    std::map<int64_t, std::string> names;
    for (const Json& image : coco.at("images")) {
      const auto name = image.at("file_name").get<std::string>();
      names.emplace(image.at("id").get<int64_t>(), name);
      images[name] = {image.value("width", 0.0), image.value("height", 0.0), {}};
    }
    for (const Json& annotation : coco.at("annotations")) {
      const auto box = annotation.at("bbox").get<std::array<double, 4>>();
      LabelledBox labelled;
      static_cast<Box&>(labelled) = {
          box[0],          box[1], box[0] + box[2],
          box[1] + box[3], 1,      classes.at(annotation.at("category_id").get<int64_t>())};
      labelled.is_crowd = annotation.value("iscrowd", 0) != 0;
      images.at(names.at(annotation.at("image_id").get<int64_t>())).boxes.push_back(labelled);
    }
  } catch (const Json::exception& error) {
    Fail(ErrorCode::kInvalidArgument, "'{}' holds no labels in the form of COCO: {}", file,
         error.what());
  } catch (const std::out_of_range&) {
    Fail(ErrorCode::kInvalidArgument,
         "'{}': an annotation names an image or a category that is not listed", file);
  }
  return images;
}

class DetectionMeter : public TaskMeter {
 public:
  DetectionMeter(const TaskSpec& spec, const std::string& layout) {
    settings_ = {layout, spec.Number("score", 0.25), spec.Number("iou", 0.5),
                 spec.Number("stride", 4)};
    fit_ = spec.Text("fit", "none");
    if (fit_ != "none" && fit_ != "letterbox" && fit_ != "stretch") {
      Fail(ErrorCode::kInvalidArgument, "fit '{}' is not one of none|letterbox|stretch", fit_);
    }
    if (const std::string labels = spec.Text("labels"); !labels.empty()) {
      coco_ = ReadCoco(labels);
    }
  }

  void Add(const TaskSample& sample) override {
    ++num_samples_;
    settings_.input_height = sample.input_height;
    settings_.input_width = sample.input_width;
    const std::vector<Box> found = ReadBoxes(sample.outputs, settings_, settings_.score);
    num_found_ += found.size();
    if (!sample.reference.empty()) {
      has_reference_ = true;
      const std::vector<Box> wanted = ReadBoxes(sample.reference, settings_, settings_.score);
      num_wanted_ += wanted.size();
      Compare(sample, wanted, found);
    }
    AddLabelled(sample);
  }

  TaskDrawing Draw(const TaskSample& sample) const override {
    TaskDrawing drawing;
    const std::vector<Box> found = ReadBoxes(sample.outputs, settings_, settings_.score);
    const std::vector<Box> wanted = ReadBoxes(sample.reference, settings_, settings_.score);
    const auto add = [&](const std::vector<Box>& boxes, bool is_reference) {
      for (const Box& box : boxes) {
        drawing.boxes.push_back(
            {box.left, box.top, box.right, box.bottom, box.score, box.label, is_reference, false});
      }
    };
    add(wanted, true);
    add(found, false);
    for (const auto& [i, j] : PairBoxes(wanted, found, kSame)) {
      drawing.boxes[i].is_paired = drawing.boxes[wanted.size() + j].is_paired = true;
    }
    return drawing;
  }

  TaskReport Result() const override {
    TaskReport report{.task = "detection", .num_samples = num_samples_};
    report.how =
        fmt::format("boxes of layout {}, scores from {:g}", settings_.layout, settings_.score);
    if (has_reference_ && num_wanted_ + num_found_ == 0) {
      report.why_no_loss = fmt::format(
          "neither model gives a box with a score of {:g} in {}: give samples that hold objects, "
          "or a "
          "lower score (detection:score={:g})",
          settings_.score, WithNoun(num_samples_, "sample"), settings_.score / 5);
    } else if (has_reference_) {
      const double f1 = F1(num_pairs_);
      report.figures.push_back({"F1 with the float boxes", f1, {}});
      report.figures.push_back(
          {"boxes", static_cast<double>(num_found_), static_cast<double>(num_wanted_)});
      report.SetLoss(1 - f1, "1 - F1 of boxes", "boxes", num_wanted_);
      if (has_masks_) AddMasks(report);
    }
    if (!images_.empty()) AddPrecision(report);
    return report;
  }

 private:
  static constexpr double kSame = 0.5;  // the IoU of two boxes, or masks, of one object

  // Counts which boxes of both models are the same, and which of these have the same masks.
  void Compare(const TaskSample& sample, std::span<const Box> wanted, std::span<const Box> found) {
    const auto pairs = PairBoxes(wanted, found, kSame);
    num_pairs_ += pairs.size();
    has_masks_ = HasMasks(sample.reference, settings_);
    if (!has_masks_) return;
    for (const auto& [i, j] : pairs) {
      const double iou = MaskIou(MaskOf(wanted[i], sample.reference, settings_),
                                 MaskOf(found[j], sample.outputs, settings_));
      mask_ious_ += iou;
      if (iou >= kSame) ++num_mask_pairs_;
    }
  }

  double F1(uint64_t num_pairs) const {
    return 2 * static_cast<double>(num_pairs) / static_cast<double>(num_wanted_ + num_found_);
  }

  void AddMasks(TaskReport& report) const {
    const double f1 = F1(num_mask_pairs_);
    report.figures.push_back({"F1 with the float masks", f1, {}});
    if (num_pairs_ > 0) {
      report.figures.push_back(
          {"IoU of paired masks, mean", mask_ious_ / static_cast<double>(num_pairs_), {}});
    }
    report.SetLoss(1 - f1, "1 - F1 of masks", "boxes", num_wanted_);
  }

  // Returns the labels in pixels of what the model saw.
  std::vector<LabelledBox> Fitted(const CocoImage& image, const TaskSample& sample) const {
    std::vector<LabelledBox> boxes = image.boxes;
    const bool has_other_size = image.width > 0 && sample.input_width > 0 &&
                                (image.width != static_cast<double>(sample.input_width) ||
                                 image.height != static_cast<double>(sample.input_height));
    if (fit_ == "none" && has_other_size) {
      Fail(
          ErrorCode::kInvalidArgument,
          "'{}': the labels are for {:g}x{:g} pixels, and the model saw {}x{}: say how photos were "
          "fitted (--image with fit=letterbox or fit=stretch, or detection:fit=...)",
          sample.name, image.width, image.height, sample.input_width, sample.input_height);
    }
    if (fit_ == "none") return boxes;
    if (image.width <= 0 || image.height <= 0 || sample.input_width <= 0) {
      Fail(ErrorCode::kInvalidArgument,
           "'{}': fit={} needs the width and height of each image in the labels", sample.name,
           fit_);
    }
    double x_scale = static_cast<double>(sample.input_width) / image.width;
    double y_scale = static_cast<double>(sample.input_height) / image.height;
    double left = 0, top = 0;
    if (fit_ == "letterbox") {
      x_scale = y_scale = std::min(x_scale, y_scale);
      left = (static_cast<double>(sample.input_width) - x_scale * image.width) / 2;
      top = (static_cast<double>(sample.input_height) - y_scale * image.height) / 2;
    }
    for (LabelledBox& box : boxes) {
      box.left = box.left * x_scale + left;
      box.right = box.right * x_scale + left;
      box.top = box.top * y_scale + top;
      box.bottom = box.bottom * y_scale + top;
    }
    return boxes;
  }

  void AddLabelled(const TaskSample& sample) {
    if (coco_.empty()) return;
    auto image = coco_.find(sample.name);
    if (image == coco_.end()) {
      image = coco_.find(PathText(PathOf(sample.name).filename()));
    }
    if (image == coco_.end()) return;
    // Precision counts boxes of every score, as far as they may matter.
    constexpr double kLeastScore = 0.001;
    const std::vector<LabelledBox> wanted = Fitted(image->second, sample);
    images_.push_back({wanted, ReadBoxes(sample.outputs, settings_, kLeastScore)});
    if (sample.reference.empty()) return;
    reference_images_.push_back({wanted, ReadBoxes(sample.reference, settings_, kLeastScore)});
  }

  void AddPrecision(TaskReport& report) const {
    std::vector<double> thresholds;
    for (int i = 0; i < 10; ++i) thresholds.push_back(0.5 + 0.05 * i);
    const auto precision = [&](const std::vector<LabelledImage>& images, size_t count) {
      return images.empty()
                 ? std::nullopt
                 : std::optional(AveragePrecision(images, std::span(thresholds).first(count)));
    };
    report.figures.push_back({"labelled images", static_cast<double>(images_.size()), {}});
    report.figures.push_back({"mAP 50-95", *precision(images_, thresholds.size()),
                              precision(reference_images_, thresholds.size())});
    const TaskFigure& all = report.figures.back();
    if (all.reference && *all.reference > 0) {
      report.SetLoss((*all.reference - all.value) / *all.reference, "drop of mAP");
    }
    report.figures.push_back({"mAP 50", *precision(images_, 1), precision(reference_images_, 1)});
  }

  DetectionSettings settings_;
  std::string fit_;
  uint64_t num_samples_ = 0, num_found_ = 0, num_wanted_ = 0;
  uint64_t num_pairs_ = 0, num_mask_pairs_ = 0;  // of boxes, and of those with the same masks
  double mask_ious_ = 0;                         // of all pairs of boxes
  bool has_reference_ = false, has_masks_ = false;
  std::map<std::string, CocoImage> coco_;
  std::vector<LabelledImage> images_, reference_images_;
};

}  // namespace

std::unique_ptr<TaskMeter> MakeDetectionMeter(const TaskSpec& spec, const std::string& layout) {
  return std::make_unique<DetectionMeter>(spec, layout);
}

}  // namespace bitpress::evaluate
