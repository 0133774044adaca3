// Detection: the boxes of both models beside each other, and their average precision against labels
// in the form of COCO.
#include <algorithm>
#include <bit>
#include <map>
#include <optional>
#include <span>
#include <utility>

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
    if (!precision.reference_images.empty() &&
        precision.reference_images.size() != precision.images.size()) {
      reader.FailDamaged("the models have different numbers of labelled images");
    }
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

// The counts of samples.
struct Counts {
  uint64_t num_samples = 0;
  uint64_t num_found = 0, num_wanted = 0;      // boxes of the model, and of the float model
  uint64_t num_pairs = 0, num_mask_pairs = 0;  // pairs of boxes, and those with the same masks
  OrderlessSum mask_ious = {};                 // sum over all pairs of boxes
  bool has_reference = false, has_masks = false;
  ExpectedF1 expected = {};
  Precision boxes = {}, masks = {};  // precision in labelled images

  void Add(const Counts& other) {
    num_samples += other.num_samples;
    num_found += other.num_found;
    num_wanted += other.num_wanted;
    num_pairs += other.num_pairs;
    num_mask_pairs += other.num_mask_pairs;
    mask_ious.Add(other.mask_ious);
    has_reference = has_reference || other.has_reference;
    has_masks = has_masks || other.has_masks;
    expected.Add(other.expected);
    boxes.Add(other.boxes);
    masks.Add(other.masks);
  }

  void Write(ByteWriter& writer) const {
    for (const uint64_t count : {num_samples, num_found, num_wanted, num_pairs, num_mask_pairs}) {
      writer.Compact(count);
    }
    mask_ious.Write(writer);
    for (const bool flag : {has_reference, has_masks}) writer.Number(static_cast<uint8_t>(flag));
    expected.Write(writer);
    boxes.Write(writer);
    masks.Write(writer);
  }

  static Counts Read(ByteReader& reader) {
    Counts counts;
    for (uint64_t* const count : {&counts.num_samples, &counts.num_found, &counts.num_wanted,
                                  &counts.num_pairs, &counts.num_mask_pairs}) {
      *count = reader.Compact();
    }
    if (counts.num_pairs > std::min(counts.num_found, counts.num_wanted) ||
        counts.num_mask_pairs > counts.num_pairs) {
      reader.FailDamaged("there are more pairs than boxes");
    }
    counts.mask_ious = OrderlessSum::Read(reader);
    for (bool* const flag : {&counts.has_reference, &counts.has_masks}) {
      *flag = reader.Number<uint8_t>() != 0;
    }
    counts.expected = ExpectedF1::Read(reader);
    if (counts.expected.num_samples() > counts.num_samples) {
      reader.FailDamaged("more samples have expected boxes than there are samples");
    }
    counts.boxes = Precision::Read(reader);
    counts.masks = Precision::Read(reader);
    return counts;
  }
};

// How far the masks of two models' boxes overlap in one sample, each pair worked out once. There
// are none if the float model gives no prototypes. All arguments must outlive it.
class PairedMasks {
 public:
  PairedMasks(const TaskSample& sample, std::span<const Box> wanted, std::span<const Box> found,
              const DetectionSettings& settings)
      : sample_(sample),
        wanted_(wanted),
        found_(found),
        settings_(settings),
        prototypes_(PrototypesOf(sample.reference, settings)) {}

  bool has_any() const { return prototypes_ != nullptr; }
  // Returns the overlap of boxes at these positions. REQUIRES: has_any().
  double Iou(size_t wanted, size_t found) {
    const auto [known, is_new] = ious_.try_emplace({wanted, found});
    if (is_new) {
      const ImageFit fit = FitOfPrototypes(*prototypes_, settings_);
      known->second = MaskIou(MaskOf(wanted_[wanted], sample_.reference, settings_, fit),
                              MaskOf(found_[found], sample_.outputs, settings_, fit), 1);
    }
    return known->second;
  }

 private:
  const TaskSample& sample_;
  std::span<const Box> wanted_, found_;
  const DetectionSettings& settings_;
  const SampleOutput* const prototypes_;
  std::map<std::pair<size_t, size_t>, double> ious_ = {};
};

