// The runs of samples through a model: one sample at a time, whatever number is read at once. ONNX
// Runtime computes some operators otherwise for batches of one and of several, and results would
// depend on the batch. Only a model with a fixed first dimension runs so many at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/tensor.h"
#include "bitpress/progress.h"
#include "data/source.h"
#include "runtime/session.h"

namespace bitpress::calibrate {

// Returns the samples of each run of a model that fixes them (ops/batch.h); 0 if they are free.
size_t FixedRows(std::span<const runtime::ValueDescription> inputs);

struct SampleCounts {
  uint64_t num_samples = 0;   // samples that ran
  uint64_t num_left_out = 0;  // samples that did not fill a batch of a fixed size
};

// The fate of samples that fail. Without `failed`, an Error of a run leaves RunSamples.
struct FailureRules {
  std::function<void(data::FailedSample)> unread = {};  // takes what the source could not read
  std::function<void(data::FailedSample)> failed = {};  // takes what did not run
  // Forgets what the runs since the last `keep` gave: one of them failed, and the others run again.
  // Empty: what they gave stays.
  std::function<void()> discard = {};
  std::function<void()> keep = {};  // is called now and then, and at the end
};

// Reads all samples of `source` from its start, about `at_once` together, and calls `run` with the
// inputs of one run and the number of samples in it. Progress counts samples of `stage`. An Error
// of `run` gets the sample's name in front. Errors of temporary files are none of a sample.
SampleCounts RunSamples(
    data::Source& source, std::span<const runtime::ValueDescription> inputs, size_t at_once,
    const std::function<void(const std::vector<Tensor>& inputs, size_t num_samples)>& run,
    std::string_view stage, const ProgressSink& progress, const FailureRules& rules = {});

}  // namespace bitpress::calibrate
