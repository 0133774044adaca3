// The number for the content of samples (Source::Fingerprint).
#include <optional>

#include "base/content_hash.h"
#include "data/source.h"

namespace bitpress::data {

uint64_t Source::Fingerprint() {
  // Memory does not grow with the number of samples. The number of samples of each batch is hashed
  // too, because it says where the batch ends.
  constexpr size_t kBatchSize = 8;
  ContentHash hash;
  Rewind();
  while (const std::optional<Batch> batch = Next(kBatchSize)) {
    hash.AddNumber(batch->num_samples);
    for (const Tensor& input : batch->inputs) {
      hash.AddNumber(static_cast<uint64_t>(input.type));
      hash.AddNumber(input.dims.size());
      for (const int64_t dim : input.dims) hash.AddNumber(static_cast<uint64_t>(dim));
      hash.Add(input.bytes);
    }
    hash.AddNumber(batch->labels.size());
    for (const int64_t label : batch->labels) hash.AddNumber(static_cast<uint64_t>(label));
  }
  Rewind();
  return hash.value();
}

}  // namespace bitpress::data
