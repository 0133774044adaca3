// Detection: the boxes of both models beside each other, and their average precision against labels
// in the form of COCO.
#include <algorithm>
#include <bit>
#include <span>

#include "base/error.h"
#include "base/text.h"
#include "evaluate/average_precision.h"
#include "evaluate/box_masks.h"
#include "evaluate/coco_labels.h"
#include "evaluate/detection.h"
#include "evaluate/expected_f1.h"
#include "evaluate/metrics.h"
#include "evaluate/task_meters.h"

namespace bitpress::evaluate {
namespace {

// Average precision of the boxes, or the masks, of both models.
struct Precision {
  std::vector<MatchedImage> images, reference_images;

  void Add(const Precision& other) {
    images.insert(images.end(), other.images.begin(), other.images.end());
    reference_images.insert(reference_images.end(), other.reference_images.begin(),
                            other.reference_images.end());
  }

  void Write(ByteWriter& writer) const {
    WriteMatches(images, writer);
    WriteMatches(reference_images, writer);
  }

  static Precision Read(ByteReader& reader) {
    Precision precision;
    precision.images = ReadMatches(reader);
    precision.reference_images = ReadMatches(reader);
    return precision;
  }

  void AddTo(TaskReport& report, const std::string& of_what) const {
    const auto add = [&](std::string_view name, size_t num_thresholds) {
      report.figures.push_back(
          {fmt::format("{}{}", name, of_what), AveragePrecision(images, num_thresholds), {}});
      if (reference_images.empty()) return;
      report.figures.back().reference = AveragePrecision(reference_images, num_thresholds);
    };
    add("mAP 50-95", kNumThresholds);
    const TaskFigure all = report.figures.back();
    if (all.reference.value_or(0) > 0) {
      report.SetLoss((*all.reference - all.value) / *all.reference, "drop of mAP" + of_what);
    }
    add("mAP 50", 1);
  }
};

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
      coco_ = ReadCocoLabels(labels);
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
      const std::vector<Box> candidates =
          ReadBoxes(sample.reference, settings_, settings_.score * kCandidates);
      const auto num_wanted = static_cast<size_t>(std::ranges::count_if(
          candidates, [&](const Box& box) { return box.score >= settings_.score; }));
      num_wanted_ += num_wanted;
      Compare(sample, std::span(candidates).first(num_wanted), found);
      AddExpected(sample, candidates, found);
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
      if (num_wanted_ >= kLeastBoxes && num_wanted_ < kManyBoxes && num_samples_ > 1) {
        report.figures.push_back({"expected F1 50-95", expected_.Model(), expected_.Reference()});
        report.strict_loss = expected_.DropAtMost();
        report.strict_loss_name = "drop of expected F1, at most";
      }
    }
    if (boxes_.images.empty()) return report;
    report.figures.push_back({"labelled images", static_cast<double>(boxes_.images.size()), {}});
    boxes_.AddTo(report, "");
    if (!masks_.images.empty()) masks_.AddTo(report, " of masks");
    return report;
  }

  void Merge(const TaskMeter& other) override {
    const auto& same = dynamic_cast<const DetectionMeter&>(other);
    if (settings_.layout != same.settings_.layout || settings_.score != same.settings_.score) {
      FailOtherSettings();
    }
    num_samples_ += same.num_samples_;
    num_found_ += same.num_found_;
    num_wanted_ += same.num_wanted_;
    num_pairs_ += same.num_pairs_;
    num_mask_pairs_ += same.num_mask_pairs_;
    mask_ious_.Add(same.mask_ious_);
    has_reference_ = has_reference_ || same.has_reference_;
    has_masks_ = has_masks_ || same.has_masks_;
    expected_.Add(same.expected_);
    boxes_.Add(same.boxes_);
    masks_.Add(same.masks_);
  }

  void Write(ByteWriter& writer) const override {
    writer.Text(settings_.layout);
    writer.Number(std::bit_cast<uint64_t>(settings_.score));
    for (const uint64_t count :
         {num_samples_, num_found_, num_wanted_, num_pairs_, num_mask_pairs_}) {
      writer.Compact(count);
    }
    mask_ious_.Write(writer);
    for (const bool flag : {has_reference_, has_masks_}) writer.Number(static_cast<uint8_t>(flag));
    expected_.Write(writer);
    boxes_.Write(writer);
    masks_.Write(writer);
  }

  void Read(ByteReader& reader) override {
    settings_.layout = reader.Text();
    settings_.score = std::bit_cast<double>(reader.Number<uint64_t>());
    for (uint64_t* const count :
         {&num_samples_, &num_found_, &num_wanted_, &num_pairs_, &num_mask_pairs_}) {
      *count = reader.Compact();
    }
    mask_ious_ = OrderlessSum::Read(reader);
    for (bool* const flag : {&has_reference_, &has_masks_}) *flag = reader.Number<uint8_t>() != 0;
    expected_ = ExpectedF1::Read(reader);
    boxes_ = Precision::Read(reader);
    masks_ = Precision::Read(reader);
  }

 private:
  static constexpr double kSame = 0.5;  // the IoU of two boxes, or masks, of one object
  // Boxes of the float model whose score is this part of the least one may be objects, too.
  static constexpr double kCandidates = 0.1;
  // From so many boxes on, the loss of 1 % is counted. Fewer boxes say how far they moved, but very
  // few say nothing.
  static constexpr uint64_t kManyBoxes = 100, kLeastBoxes = 20;

  // Counts which boxes of both models are the same, and which of these have the same masks.
  void Compare(const TaskSample& sample, std::span<const Box> wanted, std::span<const Box> found) {
    const auto pairs = PairBoxes(wanted, found, kSame);
    num_pairs_ += pairs.size();
    const SampleOutput* const prototypes = PrototypesOf(sample.reference, settings_);
    has_masks_ = prototypes != nullptr;
    if (!has_masks_) return;
    for (const auto& [i, j] : pairs) {
      const double iou = MaskIouOf(wanted[i], found[j], sample, *prototypes);
      mask_ious_.Add(iou);
      if (iou >= kSame) ++num_mask_pairs_;
    }
  }

  // Adds the boxes as the float model believes in them.
  void AddExpected(const TaskSample& sample, std::span<const Box> candidates,
                   std::span<const Box> found) {
    ExpectedBoxes boxes;
    boxes.num_found = static_cast<double>(found.size());
    for (const Box& box : candidates) {
      boxes.objects += box.score;
      if (box.score < settings_.score) continue;
      boxes.num_wanted += 1;
      boxes.kept += box.score;
    }
    const SampleOutput* const prototypes = PrototypesOf(sample.reference, settings_);
    for (const auto& [i, j] : PairBoxes(candidates, found, kSame)) {
      const double overlap = prototypes == nullptr
                                 ? Iou(candidates[i], found[j])
                                 : MaskIouOf(candidates[i], found[j], sample, *prototypes);
      boxes.right += candidates[i].score * ShareOfThresholds(overlap);
    }
    expected_.Add(boxes);
  }

  double MaskIouOf(const Box& wanted, const Box& found, const TaskSample& sample,
                   const SampleOutput& prototypes) const {
    const ImageFit fit = FitOfPrototypes(prototypes, settings_);
    return MaskIou(MaskOf(wanted, sample.reference, settings_, fit),
                   MaskOf(found, sample.outputs, settings_, fit), 1);
  }

  double F1(uint64_t num_pairs) const {
    return 2 * static_cast<double>(num_pairs) / static_cast<double>(num_wanted_ + num_found_);
  }

  void AddMasks(TaskReport& report) const {
    const double f1 = F1(num_mask_pairs_);
    report.figures.push_back({"F1 with the float masks", f1, {}});
    if (num_pairs_ > 0) {
      report.figures.push_back(
          {"IoU of paired masks, mean", mask_ious_.value() / static_cast<double>(num_pairs_), {}});
    }
    report.SetLoss(1 - f1, "1 - F1 of masks", "boxes", num_wanted_);
  }

  // Returns how the pixels of the labels lie in what the model saw.
  ImageFit FitOf(const CocoImage& image, const TaskSample& sample) const {
    ImageFit fit{.height = image.height, .width = image.width};
    const bool is_known = image.width > 0 && image.height > 0 && sample.input_width > 0;
    const bool has_other_size =
        is_known && (image.width != sample.input_width || image.height != sample.input_height);
    if (fit_ == "none" && has_other_size) {
      Fail(ErrorCode::kInvalidArgument,
           "'{}': the labels are for {}x{} pixels, and the model saw {}x{}: say how photos were "
           "fitted (--image with fit=letterbox or fit=stretch, or detection:fit=...)",
           sample.name, image.width, image.height, sample.input_width, sample.input_height);
    }
    if (fit_ == "none") return fit;
    if (!is_known) {
      Fail(ErrorCode::kInvalidArgument,
           "'{}': fit={} needs the width and height of each image in the labels", sample.name,
           fit_);
    }
    const auto width = static_cast<double>(image.width), height = static_cast<double>(image.height),
               input_width = static_cast<double>(sample.input_width),
               input_height = static_cast<double>(sample.input_height);
    fit.x_scale = input_width / width;
    fit.y_scale = input_height / height;
    if (fit_ == "letterbox") {
      fit.x_scale = fit.y_scale = std::min(fit.x_scale, fit.y_scale);
      fit.left = (input_width - fit.x_scale * width) / 2;
      fit.top = (input_height - fit.y_scale * height) / 2;
    }
    return fit;
  }

  // Returns the labels in pixels of what the model saw.
  static std::vector<LabelledBox> Fitted(std::vector<LabelledBox> boxes, const ImageFit& fit) {
    for (LabelledBox& box : boxes) {
      box.left = box.left * fit.x_scale + fit.left;
      box.right = box.right * fit.x_scale + fit.left;
      box.top = box.top * fit.y_scale + fit.top;
      box.bottom = box.bottom * fit.y_scale + fit.top;
    }
    return boxes;
  }

  void AddLabelled(const TaskSample& sample) {
    const CocoImage* const image = coco_.Of(sample.name);
    if (image == nullptr) return;
    const ImageFit fit = FitOf(*image, sample);
    const std::vector<LabelledBox> wanted = Fitted(image->boxes, fit);
    const bool has_masks = coco_.has_masks && PrototypesOf(sample.outputs, settings_) != nullptr;
    const std::vector<RunLengthMask> wanted_masks =
        has_masks ? coco_.MasksOf(*image) : std::vector<RunLengthMask>();
    const auto match = [&](const std::vector<SampleOutput>& outputs,
                           std::vector<MatchedImage> Precision::*images) {
      // Precision counts boxes of every score, as far as they may matter.
      constexpr double kLeastScore = 0.001;
      const std::vector<Box> found = ReadBoxes(outputs, settings_, kLeastScore);
      (boxes_.*images).push_back(MatchObjects(image->id, wanted, found, [&](size_t j, size_t i) {
        return BoxOverlap(found[j], wanted[i]);
      }));
      if (!has_masks) return;
      std::vector<RunLengthMask> masks;
      for (const Box& box : found) masks.push_back(MaskOf(box, outputs, settings_, fit));
      (masks_.*images).push_back(MatchObjects(image->id, wanted, found, [&](size_t j, size_t i) {
        return wanted[i].is_crowd ? ShareWithin(masks[j], wanted_masks[i])
                                  : MaskIou(masks[j], wanted_masks[i], 0);
      }));
    };
    match(sample.outputs, &Precision::images);
    if (!sample.reference.empty()) match(sample.reference, &Precision::reference_images);
  }

  DetectionSettings settings_;
  std::string fit_;
  uint64_t num_samples_ = 0, num_found_ = 0, num_wanted_ = 0;
  uint64_t num_pairs_ = 0, num_mask_pairs_ = 0;  // of boxes, and of those with the same masks
  OrderlessSum mask_ious_;                       // of all pairs of boxes
  bool has_reference_ = false, has_masks_ = false;
  ExpectedF1 expected_;
  CocoLabels coco_;
  Precision boxes_, masks_;  // of labelled images
};

}  // namespace

std::unique_ptr<TaskMeter> MakeDetectionMeter(const TaskSpec& spec, const std::string& layout) {
  return std::make_unique<DetectionMeter>(spec, layout);
}

}  // namespace bitpress::evaluate
