// The task `plan`: makes the plan of a configuration for a model. Use it to edit the plan by hand
// before Quantize. This header also reads configuration and plan files.
#pragma once

#include <filesystem>
#include <string>

#include "graph/pass.h"
#include "interop/decisions.h"
#include "plan/quant_config.h"
#include "plan/quant_plan.h"
#include "rewrite/prepare.h"

namespace bitpress::tasks {

// Reads a configuration file, see plan::ConfigFromJson. A configuration without a name gets the
// file's name. Throws Error naming the file.
plan::QuantConfig ReadConfig(const std::filesystem::path& path);

// Returns a preset or the configuration of a format, or reads a file if the name ends in ".json".
// Throws Error.
plan::QuantConfig ConfigNamed(const std::string& name);

// Returns the plan that `bitpress plan` writes: of the configuration as the target wants it. Throws
// Error.
plan::QuantPlan MakePlan(const std::filesystem::path& model, plan::QuantConfig config,
                         rewrite::Preparation preparation = rewrite::Preparation::kOptimize,
                         const graph::PassNames& disabled_passes = {},
                         const Target& target = Target::kAutomatic);

// Returns the same plan with the decisions of another tool's file or quantized model in place of
// the configuration's, see interop::Apply. Throws Error.
plan::QuantPlan MakePlanLike(const std::filesystem::path& file, const std::filesystem::path& model,
                             plan::QuantConfig config, interop::ImportReport& report,
                             rewrite::Preparation preparation = rewrite::Preparation::kOptimize,
                             const graph::PassNames& disabled_passes = {},
                             const Target& target = Target::kAutomatic);

// Reads a plan file. Throws Error naming the file.
plan::QuantPlan ReadPlan(const std::filesystem::path& path);

}  // namespace bitpress::tasks
