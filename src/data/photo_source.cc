// The source of photos. It decodes them on all cores, and ahead of the caller if that is wanted.
#include <algorithm>
#include <bit>
#include <deque>
#include <future>
#include <utility>

#include "base/atomic_file.h"
#include "base/check.h"
#include "base/content_hash.h"
#include "base/error.h"
#include "base/thread_pool.h"
#include "data/batch_builder.h"
#include "data/folder.h"
#include "data/photo.h"

namespace bitpress::data {
namespace {

class PhotoSource : public Source {
 public:
  PhotoSource(FolderListing listing, const SourceOptions& options)
      : samples_(std::move(listing.samples)),
        spec_(*options.image),
        read_ahead_(options.read_ahead),
        pool_(options.num_threads) {
    if (options.limit > 0 && options.limit < samples_.size()) samples_.resize(options.limit);
    const auto [begin, end] = options.shard.RangeOf(samples_.size());
    place_ = {begin, samples_.size()};
    samples_.resize(end);
    samples_.erase(samples_.begin(), samples_.begin() + static_cast<std::ptrdiff_t>(begin));
  }

  size_t num_samples() const override { return samples_.size(); }
  bool has_labels() const override { return samples_[0].label.has_value(); }

  SamplePlace place() const override { return place_; }

  std::optional<Batch> Next(size_t max_samples) override {
    if (max_samples == 0) {
      Fail(ErrorCode::kInvalidArgument, "a batch of 0 samples was asked for");
    }
    if (position_ == samples_.size()) return std::nullopt;
    const size_t wanted = std::min(max_samples, samples_.size() - position_);
    Collect();
    if (decoded_.size() < wanted) Decode(wanted - decoded_.size());
    BatchBuilder builder;
    // Pictures that are not cropped may differ in size. The batch ends there.
    while (builder.num_samples() < wanted && builder.Accepts(decoded_.front())) {
      const SampleFiles& sample = samples_[position_++];
      builder.Append(std::move(decoded_.front()), {sample.name}, LabelsOf(sample.label));
      decoded_.pop_front();
    }
    if (read_ahead_) {
      const size_t left = samples_.size() - position_ - decoded_.size();
      const size_t num_ahead =
          max_samples > decoded_.size() ? std::min(max_samples - decoded_.size(), left) : 0;
      if (num_ahead > 0) {
        ahead_ = std::async(std::launch::async, [this, num_ahead] { Decode(num_ahead); });
      }
    }
    return builder.Take();
  }

  void Rewind() override {
    if (ahead_.valid()) ahead_.wait();
    ahead_ = {};
    decoded_.clear();
    position_ = 0;
  }

  // Hashes the bytes of the files instead of the pixels, so that nothing is decoded.
  uint64_t Fingerprint() override {
    Rewind();
    uint64_t sum = 0;
    for (size_t i = 0; i < samples_.size(); ++i) {
      ContentHash hash;
      hash.AddNumber(place_.first + i);
      for (const int pixels : {spec_.resize, spec_.crop}) {
        hash.AddNumber(static_cast<uint64_t>(pixels));
      }
      for (const auto& numbers : {spec_.mean, spec_.std}) {
        for (int k = 0; k < 3; ++k) hash.AddNumber(std::bit_cast<uint32_t>(numbers[k]));
      }
      hash.AddNumber(spec_.nhwc ? 1 : 0);
      hash.AddNumber(spec_.bgr ? 1 : 0);
      hash.Add(ReadFile(samples_[i].files[0]));
      for (const int64_t label : LabelsOf(samples_[i].label)) {
        hash.AddNumber(static_cast<uint64_t>(label));
      }
      sum += hash.value();
    }
    return sum;
  }

 private:
  // Waits for the thread that reads ahead, and throws its error.
  void Collect() {
    if (ahead_.valid()) ahead_.get();
  }

  // Adds the next `count` photos to decoded_, or none of them if one fails.
  void Decode(size_t count) {
    const size_t begin = position_ + decoded_.size();
    std::vector<Tensor> tensors(count);
    pool_.ParallelFor(
        count, [&](size_t i) { tensors[i] = LoadPhoto(samples_[begin + i].files[0], spec_); });
    for (Tensor& tensor : tensors) {
      std::vector<Tensor> inputs;
      inputs.push_back(std::move(tensor));
      decoded_.push_back(std::move(inputs));
    }
  }

  std::vector<SampleFiles> samples_;
  SamplePlace place_;
  ImageSpec spec_;
  bool read_ahead_;
  ThreadPool pool_;
  size_t position_ = 0;                      // index of the next sample to be given
  std::deque<std::vector<Tensor>> decoded_;  // the samples from position_ on
  // The thread that reads ahead. It owns decoded_ and pool_ while it is valid. It is the last
  // member, so that its end is waited for first.
  std::future<void> ahead_;
};

}  // namespace

std::unique_ptr<Source> MakePhotoSource(FolderListing listing, const SourceOptions& options) {
  BITPRESS_DCHECK(listing.kind == FileKind::kPhoto && !listing.samples.empty());
  BITPRESS_DCHECK(options.image.has_value());
  return std::make_unique<PhotoSource>(std::move(listing), options);
}

}  // namespace bitpress::data
