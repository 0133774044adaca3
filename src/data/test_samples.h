// Samples in memory for tests of rooms that run models.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "base/test_support.h"
#include "data/source.h"

namespace bitpress::data {

// Normally distributed floats. Each sample follows from its number alone.
class RandomSamples : public Source {
 public:
  // Gives the samples [begin, end). `shape` is that of one sample, without a batch dimension.
  RandomSamples(std::vector<int64_t> shape, size_t begin, size_t end)
      : shape_(std::move(shape)), begin_(begin), end_(end), next_(begin) {}
  size_t num_samples() const override { return end_ - begin_; }
  bool has_labels() const override { return false; }
  std::optional<Batch> Next(size_t max_samples) override {
    if (next_ == end_) return std::nullopt;
    Batch batch;
    batch.num_samples = std::min(max_samples, end_ - next_);
    std::vector<float> values;
    const size_t end_of_batch = next_ + batch.num_samples;
    for (; next_ < end_of_batch; ++next_) {
      const std::vector<float> sample =
          RandomNormal(static_cast<size_t>(NumElements(shape_)), static_cast<uint32_t>(next_));
      values.insert(values.end(), sample.begin(), sample.end());
    }
    std::vector<int64_t> dims{static_cast<int64_t>(batch.num_samples)};
    dims.insert(dims.end(), shape_.begin(), shape_.end());
    batch.inputs.push_back(MakeTensor(DataType::kFloat, dims, values));
    return batch;
  }
  void Rewind() override { next_ = begin_; }

 private:
  std::vector<int64_t> shape_;
  size_t begin_, end_, next_;
};

}  // namespace bitpress::data
