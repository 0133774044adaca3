#include <algorithm>

#include "data/source.h"

namespace bitpress::data {

SampleSpec SampleSpec::First(size_t most) const {
  SampleSpec samples = *this;
  samples.limit = limit > 0 ? std::min(limit, most) : most;
  return samples;
}

SourceOptions ToSourceOptions(const SampleSpec& samples) {
  SourceOptions source;
  source.folder = samples.folder;
  source.opener = samples.opener;
  source.labels_csv = samples.labels_csv;
  if (!samples.image.empty()) source.image = ParseImageSpec(samples.image);
  source.limit = samples.limit;
  return source;
}

}  // namespace bitpress::data
