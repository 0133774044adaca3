#include <algorithm>
#include <charconv>
#include <system_error>
#include <tuple>

#include "base/check.h"
#include "base/error.h"
#include "base/exact_sum.h"
#include "data/source.h"

namespace bitpress::data {

std::pair<size_t, size_t> Shard::RangeIn(size_t num_things) const {
  BITPRESS_DCHECK(index < count);
  // The product of a wide type, because a source may announce any number.
  const auto begin_of = [&](size_t shard) {
    return static_cast<size_t>(UInt128{num_things} * shard / count);
  };
  return {begin_of(index), begin_of(index + 1)};
}

std::pair<size_t, size_t> Shard::RangeOf(size_t num_samples) const {
  if (num_samples < count) {
    Fail(ErrorCode::kInvalidArgument, "there are {} samples, too few for {} shards", num_samples,
         count);
  }
  return RangeIn(num_samples);
}

Shard ParseShard(std::string_view text) {
  size_t number = 0;
  size_t count = 0;
  const char* const end = text.data() + text.size();
  const auto [slash, error] = std::from_chars(text.data(), end, number);
  bool is_right = error == std::errc() && slash != end && *slash == '/';
  if (is_right) {
    const auto [last, error_behind] = std::from_chars(slash + 1, end, count);
    is_right = error_behind == std::errc() && last == end && number >= 1 && number <= count;
  }
  if (!is_right) {
    Fail(ErrorCode::kInvalidArgument,
         "'{}' is no shard, expected K/N with K from 1 to N, such as 2/8", text);
  }
  return {number - 1, count};
}

void Source::Select(const Shard& shard) {
  if (shard.count > 1) {
    Fail(ErrorCode::kInvalidArgument, "only samples in files can be divided into shards");
  }
  Rewind();
}

SampleSpec SampleSpec::First(size_t most) const {
  SampleSpec samples = *this;
  samples.limit = limit > 0 ? std::min(limit, most) : most;
  return samples;
}

bool SampleSpec::SharesFilesWith(const SampleSpec& other) const {
  const auto key = [](const SampleSpec& spec) {
    return std::tie(spec.folder, spec.labels_csv, spec.image, spec.tokens, spec.num_tokens,
                    spec.prefix, spec.suffix, spec.limit, spec.whole_items);
  };
  return !opener && !other.opener && key(*this) == key(other);
}

SourceOptions ToSourceOptions(const SampleSpec& samples, const graph::Model& model) {
  SourceOptions source;
  source.input_names = model.InputNames();
  for (const std::string& name : source.input_names) {
    source.input_types.push_back(model.InfoOf(name).type);
  }
  if (!samples.tokens.empty()) {
    source.tokens = {.file = samples.tokens,
                     .length = samples.num_tokens,
                     .prefix = samples.prefix,
                     .suffix = samples.suffix,
                     .inputs = TokenInputs(model)};
  }
  source.folder = samples.folder;
  source.opener = samples.opener;
  source.labels_csv = samples.labels_csv;
  if (!samples.image.empty()) source.image = ParseImageSpec(samples.image);
  source.limit = samples.limit;
  source.shard = samples.shard;
  source.part_of = samples.part_of;
  source.kept = samples.kept;
  source.use_whole_items = samples.whole_items;
  return source;
}

}  // namespace bitpress::data
