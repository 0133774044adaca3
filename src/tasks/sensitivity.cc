#include "tasks/sensitivity.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/thread_pool.h"
#include "tasks/json_file.h"

namespace bitpress::tasks {

using Json = nlohmann::ordered_json;

SensitivityReport MeasureSensitivity(const SensitivityOptions& options) {
  JsonFile file(options.output);  // before any work
  SensitivityReport report;
  WithContext(fmt::format("'{}'", options.model.string()), [&] {
    const SearchSpace space(options);
    ThreadPool pool(options.num_threads);
    report.space = space.space();
    report.sensitivity = space.Measure(JournalBeside(options.output, options),
                                       KeyOf(space, options), options.measures_time, pool);
  });
  report.rank_correlation = search::RankCorrelation(report.sensitivity);
  file.Write(ToJson(report));
  RemoveJournal(JournalBeside(options.output, options));
  return report;
}

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
