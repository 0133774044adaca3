// The options that `sensitivity` and `search` share.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "config_options.h"
#include "tasks/search.h"

namespace bitpress::apps {

struct SpaceArguments {
  std::string model;
  SampleArguments samples;
  ConfigOptions base;

  // Fills in what these say. This must outlive the use of `options`. Throws
  // Error(kInvalidArgument).
  void Resolve(tasks::SpaceOptions& options) const;
};

// Adds MODEL, --candidates and its kin, --method, the base configuration, and where samples come
// from; `arguments` and `options` must outlive the subcommand.
void AddSpaceOptions(CLI::App& command, SpaceArguments& arguments, tasks::SpaceOptions& options);

}  // namespace bitpress::apps
