// Numbers: errors relative to how much the float model's outputs, or the labels, differ from sample
// to sample.
#include <cmath>
#include <cstdint>

#include "base/error.h"
#include "base/text.h"
#include "evaluate/task_meters.h"

namespace bitpress::evaluate {
namespace {

// The errors of one number of the output against what it should be. Means are kept as they grow
// (Welford), so that large offsets cost no digits.
class Column {
 public:
  void Add(double wanted, double found) {
    ++count_;
    const double difference = wanted - mean_;
    mean_ += difference / count_;
    spread_ += difference * (wanted - mean_);
    const double error = found - wanted;
    errors_ += std::isfinite(error) ? error * error : INFINITY;
  }
  double count() const { return count_; }
  double spread() const { return spread_; }  // sum of squares around the mean
  double errors() const { return errors_; }  // sum of squares

 private:
  double count_ = 0, mean_ = 0, spread_ = 0, errors_ = 0;
};

struct Columns {
  std::vector<Column> all;

  void Add(std::span<const double> wanted, std::span<const double> found) {
    all.resize(std::max(all.size(), wanted.size()));
    for (size_t i = 0; i < wanted.size(); ++i) all[i].Add(wanted[i], found[i]);
  }
  // Returns the energy of the errors over that of the spread; nothing if what is wanted does not
  // vary and no error is infinite.
  std::optional<double> ErrorShare() const {
    double errors = 0, spread = 0;
    for (const Column& column : all) {
      errors += column.errors();
      spread += column.spread();
    }
    if (spread == 0 && std::isfinite(errors)) return std::nullopt;
    return errors / spread;
  }
};

class RegressionMeter : public TaskMeter {
 public:
  RegressionMeter(const TaskSpec& spec, size_t output) : output_(output) {
    const std::string labels = spec.Text("labels");
    if (!labels.empty()) labels_ = ReadColumn(labels, "value");
  }

  void Add(const TaskSample& sample) override {
    ++num_samples_;
    const SampleOutput& found = sample.outputs[output_];
    if (const std::string* const label = LabelOf(labels_, sample.name)) {
      AddLabelled(ParseDouble(Trim(*label), "a value of the labels"), sample);
    }
    if (sample.reference.empty()) return;
    const SampleOutput& wanted = sample.reference[output_];
    if (found.values.size() != wanted.values.size()) {
      Fail(ErrorCode::kInvalidArgument, "'{}': the model gives {} numbers, its reference {}",
           sample.name, found.values.size(), wanted.values.size());
    }
    against_float_.Add(wanted.values, found.values);
    for (size_t i = 0; i < sample.outputs.size(); ++i) {
      const auto classes = sample.outputs[i].integers;
      if (classes.empty() || classes.size() != sample.reference[i].integers.size()) continue;
      num_classes_ += classes.size();
      for (size_t j = 0; j < classes.size(); ++j) {
        if (classes[j] == sample.reference[i].integers[j]) ++num_equal_;
      }
    }
  }

  TaskReport Result() const override {
    TaskReport report{.task = "regression", .num_samples = num_samples_};
    if (const std::optional<double> share = against_float_.ErrorShare()) {
      report.figures.push_back({"R2 against the float model", 1 - *share, {}});
      report.figures.push_back({"error over the spread", std::sqrt(*share), {}});
      report.SetLoss(*share, "1 - R2");
    } else if (!against_float_.all.empty()) {
      report.why_no_loss = fmt::format("the float model's numbers do not vary in {}: give more",
                                       WithNoun(num_samples_, "sample"));
    }
    if (num_classes_ > 0) {
      report.figures.push_back({"agreement of classes",
                                static_cast<double>(num_equal_) / static_cast<double>(num_classes_),
                                {}});
    }
    const std::optional<double> of_labels = against_labels_.ErrorShare();
    if (!of_labels) return report;
    const double r2 = 1 - *of_labels;
    report.figures.push_back({"R2 against the labels", r2, {}});
    const std::optional<double> of_reference = reference_against_labels_.ErrorShare();
    if (!of_reference) return report;
    const double reference = 1 - *of_reference;
    report.figures.back().reference = reference;
    if (reference > 0) {
      report.SetLoss((reference - r2) / reference, "drop of R2");
    }
    return report;
  }

 private:
  void AddLabelled(double label, const TaskSample& sample) {
    const auto one = [&](const std::vector<SampleOutput>& outputs) {
      const std::span<const double> values = outputs[output_].values;
      if (values.size() != 1) {
        Fail(ErrorCode::kInvalidArgument,
             "'{}': the labels have one value a sample, the output has {}", sample.name,
             values.size());
      }
      return values[0];
    };
    const double wanted[] = {label};
    const double found[] = {one(sample.outputs)};
    against_labels_.Add(wanted, found);
    if (sample.reference.empty()) return;
    const double reference[] = {one(sample.reference)};
    reference_against_labels_.Add(wanted, reference);
  }

  size_t output_;
  uint64_t num_samples_ = 0, num_classes_ = 0, num_equal_ = 0;
  std::map<std::string, std::string> labels_;
  Columns against_float_, against_labels_, reference_against_labels_;
};

}  // namespace

std::unique_ptr<TaskMeter> MakeRegressionMeter(const TaskSpec& spec, size_t output) {
  return std::make_unique<RegressionMeter>(spec, output);
}

}  // namespace bitpress::evaluate
