// The source of arrays, whose files hold as many samples as their first dimension says.
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "base/paths.h"
#include "data/array_file.h"
#include "data/batch_builder.h"
#include "data/folder.h"

namespace bitpress::data {
namespace {

struct Item {
  std::unique_ptr<ArrayFile> file;  // null: it could not be opened
  std::string name;
  std::optional<int64_t> label;
  int64_t num_rows = 1;        // number of samples
  bool has_batch_dim = false;  // false: it is one sample, never joined with others
  std::string why_not = {};    // the error of opening it
};

class ArraySource : public Source {
 public:
  ArraySource(FolderListing listing, const SourceOptions& options)
      : use_whole_items_(options.use_whole_items), keeps_failures_(options.keeps_failures) {
    for (SampleFiles& sample : listing.samples) {
      Add(listing.kind, sample, options);
      if (options.limit > 0 && num_in_all_ >= options.limit) {
        num_in_all_ = options.limit;
        break;
      }
    }
    Select(options.shard);
  }

  size_t num_samples() const override { return num_samples_; }
  bool has_labels() const override { return items_[0].label.has_value(); }

  SamplePlace place() const override { return place_; }

  std::optional<Batch> Next(size_t max_samples) override {
    if (max_samples == 0) {
      Fail(ErrorCode::kInvalidArgument, "a batch of 0 samples was asked for");
    }
    BatchBuilder builder;
    std::vector<FailedSample> failed;
    while (num_given_ < num_samples_ && builder.num_samples() < max_samples) {
      Item& item = items_[position_];
      if (item.file == nullptr) {
        failed.push_back({item.name, item.why_not});
        Advance(item, 1);
        continue;
      }
      const bool is_whole = !item.has_batch_dim;
      if (builder.num_samples() > 0 && (is_whole || !builder.Accepts(item.file->headers()))) break;
      const size_t rows_left = static_cast<size_t>(item.num_rows - row_);
      const size_t count = is_whole ? rows_left
                                    : std::min({rows_left, max_samples - builder.num_samples(),
                                                num_samples_ - num_given_});
      const size_t num_read = Read(item, is_whole, count, builder, failed);
      Advance(item, num_read);
      if (is_whole) break;
    }
    if (builder.num_samples() == 0 && failed.empty()) return std::nullopt;
    Batch batch = builder.Take();
    batch.failed = std::move(failed);
    return batch;
  }

  void Rewind() final {
    position_ = first_item_;
    row_ = first_row_;
    num_given_ = 0;
  }

  void Select(const Shard& shard) final {
    const auto [begin, end] = shard.RangeOf(num_in_all_);
    place_ = {begin, num_in_all_};
    num_samples_ = end - begin;
    first_item_ = 0;
    size_t num_before = begin;  // samples that come before the shard
    while (num_before >= static_cast<size_t>(items_[first_item_].num_rows)) {
      num_before -= static_cast<size_t>(items_[first_item_++].num_rows);
    }
    first_row_ = static_cast<int64_t>(num_before);
    Rewind();
  }

 private:
  void Add(FileKind kind, SampleFiles& sample, const SourceOptions& options) {
    Item item{.file = nullptr, .name = sample.name, .label = sample.label};
    try {
      Open(kind, sample, options, item);
    } catch (const Error& error) {
      if (!keeps_failures_) throw;
      item = {.file = nullptr, .name = sample.name, .label = sample.label, .why_not = error.what()};
    }
    num_in_all_ += static_cast<size_t>(item.num_rows);
    items_.push_back(std::move(item));
  }

  void Open(FileKind kind, const SampleFiles& sample, const SourceOptions& options,
            Item& item) const {
    item.file = OpenArrayFile(kind, sample, options);
    const int64_t rows = CommonRows(item.file->headers());
    if (rows == 0) {
      Fail(ErrorCode::kInvalidArgument, "{}: the array has no rows (its first dimension is 0)",
           PathText(sample.files[0]));
    }
    item.has_batch_dim = rows > 0 && !use_whole_items_;
    item.num_rows = item.has_batch_dim ? rows : 1;
    if (item.label && item.num_rows > 1) {
      Fail(ErrorCode::kInvalidArgument,
           "{}: the file holds {} samples but has one class; expected a first dimension of 1",
           PathText(sample.files[0]), item.num_rows);
    }
  }

  // Appends `count` rows of the current item, or all of one without rows. Returns how many were
  // read. If they fail, each row is read alone, so that rows fail whatever is read with them.
  size_t Read(Item& item, bool is_whole, size_t count, BatchBuilder& builder,
              std::vector<FailedSample>& failed) const {
    const auto append = [&](size_t num_rows) {
      builder.Append(
          is_whole ? item.file->Read() : item.file->ReadRows(row_, static_cast<int64_t>(num_rows)),
          RowNames(item, num_rows), LabelsOf(item.label));
      return num_rows;
    };
    if (!keeps_failures_) return append(count);
    try {
      return append(count);
    } catch (const Error& error) {
      if (count == 1) {
        failed.push_back({RowNames(item, 1)[0], error.what()});
        return 1;
      }
    }
    return Read(item, is_whole, 1, builder, failed);
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
  bool keeps_failures_;
  std::vector<Item> items_;
  size_t num_in_all_ = 0;   // samples of all shards
  size_t num_samples_ = 0;  // samples of this one
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
