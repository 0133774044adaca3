#include "tasks/samples.h"

#include "ops/time_axis.h"

namespace bitpress::tasks {

data::SourceOptions SourceFor(const graph::Model& model, const data::SampleSpec& samples,
                              size_t num_threads) {
  data::SourceOptions source = data::ToSourceOptions(samples);
  source.input_names = model.InputNames();
  source.use_whole_items = ops::HasTimeFirst(model);
  source.read_ahead = true;
  source.num_threads = num_threads;
  return source;
}

std::unique_ptr<data::Source> OpenSamples(const graph::Model& model,
                                          const data::SampleSpec& samples, size_t num_threads) {
  return data::OpenSource(SourceFor(model, samples, num_threads));
}

}  // namespace bitpress::tasks