class DetectionMeter : public TaskMeter {
 public:
  DetectionMeter(const TaskSpec& spec, const std::string& layout) {
    settings_ = {layout, spec.Number("score", 0.25, 0, 1), spec.Number("iou", 0.5, 0, 1),
                 spec.Number("stride", 4, 1, kMostStride)};
    fit_ = spec.Text("fit", "none");
    if (fit_ != "none" && fit_ != "letterbox" && fit_ != "stretch") {
      Fail(ErrorCode::kInvalidArgument, "fit '{}' is not one of none|letterbox|stretch", fit_);
    }
    if (const std::string labels = spec.Text("labels"); !labels.empty()) {
      coco_ = ReadCocoLabels(labels);
    }
  }

  void Add(const TaskSample& sample) override {
    settings_.input_height = sample.input_height;
    settings_.input_width = sample.input_width;
    // The sample is counted as a whole or, if a part of it throws, not at all.
    Counts counts{.num_samples = 1};
    const std::vector<Box> found = ReadBoxes(sample.outputs, settings_, settings_.score);
    counts.num_found = found.size();
    if (!sample.reference.empty()) {
      counts.has_reference = true;
      const std::vector<Box> candidates =
          ReadBoxes(sample.reference, settings_, settings_.score * kCandidates);
      counts.num_wanted = static_cast<size_t>(std::ranges::count_if(
          candidates, [&](const Box& box) { return box.score >= settings_.score; }));
      PairedMasks masks(sample, candidates, found, settings_);
      Compare(std::span(candidates).first(counts.num_wanted), found, masks, counts);
      AddExpected(candidates, found, masks, counts.expected);
    }
    AddLabelled(sample, counts);
    counts_.Add(counts);
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
    TaskReport report{.task = "detection", .num_samples = counts_.num_samples};
    report.how =
        fmt::format("boxes of layout {}, scores from {:g}", settings_.layout, settings_.score);
    if (counts_.has_masks && !coco_.why_no_masks.empty()) {
      report.how += "; masks are not compared with the labels: " + coco_.why_no_masks;
    }
    if (!coco_.file.empty() && counts_.boxes.images.empty()) {
      report.how += "; " + NoLabelIn(coco_.file);
    }
    if (counts_.has_reference && counts_.num_wanted + counts_.num_found == 0) {
      report.why_no_loss = fmt::format(
          "neither model gives a box with a score of {:g} in {}: give samples that hold objects, "
          "or a "
          "lower score (detection:score={:g})",
          settings_.score, WithNoun(counts_.num_samples, "sample"), settings_.score / 5);
    } else if (counts_.has_reference) {
      const double f1 = F1(counts_.num_pairs);
      report.figures.push_back({"F1 with the float boxes", f1, {}});
      report.figures.push_back({"boxes", static_cast<double>(counts_.num_found),
                                static_cast<double>(counts_.num_wanted)});
      report.SetLoss(1 - f1, "1 - F1 of boxes", "boxes", counts_.num_wanted);
      if (counts_.has_masks) AddMasks(report);
      if (counts_.num_wanted >= kLeastBoxes && counts_.num_wanted < kManyBoxes &&
          counts_.expected.num_samples() > 1) {
        report.figures.push_back(
            {"expected F1 50-95", counts_.expected.Model(), counts_.expected.Reference()});
        report.strict_loss = counts_.expected.DropAtMost();
        report.strict_loss_name = "drop of expected F1, at most";
      }
    }
    if (counts_.boxes.images.empty()) return report;
    report.figures.push_back(
        {"labelled images", static_cast<double>(counts_.boxes.images.size()), {}});
    counts_.boxes.AddTo(report, "");
    if (!counts_.masks.images.empty()) counts_.masks.AddTo(report, " of masks");
    return report;
  }

  void Merge(const TaskMeter& other) override {
    const auto& same = dynamic_cast<const DetectionMeter&>(other);
    if (settings_.layout != same.settings_.layout || settings_.score != same.settings_.score) {
      FailOtherSettings();
    }
    // Samples with and without a reference have no common loss.
    if (counts_.num_samples > 0 && same.counts_.num_samples > 0 &&
        counts_.has_reference != same.counts_.has_reference) {
      FailOtherSettings();
    }
    counts_.Add(same.counts_);
  }

