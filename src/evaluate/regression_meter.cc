// Numbers: errors relative to how much the float model's outputs, or the labels, differ from sample
// to sample.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "evaluate/metrics.h"
#include "evaluate/task_meters.h"

namespace bitpress::evaluate {
namespace {

// The sum of one number of the output over samples.
struct Column {
  uint64_t count = 0;
  OrderlessSum sum = {};
};

// Adds a product without rounding it.
void AddProduct(double a, double b, OrderlessSum& sum) {
  const double product = a * b;
  sum.Add(product);
  if (std::isfinite(product)) sum.Add(std::fma(a, b, -product));
}

// The errors of the numbers of the output against what they should be, and how far that varies.
class Columns {
 public:
  void Add(std::span<const double> wanted, std::span<const double> found) {
    all_.resize(std::max(all_.size(), wanted.size()));
    for (size_t i = 0; i < wanted.size(); ++i) {
      ++all_[i].count;
      all_[i].sum.Add(wanted[i]);
      AddProduct(wanted[i], wanted[i], squares_);
      const double error = found[i] - wanted[i];
      errors_.Add(error * error);
    }
  }

  void Add(const Columns& other) {
    all_.resize(std::max(all_.size(), other.all_.size()));
    for (size_t i = 0; i < other.all_.size(); ++i) {
      all_[i].count += other.all_[i].count;
      all_[i].sum.Add(other.all_[i].sum);
    }
    squares_.Add(other.squares_);
    errors_.Add(other.errors_);
  }

  bool empty() const { return all_.empty(); }

  // Returns whether numbers are wanted whose squares are too large to add up, or no numbers.
  bool IsTooLarge() const { return !std::isfinite(Spread()); }

  // Returns the energy of the errors over that of the spread; nothing if no error is infinite, and
  // what is wanted does not vary or is too large.
  std::optional<double> ErrorShare() const {
    const double errors = errors_.value(), spread = Spread();
    if (std::isinf(errors)) return errors;
    if (!std::isfinite(spread)) return std::nullopt;
    // Means are rounded, by which numbers that are all the same have a spread next to nothing.
    constexpr double kRounding = 1e-30;
    if (spread <= kRounding * squares_.value()) return std::nullopt;
    return errors / spread;
  }

  void Write(ByteWriter& writer) const {
    writer.Compact(all_.size());
    for (const Column& column : all_) {
      writer.Compact(column.count);
      column.sum.Write(writer);
    }
    squares_.Write(writer);
    errors_.Write(writer);
  }

  static Columns Read(ByteReader& reader) {
    constexpr size_t kLeastBytes = 1 + sizeof(uint64_t) * ExactSum::kNumWords;
    Columns columns;
    columns.all_.resize(reader.Count(kLeastBytes));
    for (Column& column : columns.all_) {
      column.count = reader.Compact();
      column.sum = OrderlessSum::Read(reader);
    }
    columns.squares_ = OrderlessSum::Read(reader);
    columns.errors_ = OrderlessSum::Read(reader);
    return columns;
  }

 private:
  // Returns the sum of squares around the means. The sums are exact, and so is this up to its last
  // step: large offsets cost no digits.
  double Spread() const {
    OrderlessSum spread = squares_;
    for (const Column& column : all_) {
      if (column.count == 0) continue;
      const auto count = static_cast<double>(column.count);
      const double mean = column.sum.value() / count;
      // Three doubles hold the sum of the column.
      OrderlessSum rest = column.sum;
      for (int i = 0; i < 3; ++i) {
        const double part = rest.value();
        if (!std::isfinite(part)) return part;
        AddProduct(-2 * mean, part, spread);
        rest.Add(-part);
      }
      const double square = mean * mean;
      AddProduct(count, square, spread);
      AddProduct(count, std::fma(mean, mean, -square), spread);
    }
    return spread.value();
  }

  std::vector<Column> all_;
  OrderlessSum squares_, errors_;  // sums over all columns
};

class RegressionMeter : public TaskMeter {
 public:
  RegressionMeter(const TaskSpec& spec, size_t output)
      : output_(output), labels_file_(spec.Text("labels")) {
    if (!labels_file_.empty()) labels_ = ReadColumn(labels_file_, "value");
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
    if (!labels_file_.empty() && against_labels_.empty()) report.how = NoLabelIn(labels_file_);
    if (const std::optional<double> share = against_float_.ErrorShare()) {
      report.figures.push_back({"R2 against the float model", 1 - *share, {}});
      report.figures.push_back({"error over the spread", std::sqrt(*share), {}});
      report.SetLoss(*share, "1 - R2");
    } else if (!against_float_.empty()) {
      const std::string samples = WithNoun(num_samples_, "sample");
      report.why_no_loss =
          against_float_.IsTooLarge()
              ? fmt::format("the float model's numbers are too large to add up their squares in {}",
                            samples)
              : fmt::format("the float model's numbers do not vary in {}: give more", samples);
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

  void Merge(const TaskMeter& other) override {
    const auto& same = dynamic_cast<const RegressionMeter&>(other);
    num_samples_ += same.num_samples_;
    num_classes_ += same.num_classes_;
    num_equal_ += same.num_equal_;
    against_float_.Add(same.against_float_);
    against_labels_.Add(same.against_labels_);
    reference_against_labels_.Add(same.reference_against_labels_);
  }

  void Write(ByteWriter& writer) const override {
    for (const uint64_t count : {num_samples_, num_classes_, num_equal_}) writer.Compact(count);
    against_float_.Write(writer);
    against_labels_.Write(writer);
    reference_against_labels_.Write(writer);
  }

  void Read(ByteReader& reader) override {
    for (uint64_t* const count : {&num_samples_, &num_classes_, &num_equal_}) {
      *count = reader.Compact();
    }
    against_float_ = Columns::Read(reader);
    against_labels_ = Columns::Read(reader);
    reference_against_labels_ = Columns::Read(reader);
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
  std::string labels_file_;  // "": none
  std::map<std::string, std::string> labels_;
  Columns against_float_, against_labels_, reference_against_labels_;
};

}  // namespace

std::unique_ptr<TaskMeter> MakeRegressionMeter(const TaskSpec& spec, size_t output) {
  return std::make_unique<RegressionMeter>(spec, output);
}

}  // namespace bitpress::evaluate
