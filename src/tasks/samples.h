// Functions that open the samples of a data::SampleSpec for a model. Every task that reads samples
// uses them.
#pragma once

#include <cstddef>
#include <memory>

#include "data/source.h"
#include "graph/model.h"

namespace bitpress::tasks {

// Returns the options that open the samples for the inputs of `model`. Throws
// Error(kInvalidArgument).
data::SourceOptions SourceFor(const graph::Model& model, const data::SampleSpec& samples,
                              size_t num_threads = 0);

// Opens the samples for the inputs of `model`. Throws Error as data::OpenSource.
std::unique_ptr<data::Source> OpenSamples(const graph::Model& model,
                                          const data::SampleSpec& samples, size_t num_threads);

}  // namespace bitpress::tasks
