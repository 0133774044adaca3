// The task `check`: tells whether ONNX Runtime on this machine loads and runs a model, and which of
// its operators compute on integers. Use it before a model is deployed.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/tensor.h"
#include "bitpress/quantize_options.h"
#include "data/source.h"
#include "deploy/check_target.h"
#include "graph/model.h"

namespace bitpress::tasks {

struct CheckOptions {
  std::filesystem::path model;
  // The target whose rules the report has, whoever quantized the model.
  Target target = {};
  // The samples, of which the first is run. Not given: a made-up sample, whose dimensions may not
  // suit.
  data::SampleSpec samples;
};

// Reports how ONNX Runtime on this machine loads and runs a model, in a process of its own. Errors
// in running it are in the report, a crash of ONNX Runtime too. Throws Error if the file is no
// model, if there is no sample, or if it could not be checked, and as plan::ProfileOf.
deploy::TargetReport CheckTarget(const CheckOptions& options);

// Returns the first samples for a model, or less if there are less, each a batch if the model has a
// fixed one: as many as `count` says of the first one, 1 to `most`. Empty if no samples are given
// or the model has no inputs. Throws Error.
std::vector<std::vector<Tensor>> FirstSamples(
    const graph::Model& model, const data::SampleSpec& samples, size_t most,
    const std::function<size_t(const std::vector<Tensor>& first)>& count);

// Returns a sample of a few tokens for a language model; nothing for other models.
std::vector<std::vector<Tensor>> MadeUpTokens(const graph::Model& model);

}  // namespace bitpress::tasks
