// The tasks `moments` and `tune`: fine-tuning in parts, for many processes. Each gathers the
// moments of some of the samples, and each learns some of the layers from their sum. Quantize goes
// on from the sum of the journals.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <tuple>

#include "base/fields.h"
#include "data/source.h"
#include "finetune/in_parts.h"
#include "tasks/quantize.h"

namespace bitpress::tasks {

// Gathers the moments that the configuration learns from and writes them to `options.output`, a
// .bpm file. Of `options.samples`, only the shard or part counts; scales follow from
// `options.calibration` or from the samples of all shards. Throws Error(kInvalidArgument) if the
// configuration learns nothing, and the errors of finetune::GatherToFile.
finetune::GatheredReport GatherMoments(const QuantizeOptions& options);

struct TuneReport {
  size_t num_layers = 0;
  size_t num_tuned = 0;
  size_t num_resumed = 0;
};
constexpr auto FieldsOf(const TuneReport*) {
  return std::tuple(
      Field{"num_layers", &TuneReport::num_layers, "Layers of this part."},
      Field{"num_tuned", &TuneReport::num_tuned, "Layers that have learned weights."},
      Field{"num_resumed", &TuneReport::num_resumed, "Layers that the journal had already."});
}

// Learns some of the layers from a file with the moments of all samples and writes them to the
// journal `options.output`. A run that was stopped goes on from it. The journals of all parts,
// merged to `<model>.journal`, are what Quantize with that output goes on from. Throws Error.
TuneReport TuneLayers(const QuantizeOptions& options, const std::filesystem::path& moments,
                      const data::Shard& layers);

// The contents of a file of moments.
struct MomentsSummary {
  finetune::MomentsOrigin origin;
  std::vector<finetune::MomentsEntry> entries;
  uint64_t num_bytes = 0;
};
MomentsSummary ReadMoments(const std::filesystem::path& path);
bool IsMoments(const std::filesystem::path& path);
// Adds up files of moments, and writes the sum. See finetune::MergeMoments.
MomentsSummary MergeMoments(std::span<const std::filesystem::path> paths,
                            const std::filesystem::path& output);
// This is what `moments --json`, `inspect --json` and `merge --json` write.
nlohmann::ordered_json ToJson(const MomentsSummary& summary);

// Returns whether a file starts like a journal of learned layers. MergeLearned writes the journal
// of all, and returns the number of layers in it. See finetune::MergeLearningJournals.
bool IsLearned(const std::filesystem::path& path);
size_t MergeLearned(std::span<const std::filesystem::path> paths,
                    const std::filesystem::path& output);

}  // namespace bitpress::tasks
