// Fine-tuning in parts, for many processes: each gathers the moments of some of the samples to a
// file, and each learns some of the layers from the sum of these files to a journal. Finetune goes
// on from the sum of the journals, and gives the same bytes as one process.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "base/thread_pool.h"
#include "data/source.h"
#include "finetune/finetune.h"
#include "finetune/moments_file.h"
#include "graph/model.h"
#include "plan/resolved_plan.h"

namespace bitpress::finetune {

struct GatheredReport {
  MomentsOrigin origin;
  size_t num_layers = 0;
  uint64_t num_bytes = 0;  // of the file
};

// Writes the sums of all layers over the samples of `source`, which may be a part of those of the
// work. Throws Error(kUnsupported) for recipes whose later passes need what earlier ones made of
// the network (awq, several groups), and the errors of GatherMoments.
GatheredReport GatherToFile(const graph::Model& model, const plan::ResolvedPlan& resolved,
                            data::Source& source, const FinetuneOptions& options,
                            const std::string& model_name, const std::filesystem::path& path,
                            ThreadPool& pool);

// Learns some of the layers, counted in graph order, from a file with the moments of all samples.
// The results are in the journal `options.journal` only, and are those of Finetune. Layers that it
// has already are not learned again. Throws Error(kInvalidArgument) if the moments are of another
// model or plan, or not of all samples, and Error(kUnsupported) as GatherToFile.
FinetuneReport LearnFromFile(const graph::Model& model, const plan::ResolvedPlan& resolved,
                             const std::filesystem::path& moments, const data::Shard& layers,
                             const FinetuneOptions& options, ThreadPool& pool);

}  // namespace bitpress::finetune
