// Masks: how much of each class both models give to the same pixels, and how far mattes differ.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/text.h"
#include "evaluate/metrics.h"
#include "evaluate/task_meters.h"

namespace bitpress::evaluate {
namespace {

constexpr int64_t kMostClasses = 1 << 16;

// Pixels by class, of two masks.
struct Overlap {
  std::vector<uint64_t> both, any;

  void Add(size_t wanted, size_t found) {
    const size_t size = std::max(wanted, found) + 1;
    if (both.size() < size) {
      both.resize(size);
      any.resize(size);
    }
    ++any[wanted];
    if (wanted == found) {
      ++both[wanted];
    } else {
      ++any[found];
    }
  }
  void Add(const Overlap& other) {
    both.resize(std::max(both.size(), other.both.size()));
    any.resize(both.size());
    for (size_t i = 0; i < other.both.size(); ++i) {
      both[i] += other.both[i];
      any[i] += other.any[i];
    }
  }
  // Returns the intersection over the union, the mean over the classes that have a pixel.
  double MeanIou() const {
    double sum = 0;
    size_t num_classes = 0;
    for (size_t i = 0; i < any.size(); ++i) {
      if (any[i] == 0) continue;
      sum += static_cast<double>(both[i]) / static_cast<double>(any[i]);
      ++num_classes;
    }
    return num_classes == 0 ? 1 : sum / static_cast<double>(num_classes);
  }
  // Returns whether all pixels of both masks are of one class.
  bool HasOneClass() const {
    return std::ranges::count_if(any, [](uint64_t count) { return count > 0; }) == 1;
  }
};

class SegmentationMeter : public TaskMeter {
 public:
  SegmentationMeter(const TaskSpec& spec, size_t output)
      : output_(output), threshold_(spec.Number("threshold", 0.5)) {}

  void Add(const TaskSample& sample) override {
    ++num_samples_;
    if (sample.reference.empty()) return;
    const SampleOutput& found = sample.outputs[output_];
    const SampleOutput& wanted = sample.reference[output_];
    if (found.dims != wanted.dims) {
      Fail(ErrorCode::kInvalidArgument, "'{}': masks of {} and {} values cannot be compared",
           sample.name, found.values.size(), wanted.values.size());
    }
    if (!found.integers.empty()) {
      for (size_t i = 0; i < found.integers.size(); ++i) {
        overlap_.Add(ClassAt(wanted.integers[i], sample.name),
                     ClassAt(found.integers[i], sample.name));
      }
      return;
    }
    const size_t num_channels = ChannelsOf(found);
    const size_t num_pixels = found.values.size() / std::max<size_t>(1, num_channels);
    for (size_t i = 0; i < num_pixels; ++i) {
      overlap_.Add(ClassOf(wanted.values, num_channels, num_pixels, i),
                   ClassOf(found.values, num_channels, num_pixels, i));
    }
    if (num_channels == 1) AddMatte(wanted.values, found.values);
  }

  TaskDrawing Draw(const TaskSample& sample) const override {
    const SampleOutput& found = sample.outputs[output_];
    const SampleOutput& wanted = sample.reference[output_];
    if (found.dims.size() < 2) return {};
    TaskDrawing drawing;
    drawing.mask_height = found.dims[found.dims.size() - 2];
    drawing.mask_width = found.dims.back();
    const size_t num_channels = found.integers.empty() ? ChannelsOf(found) : 1;
    const auto num_pixels = static_cast<size_t>(drawing.mask_height * drawing.mask_width);
    const auto class_of = [&](const SampleOutput& output, size_t i) {
      if (!output.integers.empty()) return ClassAt(output.integers[i], sample.name);
      return ClassOf(output.values, num_channels, num_pixels, i);
    };
    for (size_t i = 0; i < num_pixels; ++i) {
      const size_t a = class_of(wanted, i), b = class_of(found, i);
      drawing.mask.push_back(a != b   ? DrawnPixel::kDiffers
                             : a == 0 ? DrawnPixel::kNothing
                                      : DrawnPixel::kBoth);
    }
    return drawing;
  }

