#include "tasks/sensitivity.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/paths.h"
#include "base/thread_pool.h"
#include "search/journal.h"
#include "tasks/json_file.h"

namespace bitpress::tasks {

using Json = nlohmann::ordered_json;

SensitivityReport MeasureSensitivity(const SensitivityOptions& options) {
  const bool is_part = options.layers.has_value();
  if (is_part && options.samples.opener) {
    Fail(ErrorCode::kInvalidArgument, "shards of the layers need samples in files");
  }
  JsonFile file(is_part ? std::filesystem::path() : options.output);  // before any work
  const std::filesystem::path journal =
      is_part ? options.output : JournalBeside(options.output, options);
  SensitivityReport report;
  WithContext(fmt::format("'{}'", PathText(options.model)), [&] {
    const SearchSpace space(options);
    ThreadPool pool(options.num_threads);
    report.space = space.space();
    report.sensitivity = space.Measure(journal, KeyOf(space, options), options.measures_time, pool,
                                       options.layers.value_or(data::Shard()));
  });
  report.rank_correlation = search::RankCorrelation(report.sensitivity);
  if (is_part) return report;
  file.Write(ToJson(report));
  RemoveJournal(journal);
  return report;
}

size_t MergeSensitivities(std::span<const std::filesystem::path> paths,
                          const std::filesystem::path& output) {
  return search::MergeJournals(paths, output);
}

bool IsSensitivityJournal(const std::filesystem::path& path) { return search::IsJournal(path); }

Json ToJson(const SensitivityReport& report) {
  Json parts = Json::array();
  for (const search::Part& part : report.space.parts) {
    parts.push_back({{"candidate", part.candidate.name}, {"side", search::SideName(part.side)}});
  }
  Json layers = Json::array();
  for (const search::LayerLoss& layer : report.sensitivity.layers) {
    layers.push_back(search::ToJson(layer));
  }
  Json left_out = Json::array();
  for (const auto& [node, reason] : report.sensitivity.left_out) {
    left_out.push_back({{"node", node}, {"reason", reason}});
  }
  return {{"bitpress_sensitivity", 1},
          {"num_samples", report.sensitivity.num_samples},
          {"rank_correlation", report.rank_correlation ? Json(*report.rank_correlation) : Json()},
          {"parts", std::move(parts)},
          {"layers", std::move(layers)},
          {"left_out", std::move(left_out)}};
}

}  // namespace bitpress::tasks
