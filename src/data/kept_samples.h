// The first samples of a work, as many as fit 128 MB, kept in memory: its later steps take them
// from there instead of reading, decoding or asking a reader again. For example, samples that
// calibrate a model also check the written one:
//
//   SampleSpec samples = ...;
//   samples.kept = std::make_shared<KeptSamples>();
//   OpenSource(ToSourceOptions(samples, model));           // keeps what it reads
//   OpenSource(ToSourceOptions(samples.First(8), model));  // opens no file
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "data/source.h"

namespace bitpress::data {

// The samples that were read first, up to some bytes, so that memory does not grow with their
// number. Copies of a SampleSpec share them, owned by a std::shared_ptr. Used by one thread at a
// time.
class KeptSamples : public std::enable_shared_from_this<KeptSamples> {
 public:
  static constexpr size_t kMostBytes = size_t{128} << 20;
  explicit KeptSamples(size_t most_bytes = kMostBytes) : most_bytes_(most_bytes) {}

  // Returns a source of the samples that `options` want: from memory if all of them are kept, else
  // one that reads them by `open` and keeps the first ones. Samples that are read in another way
  // than those before are not kept, nor are parts and those that may fail.
  std::unique_ptr<Source> Open(const SourceOptions& options, const SourceOpener& open);

 private:
  class Recorder;
  class Player;

  // The options that decide what a sample is.
  struct Key {
    std::vector<std::string> input_names;
    std::vector<DataType> input_types;
    bool use_whole_items = false;
    bool operator==(const Key&) const = default;
  };

  // Keeps what follows the samples that are kept. `first` is the number of the batch's first one.
  void Keep(const Batch& batch, size_t first);

  size_t most_bytes_;
  Key key_;
  std::vector<Batch> samples_;  // each of one sample
  size_t num_bytes_ = 0;
  bool is_full_ = false;      // a sample did not fit: those behind it are not kept
  bool is_complete_ = false;  // there are no more
  bool has_labels_ = false;
};

}  // namespace bitpress::data
