#include "data/kept_samples.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "data/batch_builder.h"

namespace bitpress::data {

// A source that reads, and keeps what it reads for the first time.
class KeptSamples::Recorder : public Source {
 public:
  Recorder(std::shared_ptr<KeptSamples> kept, std::unique_ptr<Source> source, size_t limit)
      : kept_(std::move(kept)), source_(std::move(source)), limit_(limit) {
    kept_->has_labels_ = source_->has_labels();
  }

  size_t num_samples() const override { return source_->num_samples(); }
  bool has_labels() const override { return source_->has_labels(); }
  SamplePlace place() const override { return source_->place(); }

  std::optional<Batch> Next(size_t max_samples) override {
    std::optional<Batch> batch = source_->Next(max_samples);
    if (!is_whole_) return batch;
    if (batch) {
      kept_->Keep(*batch, position_);
      position_ += batch->num_samples;
    } else if (limit_ == 0 || position_ < limit_) {
      kept_->is_complete_ = !kept_->is_full_;
    }
    return batch;
  }

  void Rewind() override {
    source_->Rewind();
    position_ = 0;
  }

  void Select(const Shard& shard) override {
    source_->Select(shard);
    is_whole_ = false;
  }

  uint64_t Fingerprint() override {
    position_ = 0;
    return source_->Fingerprint();
  }

 private:
  std::shared_ptr<KeptSamples> kept_;
  std::unique_ptr<Source> source_;
  size_t limit_;
  size_t position_ = 0;
  bool is_whole_ = true;  // false: a shard was selected
};

// A source of samples in memory. What needs files opens them.
class KeptSamples::Player : public Source {
 public:
  Player(std::shared_ptr<const KeptSamples> kept, SourceOptions options, SourceOpener open)
      : kept_(std::move(kept)), options_(std::move(options)), open_(std::move(open)) {
    num_samples_ = kept_->samples_.size();
    if (options_.limit > 0) num_samples_ = std::min(num_samples_, options_.limit);
  }

  size_t num_samples() const override { return files_ ? files_->num_samples() : num_samples_; }
  bool has_labels() const override { return kept_->has_labels_; }
  SamplePlace place() const override {
    return files_ ? files_->place() : SamplePlace{0, num_samples_};
  }

  std::optional<Batch> Next(size_t max_samples) override {
    if (files_) return files_->Next(max_samples);
    if (position_ == num_samples_) return std::nullopt;
    BatchBuilder rows;
    while (position_ < num_samples_ && rows.num_samples() < max_samples) {
      const Batch& sample = kept_->samples_[position_];
      const bool stays_alone = options_.use_whole_items || !sample.HasRows();
      if (stays_alone && rows.num_samples() > 0) break;
      if (!stays_alone && !rows.Accepts(sample.inputs)) break;
      ++position_;
      if (stays_alone) return sample;
      rows.Append(sample.inputs, sample.names, sample.labels);
    }
    return rows.Take();
  }

  void Rewind() override {
    position_ = 0;
    if (files_) files_->Rewind();
  }

  void Select(const Shard& shard) override { Files().Select(shard); }

  uint64_t Fingerprint() override {
    position_ = 0;
    return Files().Fingerprint();
  }

 private:
  Source& Files() {
    if (!files_) files_ = open_(options_);
    return *files_;
  }

  std::shared_ptr<const KeptSamples> kept_;
  SourceOptions options_;
  SourceOpener open_;
  size_t num_samples_;
  size_t position_ = 0;
  std::unique_ptr<Source> files_;  // once something needed them
};

std::unique_ptr<Source> KeptSamples::Open(const SourceOptions& options, const SourceOpener& open) {
  const bool can_keep =
      options.shard.count == 1 && !options.part_of && !options.tokens && !options.keeps_failures;
  const Key key{options.input_names, options.input_types, options.use_whole_items};
  if (!can_keep || (!samples_.empty() && key != key_)) return open(options);
  key_ = key;
  const bool is_kept = is_complete_ || (options.limit > 0 && options.limit <= samples_.size());
  if (is_kept) return std::make_unique<Player>(shared_from_this(), options, open);
  return std::make_unique<Recorder>(shared_from_this(), open(options), options.limit);
}

void KeptSamples::Keep(const Batch& batch, size_t first) {
  for (size_t i = 0; i < batch.num_samples && !is_full_; ++i) {
    if (first + i != samples_.size()) continue;  // an earlier reading kept it
    for (const Tensor& input : batch.inputs) num_bytes_ += input.bytes.size() / batch.num_samples;
    is_full_ = !batch.failed.empty() || num_bytes_ > most_bytes_;
    if (!is_full_) samples_.push_back(batch.num_samples == 1 ? batch : batch.Rows(i, 1));
  }
}

}  // namespace bitpress::data
