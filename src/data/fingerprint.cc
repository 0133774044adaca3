// The number for the content of samples (Source::Fingerprint).
#include <optional>

#include "base/content_hash.h"
#include "data/source.h"

namespace bitpress::data {

uint64_t Source::Fingerprint() {
  constexpr size_t kBatchSize = 8;  // memory does not grow with the number of samples
  uint64_t sum = 0;
  size_t index = place().first;
  const auto add = [&](const Batch& sample) {
    ContentHash hash;
    hash.AddNumber(index++);
    for (const Tensor& input : sample.inputs) {
      hash.AddNumber(static_cast<uint64_t>(input.type));
      hash.AddNumber(input.dims.size());
      for (const int64_t dim : input.dims) hash.AddNumber(static_cast<uint64_t>(dim));
      hash.Add(input.bytes);
    }
    hash.AddNumber(sample.labels.size());
    for (const int64_t label : sample.labels) hash.AddNumber(static_cast<uint64_t>(label));
    sum += hash.value();
  };
  Rewind();
  while (const std::optional<Batch> batch = Next(kBatchSize)) {
    if (batch->num_samples == 1 || !batch->HasRows()) {
      add(*batch);
      continue;
    }
    for (size_t row = 0; row < batch->num_samples; ++row) add(batch->Rows(row, 1));
  }
  Rewind();
  return sum;
}

}  // namespace bitpress::data
