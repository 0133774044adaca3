#include "search/held_samples.h"

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>

#include "base/error.h"
#include "calibrate/sample_runs.h"

namespace bitpress::search {
namespace {

// A source that keeps the labels of the samples that were read.
class LabelledSource : public data::Source {
 public:
  explicit LabelledSource(data::Source& source) : source_(source) {}

  size_t num_samples() const override { return source_.num_samples(); }
  bool has_labels() const override { return source_.has_labels(); }
  void Rewind() override {
    source_.Rewind();
    labels_.clear();
    num_taken_ = 0;
  }
  std::optional<data::Batch> Next(size_t max_samples) override {
    std::optional<data::Batch> batch = source_.Next(max_samples);
    if (batch) labels_.insert(labels_.end(), batch->labels.begin(), batch->labels.end());
    return batch;
  }
  // Returns the labels of the next `count` samples.
  std::vector<int64_t> TakeLabels(size_t count) {
    if (num_taken_ + count > labels_.size()) return {};
    const auto begin = labels_.begin() + static_cast<std::ptrdiff_t>(num_taken_);
    num_taken_ += count;
    return {begin, begin + static_cast<std::ptrdiff_t>(count)};
  }

 private:
  data::Source& source_;
  std::vector<int64_t> labels_;
  size_t num_taken_ = 0;
};

uint64_t BytesOf(std::span<const Tensor> tensors) {
  uint64_t bytes = 0;
  for (const Tensor& tensor : tensors) bytes += tensor.bytes.size();
  return bytes;
}

}  // namespace

void HeldSamples::ForEach(
    const std::function<std::vector<Tensor>(const std::vector<Tensor>&)>& make_reference,
    const std::function<void(const HeldSample&)>& run) {
  if (is_complete_) {
    std::ranges::for_each(held_, run);
    return;
  }
  constexpr size_t kAtOnce = 8;
  LabelledSource source(source_);
  uint64_t bytes = 0;
  held_.clear();
  const auto run_one = [&](const std::vector<Tensor>& inputs, size_t count) {
    HeldSample sample{inputs, count, source.TakeLabels(count), make_reference(inputs)};
    bytes += BytesOf(sample.inputs) + BytesOf(sample.reference);
    if (bytes > kMostHeldBytes) held_.clear();
    run(sample);
    if (bytes <= kMostHeldBytes) held_.push_back(std::move(sample));
  };
  num_samples_ = calibrate::RunSamples(source, inputs_, kAtOnce, run_one, "", {}).num_samples;
  is_complete_ = bytes <= kMostHeldBytes;
  if (num_samples_ == 0) {
    Fail(ErrorCode::kInvalidArgument, "there are no samples to measure with");
  }
}

}  // namespace bitpress::search
