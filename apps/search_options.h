// The options that `sensitivity` and `search` share.
#pragma once

#include <string>
#include <vector>

#include "cli.h"
#include "config_options.h"
#include "sample_options.h"
#include "tasks/search.h"

namespace bitpress::apps {

// The values of these options.
struct SpaceArguments {
  std::string model;
  SampleArguments samples;
  ConfigOptions base;
  std::vector<std::string> variants;
  int output_index = -1;  // -1: all outputs

  // Copies the values to `options`, which must not be used after this object is gone. Throws
  // Error(kInvalidArgument).
  void Resolve(tasks::SpaceOptions& options);
};

// Adds MODEL, the options for candidates, --method, the base configuration and the options for
// samples. `arguments` and `options` must outlive the subcommand.
void AddSpaceOptions(CLI::App& command, SpaceArguments& arguments, tasks::SpaceOptions& options);

}  // namespace bitpress::apps
