// The source of photos. It decodes them on all cores, and ahead of the caller if that is wanted.
#include <algorithm>
#include <bit>
#include <deque>
#include <future>
#include <span>
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
        keeps_failures_(options.keeps_failures),
        pool_(options.num_threads) {
    if (options.limit > 0 && options.limit < samples_.size()) samples_.resize(options.limit);
    Select(options.shard);
  }

  size_t num_samples() const override { return end_ - begin_; }
  bool has_labels() const override { return samples_[0].label.has_value(); }

  SamplePlace place() const override { return {begin_, samples_.size()}; }

  std::optional<Batch> Next(size_t max_samples) override {
    if (max_samples == 0) {
      Fail(ErrorCode::kInvalidArgument, "a batch of 0 samples was asked for");
    }
    if (position_ == end_) return std::nullopt;
    const size_t wanted = std::min(max_samples, end_ - position_);
    Collect();
    if (decoded_.size() < wanted) Decode(wanted - decoded_.size());
    BatchBuilder builder;
    // Pictures that are not cropped may differ in size. The batch ends there.
    std::vector<FailedSample> failed;
    while (builder.num_samples() + failed.size() < wanted) {
      Decoded& decoded = decoded_.front();
      const SampleFiles& sample = samples_[position_];
      if (decoded.why_not) {
        failed.push_back({sample.name, *decoded.why_not});
      } else if (builder.Accepts(decoded.inputs)) {
        builder.Append(std::move(decoded.inputs), {sample.name}, LabelsOf(sample.label));
      } else {
        break;
      }
      ++position_;
      decoded_.pop_front();
    }
    if (read_ahead_) {
      const size_t left = end_ - position_ - decoded_.size();
      const size_t num_ahead =
          max_samples > decoded_.size() ? std::min(max_samples - decoded_.size(), left) : 0;
      if (num_ahead > 0) {
        ahead_ = std::async(std::launch::async, [this, num_ahead] { Decode(num_ahead); });
      }
    }
    Batch batch = builder.Take();
    batch.failed = std::move(failed);
    return batch;
  }

  void Rewind() final {
    if (ahead_.valid()) ahead_.wait();
    ahead_ = {};
    decoded_.clear();
    position_ = begin_;
  }

  void Select(const Shard& shard) final {
    const auto [begin, end] = shard.RangeOf(samples_.size());
    begin_ = begin;
    end_ = end;
    Rewind();
  }

  // Hashes the bytes of the files instead of the pixels, so that nothing is decoded.
  uint64_t Fingerprint() override {
    Rewind();
    uint64_t sum = 0;
    for (size_t i = begin_; i < end_; ++i) {
      ContentHash hash;
      hash.AddNumber(i);
      for (const int pixels : {spec_.resize, spec_.crop}) {
        hash.AddNumber(static_cast<uint64_t>(pixels));
      }
      for (const auto& numbers : {spec_.mean, spec_.std}) {
        for (int k = 0; k < 3; ++k) hash.AddNumber(std::bit_cast<uint32_t>(numbers[k]));
      }
      if (spec_.fit != ImageSpec::Fit::kShorter) hash.AddNumber(static_cast<uint64_t>(spec_.fit));
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
  struct Decoded {
    std::vector<Tensor> inputs;
    std::optional<std::string> why_not = std::nullopt;  // the error of a photo that failed
  };

  // Waits for the thread that reads ahead, and throws its error.
  void Collect() {
    if (ahead_.valid()) ahead_.get();
  }

  // Adds the next `count` photos to decoded_, or none of them if one fails.
  void Decode(size_t count) {
    const size_t begin = position_ + decoded_.size();
    std::vector<Decoded> photos(count);
    pool_.ParallelFor(count, [&](size_t i) {
      try {
        photos[i].inputs.push_back(LoadPhoto(samples_[begin + i].files[0], spec_));
      } catch (const Error& error) {
        if (!keeps_failures_) throw;
        photos[i].why_not = error.what();
      }
    });
    for (Decoded& photo : photos) decoded_.push_back(std::move(photo));
  }

  std::vector<SampleFiles> samples_;  // of all shards
  size_t begin_ = 0;                  // index of the shard's first sample
  size_t end_ = 0;                    // index of the one behind its last
  ImageSpec spec_;
  bool read_ahead_;
  bool keeps_failures_;
  ThreadPool pool_;
  size_t position_ = 0;          // index of the next sample to be given
  std::deque<Decoded> decoded_;  // the samples from position_ on
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
