#include "data/token_source.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/paths.h"
#include "data/npy.h"

namespace bitpress::data {
namespace {

// The most tokens of a batch: products of so many rows are as fast as larger ones.
constexpr int64_t kMostTokensOfBatch = 512;

// A row of token ids has to have one token and the next.
constexpr int64_t kFewestTokens = 2;

template <typename T>
std::vector<int64_t> Widen(const Tensor& tensor) {
  const std::span<const T> values = tensor.values<T>();
  return {values.begin(), values.end()};
}

std::vector<int64_t> ToIds(const Tensor& tensor, const std::string& file) {
  switch (tensor.type) {
    case DataType::kInt64:
      return Widen<int64_t>(tensor);
    case DataType::kInt32:
      return Widen<int32_t>(tensor);
    case DataType::kUInt32:
      return Widen<uint32_t>(tensor);
    case DataType::kUInt16:
      return Widen<uint16_t>(tensor);
    default:
      Fail(ErrorCode::kInvalidArgument,
           "{}: the elements are {}, expected token ids as INT64, INT32, UINT32 or UINT16", file,
           DataTypeName(tensor.type));
  }
}

class TokenSource : public Source {
 public:
  explicit TokenSource(const SourceOptions& options)
      : inputs_(options.tokens->inputs),
        file_(options.tokens->file),
        prefix_(options.tokens->prefix),
        suffix_(options.tokens->suffix),
        keeps_failures_(options.keeps_failures) {
    const NpyHeader& header = file_.header();
    const std::string path = PathText(options.tokens->file);
    if (header.dims.empty() || header.dims.size() > 2) {
      Fail(ErrorCode::kInvalidArgument,
           "{}: the array has {} dimensions, expected token ids as [tokens] or [texts, tokens]",
           path, header.dims.size());
    }
    const int64_t num_texts = header.dims.size() == 2 ? header.dims[0] : 1;
    text_length_ = header.dims.back();
    if (num_texts == 0 || text_length_ < kFewestTokens) {
      Fail(ErrorCode::kInvalidArgument, "{}: there are {} tokens, expected {} or more", path,
           num_texts == 0 ? 0 : text_length_, kFewestTokens);
    }
    const auto num_special = static_cast<int64_t>(prefix_.size() + suffix_.size());
    length_ = std::min(TokensOfSample(inputs_, options.tokens->length, options.tokens->file),
                       text_length_ + num_special);
    if (inputs_.fixed_length() > length_) {
      Fail(ErrorCode::kInvalidArgument,
           "{}: there are {} tokens, but the model takes samples of {}", path, text_length_,
           inputs_.fixed_length());
    }
    piece_length_ = length_ - num_special;
    if (piece_length_ < 1) {
      Fail(ErrorCode::kInvalidArgument, "samples of {} tokens have no room for {} special ones",
           length_, num_special);
    }
    pieces_of_text_ = text_length_ / piece_length_;
    num_samples_ = static_cast<size_t>(num_texts * pieces_of_text_);
    if (options.limit > 0) num_samples_ = std::min(num_samples_, options.limit);
    // Caches and lengths are no rows that a caller could pad.
    const size_t batch = samples_of_run();
    num_runs_ = num_samples_ / batch;
    if (batch > 1 && num_runs_ == 0) {
      Fail(ErrorCode::kInvalidArgument, "{}: there are {} samples, but the model takes {} in a run",
           path, num_samples_, batch);
    }
    Select(options.shard);
    name_ = PathText(options.tokens->file.filename());
  }

  size_t num_samples() const override { return num_samples_; }
  bool has_labels() const override { return false; }

  SamplePlace place() const override { return place_; }

