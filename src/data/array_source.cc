// The source of arrays, whose files hold as many samples as their first dimension says.
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "data/array_file.h"
#include "data/batch_builder.h"
#include "data/folder.h"

namespace bitpress::data {
namespace {

struct Item {
  std::unique_ptr<ArrayFile> file;
  std::string name;
  std::optional<int64_t> label;
  int64_t num_rows = 1;        // number of samples
  bool has_batch_dim = false;  // false: it is one sample, never joined with others
};

class ArraySource : public Source {
 public:
  ArraySource(FolderListing listing, const SourceOptions& options)
      : use_whole_items_(options.use_whole_items) {
    for (SampleFiles& sample : listing.samples) {
      Add(listing.kind, sample, options.input_names);
      if (options.limit > 0 && num_samples_ >= options.limit) {
        num_samples_ = options.limit;
        break;
      }
    }
    const auto [begin, end] = options.shard.RangeOf(num_samples_);
    place_ = {begin, num_samples_};
    num_samples_ = end - begin;
    size_t num_before = begin;  // samples that come before the shard
    while (num_before >= static_cast<size_t>(items_[first_item_].num_rows)) {
      num_before -= static_cast<size_t>(items_[first_item_++].num_rows);
    }
    first_row_ = static_cast<int64_t>(num_before);
    Rewind();
  }

  size_t num_samples() const override { return num_samples_; }
  bool has_labels() const override { return items_[0].label.has_value(); }

  SamplePlace place() const override { return place_; }

  std::optional<Batch> Next(size_t max_samples) override {
    if (max_samples == 0) {
      Fail(ErrorCode::kInvalidArgument, "a batch of 0 samples was asked for");
    }
    BatchBuilder builder;
    while (num_given_ < num_samples_ && builder.num_samples() < max_samples) {
      Item& item = items_[position_];
      const bool is_whole = !item.has_batch_dim;
      if (builder.num_samples() > 0 && (is_whole || !builder.Accepts(item.file->headers()))) break;
      const size_t rows_left = static_cast<size_t>(item.num_rows - row_);
      const size_t count = is_whole ? rows_left
                                    : std::min({rows_left, max_samples - builder.num_samples(),
                                                num_samples_ - num_given_});
      builder.Append(
          is_whole ? item.file->Read() : item.file->ReadRows(row_, static_cast<int64_t>(count)),
          RowNames(item, count), LabelsOf(item.label));
      Advance(item, count);
      if (is_whole) break;
    }
    if (builder.num_samples() == 0) return std::nullopt;
    return builder.Take();
  }

  void Rewind() final {
    position_ = first_item_;
    row_ = first_row_;
    num_given_ = 0;
  }

 private:
  void Add(FileKind kind, SampleFiles& sample, const std::vector<std::string>& input_names) {
    Item item{.file = OpenArrayFile(kind, sample, input_names),
              .name = std::move(sample.name),
              .label = sample.label};
    const int64_t rows = CommonRows(item.file->headers());
    if (rows == 0) {
      Fail(ErrorCode::kInvalidArgument, "{}: the array has no rows (its first dimension is 0)",
           sample.files[0].string());
    }
    item.has_batch_dim = rows > 0 && !use_whole_items_;
    item.num_rows = item.has_batch_dim ? rows : 1;
    if (item.label && item.num_rows > 1) {
      Fail(ErrorCode::kInvalidArgument,
           "{}: the file holds {} samples but has one class; expected a first dimension of 1",
           sample.files[0].string(), item.num_rows);
    }
    num_samples_ += static_cast<size_t>(item.num_rows);
    items_.push_back(std::move(item));
  }

  std::vector<std::string> RowNames(const Item& item, size_t count) const {
    if (item.num_rows == 1) return {item.name};
    std::vector<std::string> names;
    for (size_t i = 0; i < count; ++i) {
      names.push_back(fmt::format("{}[{}]", item.name, static_cast<size_t>(row_) + i));
    }
    return names;
  }

  void Advance(const Item& item, size_t count) {
    num_given_ += count;
    row_ += static_cast<int64_t>(count);
    if (row_ < item.num_rows) return;
    row_ = 0;
    ++position_;
  }

  SamplePlace place_;
  bool use_whole_items_;
  std::vector<Item> items_;
  size_t num_samples_ = 0;  // samples to be given in all
  size_t first_item_ = 0;   // the place of the first sample: an item, and a row of it
  int64_t first_row_ = 0;
  size_t position_ = 0;  // index of the next item
  int64_t row_ = 0;      // row of the next sample in it
  size_t num_given_ = 0;
};

}  // namespace

std::unique_ptr<Source> MakeArraySource(FolderListing listing, const SourceOptions& options) {
  BITPRESS_DCHECK(listing.kind != FileKind::kPhoto && !listing.samples.empty());
  return std::make_unique<ArraySource>(std::move(listing), options);
}

}  // namespace bitpress::data
