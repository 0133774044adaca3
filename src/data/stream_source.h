// The source of samples that the caller has in memory or makes on the way, such as a reader in
// Python. Each item holds as many samples as its first dimension says, like an array file
// (source.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "data/source.h"

namespace bitpress::data {

// The caller's samples.
class SampleStream {
 public:
  struct Item {
    std::vector<Tensor> inputs;   // one tensor for each of SourceOptions::input_names
    std::vector<int64_t> labels;  // class of each sample, or nothing
    std::string why_not = {};     // why the item is none that the model takes; empty: it is one
  };

  virtual ~SampleStream() = default;
  // Returns the next item; nothing at the end. The source does not call it again then before
  // Rewind: a stream may fail, or begin anew by itself.
  virtual std::optional<Item> Next() = 0;
  // Begins from the first item. The source calls it before the first Next, and whenever it needs
  // the samples from their start again.
  virtual void Rewind() = 0;
  // Returns the number of all samples; 0 if it is not known.
  virtual size_t num_samples() const = 0;
  virtual bool has_labels() const = 0;
  // Returns the number of the first item, for names: a stream may be a part of a longer one.
  virtual size_t first_item() const { return 0; }
};

// Makes a source that splits and joins items to the wanted batch size. Samples are called by their
// item, "sample 0", "sample 1", ...; the rows of an item of several "sample 0[0]", "sample 0[1]",
// ... Only the options `limit`, `input_names`, `input_types`, `use_whole_items` and
// `keeps_failures` count.
std::unique_ptr<Source> MakeStreamSource(std::unique_ptr<SampleStream> stream,
                                         const SourceOptions& options);

}  // namespace bitpress::data
