// The task `check`: tells whether ONNX Runtime on this machine loads and runs a model, and which of
// its operators compute on integers. Use it before a model is deployed.
#pragma once

#include <filesystem>
#include <string>

#include "data/source.h"
#include "deploy/check_target.h"

namespace bitpress::tasks {

struct CheckOptions {
  std::filesystem::path model;
  // The samples, of which the first is run. Not given: a made-up sample, whose dimensions may not
  // suit.
  data::SampleSpec samples;
};

// Reports how ONNX Runtime on this machine loads and runs a model. Errors in running it are in the
// report. Throws Error if the file is no model or there is no sample.
deploy::TargetReport CheckTarget(const CheckOptions& options);

}  // namespace bitpress::tasks
