#include <algorithm>

#include "data/source.h"

namespace bitpress::data {

SampleSpec SampleSpec::First(size_t most) const {
  SampleSpec samples = *this;
  samples.limit = limit > 0 ? std::min(limit, most) : most;
  return samples;
}

SourceOptions ToSourceOptions(const SampleSpec& samples, const graph::Model& model) {
  SourceOptions source;
  source.input_names = model.InputNames();
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
  return source;
}

}  // namespace bitpress::data
