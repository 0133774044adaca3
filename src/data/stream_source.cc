#include "data/stream_source.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/error.h"
#include "data/batch_builder.h"

namespace bitpress::data {
namespace {

class StreamSource : public Source {
 public:
  StreamSource(std::unique_ptr<SampleStream> stream, const SourceOptions& options)
      : stream_(std::move(stream)),
        num_inputs_(options.input_names.size()),
        input_types_(options.input_types),
        limit_(options.limit),
        part_of_(options.part_of),
        use_whole_items_(options.use_whole_items),
        keeps_failures_(options.keeps_failures) {
    Select(options.shard);
  }

  size_t num_samples() const override {
    const size_t all = stream_->num_samples();
    if (limit_ == 0 || all == 0) return all;
    return std::min(all, limit_);
  }
  bool has_labels() const override { return stream_->has_labels(); }
  SamplePlace place() const override { return part_of_.value_or(SamplePlace{0, num_samples()}); }

  std::optional<Batch> Next(size_t max_samples) override {
    if (max_samples == 0) {
      Fail(ErrorCode::kInvalidArgument, "a batch of 0 samples was asked for");
    }
    BatchBuilder builder;
    std::vector<FailedSample> failed;
    while (builder.num_samples() < max_samples && (limit_ == 0 || num_given_ < limit_)) {
      if (!item_ && !Fetch()) break;
      if (!item_->why_not.empty()) {
        failed.push_back({Name(0), item_->why_not});
        ++num_given_;
        item_.reset();
        continue;
      }
      const bool is_whole = num_rows_ < 0;
      if (builder.num_samples() > 0 && (is_whole || !builder.Accepts(item_->inputs))) break;
      if (is_whole) {
        AppendWhole(builder);
        break;
      }
      int64_t count =
          std::min(num_rows_ - row_, static_cast<int64_t>(max_samples - builder.num_samples()));
      if (limit_ > 0) count = std::min(count, static_cast<int64_t>(limit_ - num_given_));
      AppendRows(builder, count);
    }
    if (builder.num_samples() == 0 && failed.empty()) return std::nullopt;
    Batch batch = builder.Take();
    batch.failed = std::move(failed);
    return batch;
  }

  void Rewind() final {
    is_started_ = is_ended_ = false;
    item_.reset();
    num_given_ = 0;
    num_items_ = 0;
  }

 private:
  // Reads the next item. Returns whether there was one.
  bool Fetch() {
    if (is_ended_) return false;
    if (!is_started_) stream_->Rewind();
    is_started_ = true;
    item_ = stream_->Next();
    is_ended_ = !item_;
    if (is_ended_) return false;
    row_ = 0;
    num_rows_ = -1;
    ++num_items_;
    try {
      Check();
    } catch (const Error& error) {
      if (!keeps_failures_) throw;
      item_->why_not = error.what();
    }
    return true;
  }

  void Check() {
    if (!item_->why_not.empty()) {
      Fail(ErrorCode::kInvalidArgument, "{}: {}", Name(0), item_->why_not);
    }
    if (item_->inputs.empty() || (num_inputs_ > 0 && item_->inputs.size() != num_inputs_)) {
      Fail(ErrorCode::kInvalidArgument, "sample {} has {} arrays, but the model has {} inputs",
           item_number(), item_->inputs.size(), num_inputs_);
    }
    ConvertTypes(input_types_, item_->inputs);
    num_rows_ = CommonRows(item_->inputs);
    if (num_rows_ == 0) {
      Fail(ErrorCode::kInvalidArgument, "sample {} has no rows (its first dimension is 0)",
           item_number());
    }
    if (use_whole_items_) num_rows_ = -1;
    const size_t num_labels = item_->labels.size();
    const auto num_samples = static_cast<size_t>(std::max<int64_t>(num_rows_, 1));
    if (num_labels != (has_labels() ? num_samples : 0)) {
      Fail(ErrorCode::kInvalidArgument, "sample {}: there are {} classes for {} samples",
           item_number(), num_labels, num_samples);
    }
  }

  void AppendWhole(BatchBuilder& builder) {
    builder.Append(std::move(item_->inputs), Names(1), item_->labels);
    ++num_given_;
    item_.reset();
  }

  void AppendRows(BatchBuilder& builder, int64_t count) {
    const auto first_label = static_cast<size_t>(row_);
    const auto num_labels = item_->labels.empty() ? 0 : static_cast<size_t>(count);
    const auto labels = std::span<const int64_t>(item_->labels)
                            .subspan(num_labels == 0 ? 0 : first_label, num_labels);
    const bool is_all = row_ == 0 && count == num_rows_;
    std::vector<Tensor> rows;
    if (is_all) {
      rows = std::move(item_->inputs);
    } else {
      for (const Tensor& input : item_->inputs) rows.push_back(CutRows(input, row_, count));
    }
    builder.Append(std::move(rows), Names(static_cast<size_t>(count)), labels);
    num_given_ += static_cast<size_t>(count);
    row_ += count;
    if (row_ == num_rows_) item_.reset();
  }

  std::vector<std::string> Names(size_t count) const {
    std::vector<std::string> names;
    for (size_t i = 0; i < count; ++i) names.push_back(Name(row_ + static_cast<int64_t>(i)));
    return names;
  }
  std::string Name(int64_t row) const {
    return num_rows_ > 1 ? fmt::format("sample {}[{}]", item_number(), row)
                         : fmt::format("sample {}", item_number());
  }
  size_t item_number() const { return stream_->first_item() + num_items_ - 1; }

  std::unique_ptr<SampleStream> stream_;
  size_t num_inputs_;
  std::vector<DataType> input_types_;
  size_t limit_;
  std::optional<SamplePlace> part_of_;
  bool use_whole_items_;
  bool keeps_failures_;
  bool is_started_ = false;
  bool is_ended_ = false;                   // the stream said that it has no more
  std::optional<SampleStream::Item> item_;  // the current item, if it has rows left
  int64_t num_rows_ = 0;                    // rows of the item; -1: it is one sample without rows
  int64_t row_ = 0;                         // row of the next sample in it
  size_t num_given_ = 0;
  size_t num_items_ = 0;  // items that were read
};

}  // namespace

std::unique_ptr<Source> MakeStreamSource(std::unique_ptr<SampleStream> stream,
                                         const SourceOptions& options) {
  return std::make_unique<StreamSource>(std::move(stream), options);
}

}  // namespace bitpress::data