  void Write(ByteWriter& writer) const override {
    writer.Text(settings_.layout);
    writer.Number(std::bit_cast<uint64_t>(settings_.score));
    counts_.Write(writer);
  }

  void Read(ByteReader& reader) override {
    settings_.layout = reader.Text();
    settings_.score = std::bit_cast<double>(reader.Number<uint64_t>());
    counts_ = Counts::Read(reader);
  }

 private:
  static constexpr double kMostStride = 1024;  // pixels
  static constexpr double kSame = 0.5;         // the IoU of two boxes, or masks, of one object
  // Boxes of the float model whose score is this part of the least one may be objects, too.
  static constexpr double kCandidates = 0.1;
  // From so many boxes on, the loss of 1 % is counted. Fewer boxes say how far they moved, but very
  // few say nothing.
  static constexpr uint64_t kManyBoxes = 100, kLeastBoxes = 20;

  // Counts which boxes of both models are the same, and which of these have the same masks.
  static void Compare(std::span<const Box> wanted, std::span<const Box> found, PairedMasks& masks,
                      Counts& counts) {
    const auto pairs = PairBoxes(wanted, found, kSame);
    counts.num_pairs = pairs.size();
    counts.has_masks = masks.has_any();
    if (!counts.has_masks) return;
    for (const auto& [i, j] : pairs) {
      const double iou = masks.Iou(i, j);
      counts.mask_ious.Add(iou);
      if (iou >= kSame) ++counts.num_mask_pairs;
    }
  }

  // Adds the boxes as the float model believes in them.
  void AddExpected(std::span<const Box> candidates, std::span<const Box> found, PairedMasks& masks,
                   ExpectedF1& expected) const {
    ExpectedBoxes boxes;
    boxes.num_found = static_cast<double>(found.size());
    for (const Box& box : candidates) {
      boxes.objects += box.score;
      if (box.score < settings_.score) continue;
      boxes.num_wanted += 1;
      boxes.kept += box.score;
    }
    for (const auto& [i, j] : PairBoxes(candidates, found, kSame)) {
      const double overlap = masks.has_any() ? masks.Iou(i, j) : Iou(candidates[i], found[j]);
      boxes.right += candidates[i].score * ShareOfThresholds(overlap);
    }
    expected.Add(boxes);
  }

  double F1(uint64_t num_pairs) const {
    return 2 * static_cast<double>(num_pairs) /
           static_cast<double>(counts_.num_wanted + counts_.num_found);
  }

  void AddMasks(TaskReport& report) const {
    const double f1 = F1(counts_.num_mask_pairs);
    report.figures.push_back({"F1 with the float masks", f1, {}});
    if (counts_.num_pairs > 0) {
      report.figures.push_back({"IoU of paired masks, mean",
                                counts_.mask_ious.value() / static_cast<double>(counts_.num_pairs),
                                {}});
    }
    report.SetLoss(1 - f1, "1 - F1 of masks", "boxes", counts_.num_wanted);
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

  // Adds the matches of a sample with labels.
  void AddLabelled(const TaskSample& sample, Counts& counts) const {
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
      (counts.boxes.*images)
          .push_back(MatchObjects(image->id, wanted, found, [&](size_t j, size_t i) {
            return BoxOverlap(found[j], wanted[i]);
          }));
      if (!has_masks) return;
      // Many boxes have no label of their class to be compared with.
      std::vector<std::optional<RunLengthMask>> masks(found.size());
      (counts.masks.*images)
          .push_back(MatchObjects(image->id, wanted, found, [&](size_t j, size_t i) {
            if (!masks[j]) masks[j] = MaskOf(found[j], outputs, settings_, fit);
            return wanted[i].is_crowd ? ShareWithin(*masks[j], wanted_masks[i])
                                      : MaskIou(*masks[j], wanted_masks[i], 0);
          }));
    };
    match(sample.outputs, &Precision::images);
    if (!sample.reference.empty()) match(sample.reference, &Precision::reference_images);
  }

  DetectionSettings settings_;
  std::string fit_;
  CocoLabels coco_;
  Counts counts_;
};

}  // namespace

std::unique_ptr<TaskMeter> MakeDetectionMeter(const TaskSpec& spec, const std::string& layout) {
  return std::make_unique<DetectionMeter>(spec, layout);
}

}  // namespace bitpress::evaluate
