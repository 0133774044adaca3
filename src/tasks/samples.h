// Where samples come from, the same for everything that reads them. Only for the files of the
// corridor: its option structures have the members data, labels_csv, image and open_source.
#pragma once

#include "data/source.h"
#include "graph/model.h"
#include "ops/time_axis.h"

namespace bitpress::tasks {

template <typename Options>
bool HasSamples(const Options& options) {
  return !options.data.empty() || options.open_source;
}

// All samples of `options`, for the inputs of `model`.
template <typename Options>
data::SourceOptions SourceOf(const graph::Model& model, const Options& options) {
  data::SourceOptions source;
  source.folder = options.data;
  source.opener = options.open_source;
  source.labels_csv = options.labels_csv;
  if (!options.image.empty()) source.image = data::ParseImageSpec(options.image);
  source.input_names = model.InputNames();
  source.use_whole_items = ops::HasTimeFirst(model);
  source.read_ahead = true;
  return source;
}

// Lets `to` do its part of what `from` asks: with the same samples, as many of them, on as many
// threads, with the same progress and, if it prepares a model, the same preparation.
template <typename From, typename To>
void CopyRun(const From& from, To& to) {
  to.data = from.data;
  to.labels_csv = from.labels_csv;
  to.image = from.image;
  to.open_source = from.open_source;
  to.num_samples = from.num_samples;
  to.num_threads = from.num_threads;
  to.progress = from.progress;
  if constexpr (requires { to.preparation; }) to.preparation = from.preparation;
}

}  // namespace bitpress::tasks
