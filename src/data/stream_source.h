// Samples that the caller has in memory or makes on the way: each item holds as many samples as its
// first dimension says, like an array file (source.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "data/source.h"

namespace bitpress::data {

class SampleStream {
 public:
  struct Item {
    std::vector<Tensor> inputs;   // one for each of SourceOptions::input_names
    std::vector<int64_t> labels;  // the class of each sample, or nothing
  };

  virtual ~SampleStream() = default;
  // The next item; nothing at the end.
  virtual std::optional<Item> Next() = 0;
  // Called before the first Next, and whenever the samples are wanted from their start again.
  virtual void Rewind() = 0;
  // Samples in all, 0 if that is not known.
  virtual size_t num_samples() const = 0;
  virtual bool has_labels() const = 0;
};

// Splits and joins items to the wanted batch size. Samples are called "sample 0", "sample 1", ...;
// messages name them so. Of the options only `limit`, `input_names` and `use_whole_items` count.
std::unique_ptr<Source> MakeStreamSource(std::unique_ptr<SampleStream> stream,
                                         const SourceOptions& options);

}  // namespace bitpress::data