  TaskReport Result() const override {
    TaskReport report{.task = "segmentation", .num_samples = num_samples_};
    if (overlap_.any.empty()) return report;
    const double iou = overlap_.MeanIou();
    report.figures.push_back({"mIoU with the float masks", iou, {}});
    if (num_matte_ > 0) {
      report.figures.push_back(
          {"mean absolute difference", matte_.value() / static_cast<double>(num_matte_), {}});
    }
    if (overlap_.HasOneClass()) {
      report.why_no_loss = fmt::format(
          "all pixels of both masks are of one class in {}: give samples that hold more",
          WithNoun(num_samples_, "sample"));
      return report;
    }
    report.SetLoss(1 - iou, "1 - mIoU");
    return report;
  }

  void Merge(const TaskMeter& other) override {
    const auto& same = dynamic_cast<const SegmentationMeter&>(other);
    num_samples_ += same.num_samples_;
    num_matte_ += same.num_matte_;
    matte_.Add(same.matte_);
    overlap_.Add(same.overlap_);
  }

  void Write(ByteWriter& writer) const override {
    writer.Compact(num_samples_);
    writer.Compact(num_matte_);
    matte_.Write(writer);
    writer.Compact(overlap_.any.size());
    for (size_t i = 0; i < overlap_.any.size(); ++i) {
      writer.Compact(overlap_.both[i]);
      writer.Compact(overlap_.any[i]);
    }
  }

  void Read(ByteReader& reader) override {
    num_samples_ = reader.Compact();
    num_matte_ = reader.Compact();
    matte_ = OrderlessSum::Read(reader);
    const size_t num_classes = reader.Count(2);
    if (num_classes > static_cast<size_t>(kMostClasses)) reader.FailDamaged("too many classes");
    overlap_.both.resize(num_classes);
    overlap_.any.resize(num_classes);
    for (size_t i = 0; i < num_classes; ++i) {
      overlap_.both[i] = reader.Compact();
      overlap_.any[i] = reader.Compact();
      if (overlap_.both[i] > overlap_.any[i]) reader.FailDamaged("a class has too many pixels");
    }
  }

 private:
  static size_t ClassAt(int64_t label, const std::string& sample) {
    if (label < 0 || label >= kMostClasses) {
      Fail(ErrorCode::kInvalidArgument, "'{}': a pixel has the class {}, expected 0 to {}", sample,
           label, kMostClasses - 1);
    }
    return static_cast<size_t>(label);
  }

  static size_t ChannelsOf(const SampleOutput& output) {
    return output.dims.size() < 3 ? 1 : static_cast<size_t>(output.dims[0]);
  }

  // Returns the class of a pixel: the channel with the largest value, or whether the only channel
  // reaches the threshold. NaN is class 0.
  size_t ClassOf(std::span<const double> values, size_t num_channels, size_t num_pixels,
                 size_t pixel) const {
    if (num_channels == 1) return values[pixel] >= threshold_ ? 1 : 0;
    size_t best = 0;
    for (size_t c = 1; c < num_channels; ++c) {
      if (values[c * num_pixels + pixel] > values[best * num_pixels + pixel]) best = c;
    }
    return best;
  }

  void AddMatte(std::span<const double> wanted, std::span<const double> found) {
    double sum = 0;
    for (size_t i = 0; i < wanted.size(); ++i) sum += std::abs(found[i] - wanted[i]);
    matte_.Add(sum);
    num_matte_ += wanted.size();
  }

  size_t output_;
  double threshold_;
  uint64_t num_samples_ = 0, num_matte_ = 0;
  OrderlessSum matte_;
  Overlap overlap_;
};

}  // namespace

std::unique_ptr<TaskMeter> MakeSegmentationMeter(const TaskSpec& spec, size_t output) {
  return std::make_unique<SegmentationMeter>(spec, output);
}

}  // namespace bitpress::evaluate
