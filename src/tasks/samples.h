// How tasks open the samples of a data::SampleSpec for a model.
#pragma once

#include <cstddef>
#include <memory>

#include "data/source.h"
#include "graph/model.h"

namespace bitpress::tasks {

// Returns what opens the samples for the inputs of `model`. Throws Error(kInvalidArgument).
data::SourceOptions SourceFor(const graph::Model& model, const data::SampleSpec& samples,
                              size_t num_threads = 0);

// Opens them. Throws Error as data::OpenSource.
std::unique_ptr<data::Source> OpenSamples(const graph::Model& model,
                                          const data::SampleSpec& samples, size_t num_threads);

}  // namespace bitpress::tasks
