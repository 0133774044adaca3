// The task `plan`: a configuration and a model give a plan, which may be edited by hand before
// Quantize. Also reads the files of both.
#pragma once

#include <filesystem>

#include "graph/pass.h"
#include "plan/quant_config.h"
#include "plan/quant_plan.h"
#include "rewrite/prepare.h"

namespace bitpress::tasks {

// Reads a configuration, see plan::ConfigFromJson; without a name it gets the file's. Throws Error
// naming the file.
plan::QuantConfig ReadConfig(const std::filesystem::path& path);

// Returns the plan that `bitpress plan` writes. Throws Error.
plan::QuantPlan MakePlan(const std::filesystem::path& model, const plan::QuantConfig& config,
                         rewrite::Preparation preparation = rewrite::Preparation::kOptimize,
                         const graph::PassNames& disabled_passes = {});

// Reads a plan file. Throws Error naming the file.
plan::QuantPlan ReadPlan(const std::filesystem::path& path);

}  // namespace bitpress::tasks
