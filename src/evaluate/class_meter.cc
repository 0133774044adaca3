// Classes: how often two models rank the same class first, and what that costs by the float model's
// own probabilities.
#include "evaluate/metrics.h"
#include "evaluate/task_meters.h"

namespace bitpress::evaluate {
namespace {

class ClassMeter : public TaskMeter {
 public:
  explicit ClassMeter(size_t output) : output_(output) {}

  void Add(const TaskSample& sample) override {
    ++num_samples_;
    if (sample.reference.empty()) return;
    const std::span<const double> wanted = sample.reference[output_].values,
                                  found = sample.outputs[output_].values;
    const std::optional<size_t> top = TopClass(found);
    const bool agrees = top && top == TopClass(wanted);
    agreements_.Add(agrees ? std::optional<size_t>(0) : std::nullopt);
    expected_.Add(wanted, found);
  }

  TaskReport Result() const override {
    TaskReport report{.task = "classes", .num_samples = num_samples_};
    if (agreements_.num_samples() == 0) return report;
    report.figures.push_back({"agreement of first classes", agreements_.Top1(), {}});
    report.SetLoss(1 - agreements_.Top1(), "agreement", "samples", num_samples_);
    if (!expected_.IsMeaningful()) return report;
    const double model = expected_.Model(), reference = expected_.Reference();
    report.figures.push_back({"expected top-1", model, reference});
    report.SetLoss((reference - model) / reference, "expected top-1", "samples", num_samples_);
    return report;
  }

 private:
  size_t output_;
  uint64_t num_samples_ = 0;
  RankCounter agreements_;
  ExpectedTop1 expected_;
};

}  // namespace

std::unique_ptr<TaskMeter> MakeClassMeter(size_t output) {
  return std::make_unique<ClassMeter>(output);
}

}  // namespace bitpress::evaluate
