// The scales of key-value caches as a file of ONNX Runtime GenAI: its model builder takes it as
// `kv_cache_scale_file`, and calibration of other tools writes it.
//
//   {"qmax": 128.0, "layer_ids": [0, 1], "scales": {"k_scales": [[...], [...]], "v_scales": ...}}
//
// Each layer has one scale, or those of [heads, channels].
#pragma once

#include <filesystem>

#include "plan/quant_plan.h"

namespace bitpress::tasks {

// Gives the plan's caches the scales of a file. A file for codes of other widths is converted by
// its `qmax`. Throws Error(kIo), or Error(kInvalidArgument) naming what does not fit: the file is
// of another form, the plan has no caches of integers, or other ones.
void ReadCacheScales(const std::filesystem::path& path, plan::QuantPlan& plan);

// Throws Error(kInvalidArgument) if the plan has no caches of integers.
void CheckHasCacheScales(const plan::QuantPlan& plan);

// Writes the scales of a resolved plan. Throws Error(kIo), or Error(kInvalidArgument) if the plan
// has no caches with scales.
void WriteCacheScales(const std::filesystem::path& path, const plan::QuantPlan& plan);

}  // namespace bitpress::tasks
