// Arguments that several functions of the Python module take.
#pragma once

#include <fmt/format.h>
#include <nanobind/nanobind.h>

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "data/source.h"
#include "rewrite/prepare.h"
#include "samples.h"
#include "work.h"

namespace bitpress::python {

// The source of samples: a folder, token ids, or an object of bitpress._samples.Samples.
struct SampleArguments {
  std::filesystem::path folder;
  std::filesystem::path labels_csv;
  std::string image;
  std::filesystem::path tokens;
  size_t num_tokens = 0;
  std::vector<int64_t> prefix, suffix;
  nb::object stream;
  size_t num_samples = 0;
  std::string shard;  // "2/8"; empty: all samples
  // The samples of the stream are a part: those before them, and all (0: not known).
  std::optional<std::pair<size_t, size_t>> part_of;
  bool whole_items = false;

  data::SampleSpec Spec(Work& work) const {
    return {.folder = folder,
            .labels_csv = labels_csv,
            .image = image,
            .tokens = tokens,
            .num_tokens = num_tokens,
            .prefix = prefix,
            .suffix = suffix,
            .opener = OpenerOf(stream, work),
            .limit = num_samples,
            .shard = shard.empty() ? data::Shard() : data::ParseShard(shard),
            .part_of = part_of ? std::optional(data::SamplePlace{part_of->first, part_of->second})
                               : std::nullopt,
            .whole_items = whole_items};
  }
};

inline rewrite::Preparation PreparationFor(bool as_is) {
  return as_is ? rewrite::Preparation::kAsIs : rewrite::Preparation::kOptimize;
}

}  // namespace bitpress::python