  std::optional<Batch> Next(size_t max_samples) override {
    if (max_samples == 0) {
      Fail(ErrorCode::kInvalidArgument, "a batch of 0 samples was asked for");
    }
    if (inputs_.fixed_batch() == 0) {
      const int64_t few = std::max<int64_t>(1, kMostTokensOfBatch / length_);
      max_samples = std::min(max_samples, static_cast<size_t>(few));
    }
    const size_t count = std::min(max_samples, num_samples_ - num_given_);
    if (count == 0) return std::nullopt;
    Batch batch{.inputs = {}, .labels = {}, .names = {}, .num_samples = 0};
    Tensor ids{.type = DataType::kInt64, .dims = {0, length_}, .bytes = {}};
    for (size_t i = 0; i < count; ++i) {
      const size_t index = place_.first + num_given_ + i;
      std::string name = fmt::format("{}[{}]", name_, index);
      try {
        const std::vector<int64_t> piece = Piece(static_cast<int64_t>(index));
        const auto* const bytes = reinterpret_cast<const std::byte*>(piece.data());
        ids.bytes.insert(ids.bytes.end(), bytes, bytes + piece.size() * sizeof(int64_t));
        batch.names.push_back(std::move(name));
      } catch (const Error& error) {
        // A model that takes several samples gets all of them.
        if (!keeps_failures_ || samples_of_run() > 1) throw;
        batch.failed.push_back({std::move(name), error.what()});
      }
    }
    batch.num_samples = batch.names.size();
    ids.dims[0] = static_cast<int64_t>(batch.num_samples);
    if (batch.num_samples > 0) batch.inputs = inputs_.Make(ids);
    num_given_ += count;
    return batch;
  }

  void Rewind() final { num_given_ = 0; }

  void Select(const Shard& shard) final {
    const auto [begin, end] = shard.RangeOf(num_runs_);
    place_ = {begin * samples_of_run(), num_runs_ * samples_of_run()};
    num_samples_ = (end - begin) * samples_of_run();
    Rewind();
  }

 private:
  size_t samples_of_run() const {
    return static_cast<size_t>(std::max<int64_t>(inputs_.fixed_batch(), 1));
  }

  // Returns the ids of sample `index`.
  std::vector<int64_t> Piece(int64_t index) {
    const int64_t text = index / pieces_of_text_;
    const int64_t begin = text * text_length_ + index % pieces_of_text_ * piece_length_;
    std::vector<int64_t> ids = prefix_;
    const std::vector<int64_t> piece = ToIds(file_.ReadElements(begin, piece_length_), name_);
    ids.insert(ids.end(), piece.begin(), piece.end());
    ids.insert(ids.end(), suffix_.begin(), suffix_.end());
    for (const int64_t id : ids) {
      if (id >= 0 && id <= INT32_MAX) continue;
      Fail(ErrorCode::kInvalidArgument, "{}[{}]: {} is no token id", name_, index, id);
    }
    return ids;
  }

  TokenInputs inputs_;
  NpyFile file_;
  std::vector<int64_t> prefix_, suffix_;
  bool keeps_failures_;
  std::string name_;
  int64_t text_length_ = 0;     // tokens of a text
  int64_t length_ = 0;          // tokens of a sample
  int64_t piece_length_ = 0;    // those of the text among them
  int64_t pieces_of_text_ = 0;  // samples of a text
  size_t num_runs_ = 0;         // runs of the model in all shards
  SamplePlace place_;           // of the shard's samples
  size_t num_samples_ = 0;
  size_t num_given_ = 0;
};

}  // namespace

int64_t TokensOfSample(const TokenInputs& inputs, size_t asked, const std::filesystem::path& file) {
  const int64_t fixed = inputs.fixed_length();
  if (asked > 0) {
    if (fixed > 0 && fixed != static_cast<int64_t>(asked)) {
      Fail(ErrorCode::kInvalidArgument,
           "input '{}' takes {} tokens of a sample, but the sequence is to have {}",
           inputs.inputs()[inputs.ids_index()].name, fixed, asked);
    }
    return static_cast<int64_t>(asked);
  }
  if (fixed > 0) return fixed;
  const NpyHeader header = NpyFile(file).header();
  return header.dims.size() == 2 ? header.dims[1] : kDefaultTokens;
}

std::unique_ptr<Source> MakeTokenSource(const SourceOptions& options) {
  return std::make_unique<TokenSource>(options);
}

}  // namespace bitpress::data
