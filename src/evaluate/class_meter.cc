// Classes of samples, or of each of their steps: how often two models rank the same class first,
// and what that costs by the float model's own probabilities.
#include <algorithm>

#include "base/error.h"
#include "evaluate/metrics.h"
#include "evaluate/task_meters.h"

namespace bitpress::evaluate {
namespace {

class ClassMeter : public TaskMeter {
 public:
  explicit ClassMeter(size_t output) : output_(output) {}

  void Add(const TaskSample& sample) override {
    ++num_samples_;
    const SampleOutput& output = sample.outputs[output_];
    const size_t num_rows = RowsOf(output, sample.name);
    has_steps_ = has_steps_ || num_rows > 1;
    if (sample.reference.empty() || num_rows == 0) return;
    const SampleOutput& reference = sample.reference[output_];
    const size_t size = output.values.size() / num_rows;
    for (size_t i = 0; i < num_rows; ++i) {
      const bool is_padding = sample.mask.size() == num_rows && sample.mask[i] == 0;
      if (!is_padding) {
        Compare(reference.values.subspan(i * size, size), output.values.subspan(i * size, size));
      }
    }
  }

  TaskReport Result() const override {
    TaskReport report{.task = "classes", .num_samples = num_samples_};
    if (agreements_.num_samples() == 0) return report;
    report.figures.push_back({"agreement of first classes", agreements_.Top1(), {}});
    report.SetLoss(1 - agreements_.Top1(), "agreement", items(), agreements_.num_samples());
    if (!expected_.IsMeaningful()) return report;
    const double model = expected_.Model(), reference = expected_.Reference();
    report.figures.push_back({"expected top-1", model, reference});
    report.SetLoss((reference - model) / reference, "expected top-1", items(),
                   agreements_.num_samples());
    return report;
  }

  void Merge(const TaskMeter& other) override {
    const auto& same = dynamic_cast<const ClassMeter&>(other);
    num_samples_ += same.num_samples_;
    has_steps_ = has_steps_ || same.has_steps_;
    agreements_.Add(same.agreements_);
    expected_.Add(same.expected_);
  }

  void Write(ByteWriter& writer) const override {
    writer.Compact(num_samples_);
    writer.Number(static_cast<uint8_t>(has_steps_));
    agreements_.Write(writer);
    expected_.Write(writer);
  }

  void Read(ByteReader& reader) override {
    num_samples_ = reader.Compact();
    has_steps_ = reader.Number<uint8_t>() != 0;
    agreements_ = RankCounter::Read(reader);
    expected_ = ExpectedTop1::Read(reader);
    if (expected_.num_samples() != agreements_.num_samples()) {
      reader.FailDamaged("its parts contradict each other");
    }
  }

 private:
  // Returns the number of rows of classes, one a sample or one for each step.
  static size_t RowsOf(const SampleOutput& output, const std::string& sample) {
    const auto num_axes = std::ranges::count_if(output.dims, [](int64_t dim) { return dim != 1; });
    if (num_axes < 2) return output.values.empty() ? 0 : 1;
    if (output.dims.size() > 2) {
      Fail(ErrorCode::kInvalidArgument,
           "'{}': scores of classes have [classes] or [steps, classes], not {} axes", sample,
           output.dims.size());
    }
    return output.NumRows();
  }

  void Compare(std::span<const double> wanted, std::span<const double> found) {
    const std::optional<size_t> top = TopClass(found);
    const bool agrees = top && top == TopClass(wanted);
    agreements_.Add(agrees ? std::optional<size_t>(0) : std::nullopt);
    expected_.Add(wanted, found);
  }

  const char* items() const { return has_steps_ ? "steps" : "samples"; }

  size_t output_;
  uint64_t num_samples_ = 0;
  bool has_steps_ = false;
  RankCounter agreements_;
  ExpectedTop1 expected_;
};

}  // namespace

std::unique_ptr<TaskMeter> MakeClassMeter(size_t output) {
  return std::make_unique<ClassMeter>(output);
}

}  // namespace bitpress::evaluate
