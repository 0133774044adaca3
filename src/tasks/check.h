// The task `check`: whether ONNX Runtime on this machine loads and runs a model, and what of it
// computes on integers.
#pragma once

#include <filesystem>
#include <string>

#include "data/source.h"
#include "deploy/check_target.h"

namespace bitpress::tasks {

struct CheckOptions {
  std::filesystem::path model;
  // The first sample is run; none given: one that is made up, whose dimensions may not suit.
  data::SampleSpec samples;
};

// What ONNX Runtime on this machine makes of a model. Throws Error if the file is no model or there
// is no sample; what is wrong with running it is in the report.
deploy::TargetReport CheckTarget(const CheckOptions& options);

}  // namespace bitpress::tasks
