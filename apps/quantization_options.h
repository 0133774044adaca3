// The options of `quantize` that say what becomes of the model, which commands that do a part of
// its work share.
#pragma once

#include <string>
#include <vector>

#include "cli.h"
#include "config_options.h"
#include "sample_options.h"
#include "tasks/quantize.h"

namespace bitpress::apps {

struct QuantizationArguments {
  tasks::QuantizeOptions request;
  ConfigOptions config;
  SampleArguments samples;

  // Completes the request. Options that change nothing are named in `notices`. Throws Error, and
  // CLI::Error if options do not fit together.
  void Complete(std::vector<std::string>& notices);

 private:
  void CheckPlanAgrees() const;
};

// Adds them to a command. `arguments` must outlive it. `output` describes -o.
void AddQuantizationOptions(CLI::App& command, QuantizationArguments& arguments,
                            const std::string& output);
// Adds those of the written model.
void AddWritingOptions(CLI::App& command, QuantizationArguments& arguments);

}  // namespace bitpress::apps
