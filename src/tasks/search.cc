#include "tasks/search.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/fields_json.h"
#include "base/paths.h"
#include "base/scratch_folder.h"
#include "base/thread_pool.h"
#include "base/version.h"
#include "graph/stored_bytes.h"
#include "search/front_svg.h"
#include "search/journal.h"
#include "search/json_numbers.h"
#include "tasks/json_file.h"

namespace bitpress::tasks {
namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

constexpr int64_t kSearchVersion = 1;  // version of the file format (docs/versions.md)

// Measures whole models, remembers them, and keeps what was measured in a journal.
class Choices {
 public:
  Choices(const SearchSpace& space, const SearchOptions& options, const SearchReport& report,
          const Trials& trials, const std::string& key, ThreadPool& pool)
      : space_(space),
        options_(options),
        report_(report),
        trials_(trials),
        pool_(pool),
        // Nothing tells whether a metric is the same one in another run.
        journal_(trials.reference_metric() ? fs::path()
                                           : JournalBeside(options.output, options, ".trials"),
                 key) {}

  search::Measurement Measure(const search::Choice& choice) {
    return Measure(fmt::format("{}", fmt::join(choice, ",")),
                   space_.PlanOf(report_.groups, report_.sensitivity, choice));
  }

  // Returns the noise of all that no choice is about, as search::PartLoss::noise.
  double MeasureRest() {
    plan::QuantPlan plan = space_.PlanOfRest(report_.sensitivity);
    const bool quantizes = std::ranges::any_of(plan.tensors, &plan::TensorPlan::is_quantized) ||
                           std::ranges::any_of(plan.caches, &plan::CachePlan::is_quantized);
    if (!quantizes) return 0;
    const search::Measurement rest = Measure("rest", std::move(plan));
    if (report_.sensitivity.is_divergence()) return rest.divergence.value_or(0);
    return std::pow(10, -rest.sqnr_db / 10);
  }

 private:
  search::Measurement Measure(const std::string& name, plan::QuantPlan plan) {
    if (options_.progress) options_.progress("measure models", num_measured_++, 0);
    if (auto known = journal_.Find(name, FieldsFromJson<search::Measurement>)) return *known;
    const search::Measurement measurement =
        space_.MeasurePlan(std::move(plan), options_.batch_size, trials_, pool_);
    journal_.Add(name, FieldsToJson(measurement, NonFinite::kText));
    return measurement;
  }

  const SearchSpace& space_;
  const SearchOptions& options_;
  const SearchReport& report_;
  const Trials& trials_;
  ThreadPool& pool_;
  search::MeasurementJournal journal_;
  size_t num_measured_ = 0;
};

TrialOptions TrialsOf(const SearchOptions& options) {
  TrialOptions trials;
  static_cast<RunOptions&>(trials) = options;
  trials.model = options.model;
  trials.preparation = options.preparation;
  trials.validation = options;
  trials.batch_size = options.batch_size;
  trials.output_index = options.output_index;
  trials.metric = options.metric;
  return trials;
}

// Measures the plan in the form that a user will apply, so that the figures are the same.
search::Measurement MeasureFinal(const Trials& trials, const plan::QuantPlan& plan) {
  const ScratchFolder folder;
  const fs::path model = folder.path() / "final.onnx";
  trials.Quantize(model, plan);
  return ToMeasurement(trials.Evaluate(model), trials, model);
}

std::string PictureOf(const SearchReport& report) {
  std::vector<search::PlotPoint> points;
  const bool is_divergence = report.sensitivity.is_divergence();
  for (const search::SearchPoint& point : report.result.points) {
    std::optional<double> measured_db;
    if (point.measured && is_divergence && point.measured->divergence) {
      measured_db = evaluate::SqnrDb(*point.measured->divergence);
    } else if (point.measured && !is_divergence) {
      measured_db = point.measured->sqnr_db;
    }
    points.push_back({point.cost, evaluate::SqnrDb(point.noise), measured_db});
  }
  return search::FrontToSvg(
      points, report.result.chosen, std::string(search::CostLabel(report.cost)),
      is_divergence ? "divergence of the tokens (dB below 1 nat)" : "SQNR of the outputs (dB)");
}

search::CostKind CostOf(const SearchOptions& options) {
  const auto& budget = options.goals.budget;
  if (budget && options.cost && *options.cost != budget->kind) {
    Fail(ErrorCode::kInvalidArgument,
         "the budget is {}, the cost {}: costs are counted in the budget's unit",
         search::CostName(budget->kind), search::CostName(*options.cost));
  }
  return budget ? budget->kind : options.cost.value_or(search::CostKind::kBits);
}

// Ends a search that cannot keep its budget before anything is measured. Costs of other kinds
// follow from measurements.
void CheckBudget(const SearchSpace& space, const SearchOptions& options, search::CostKind cost,
                 const std::vector<std::map<std::string, uint64_t>>& stored) {
  const bool is_known = cost == search::CostKind::kBits || cost == search::CostKind::kBytes;
  if (!options.goals.budget || !is_known) return;
  const search::Sensitivity layers = search::Unmeasured(space.layers());
  const search::CostModel costs(cost, space.model(), space.space(), layers,
                                search::GroupLayers(space.model(), layers, options.bindings),
                                stored, graph::StoredBytes(options.model));
  search::CheckBudget(costs, space.space(), *options.goals.budget);
}

void RunSearch(const SearchOptions& options, SearchReport& report) {
  const Trials trials(TrialsOf(options));
  const SearchSpace space(options);
  ThreadPool pool(options.num_threads);
  report.space = space.space();
  const bool measures_time = report.cost == search::CostKind::kTime;
  std::vector<std::map<std::string, uint64_t>> stored;
  for (const plan::ResolvedPlan& part : space.parts()) {
    stored.push_back(search::StoredWeightBytes(space.model(), part, pool));
  }
  CheckBudget(space, options, report.cost, stored);
  const std::string key = KeyOf(space, options);
  report.sensitivity =
      space.Measure(JournalBeside(options.output, options), key, measures_time, pool);
  report.groups = search::GroupLayers(space.model(), report.sensitivity, options.bindings);
  search::CostModel costs(report.cost, space.model(), report.space, report.sensitivity,
                          report.groups, std::move(stored), graph::StoredBytes(options.model));
  // A choice has a number for each group.
  const std::string trials_key = key + " bound " + search::BindingsText(options.bindings);
  Choices choices(space, options, report, trials, trials_key, pool);
  report.rest_noise = choices.MeasureRest();
  costs.set_fixed_noise(report.rest_noise);
  report.result = search::Search(costs, report.space, options.goals,
                                 [&](const auto& choice) { return choices.Measure(choice); });
  const search::Choice& choice = report.result.points[report.result.chosen].choice;
  report.plan = space.PlanOf(report.groups, report.sensitivity, choice);
  constexpr size_t kNumWorst = 5;
  report.worst = search::WorstGroups(costs, report.space, choice, kNumWorst);
  report.final_measurement = MeasureFinal(trials, report.plan);
}

}  // namespace

std::string SearchReport::Describe(const search::Choice& choice, size_t group) const {
  std::string text;
  for (const size_t index : space.combinations[choice[group]]) {
    const search::Part& part = space.parts[index];
    if (!text.empty()) text += ", ";
    if (part.side != search::Side::kBoth) text += fmt::format("{} ", search::SideName(part.side));
    text += part.candidate.name;
  }
  return text;
}

SearchReport Search(const SearchOptions& options) {
  // Before any work.
  AtomicFile plan_file(options.output);
  JsonFile report_file(options.report);
  std::optional<AtomicFile> picture_file;
  if (!options.picture.empty()) picture_file.emplace(options.picture);
  SearchReport report;
  report.goals = options.goals;
  report.cost = CostOf(options);
  report.bindings = options.bindings;
  WithContext(fmt::format("'{}'", PathText(options.model)), [&] { RunSearch(options, report); });
  plan_file.Write(plan::ToJson(report.plan));
  plan_file.Commit();
  report_file.Write(ToJson(report));
  if (picture_file) {
    picture_file->Write(PictureOf(report));
    picture_file->Commit();
  }
  RemoveJournal(JournalBeside(options.output, options));
  RemoveJournal(JournalBeside(options.output, options, ".trials"));
  return report;
}

Json ToJson(const SearchReport& report) {
  const bool is_divergence = report.sensitivity.is_divergence();
  const auto loss_to_json = [&](double noise) {
    return is_divergence ? search::ToJson(noise) : search::DecibelsToJson(evaluate::SqnrDb(noise));
  };
  const char* const predicted = is_divergence ? "predicted_divergence" : "predicted_sqnr_db";
  Json points = Json::array();
  for (const search::SearchPoint& point : report.result.points) {
    Json layers = Json::object();
    for (size_t group = 0; group < report.groups.size(); ++group) {
      for (const size_t layer : report.groups[group].layers) {
        layers[report.sensitivity.layers[layer].node] = report.Describe(point.choice, group);
      }
    }
    points.push_back(
        {{"cost", point.cost},
         {predicted, loss_to_json(point.noise)},
         {"measured", FieldJson<std::optional<search::Measurement>>::To(point.measured, {})},
         {"layers", std::move(layers)}});
  }
  Json worst = Json::array();
  for (const auto& [group, noise] : report.worst) {
    worst.push_back({{"node", report.sensitivity.layers[report.groups[group].layers[0]].node},
                     {is_divergence ? "divergence" : "sqnr_db", loss_to_json(noise)}});
  }
  const auto& [target, budget, strategy, num_measured] = report.goals;
  return {{"bitpress_search", kSearchVersion},
          {"strategy", search::StrategyName(strategy)},
          {"target", target ? Json(target->Text()) : Json()},
          {"budget", budget ? Json(budget->Text()) : Json()},
          {"cost", search::CostName(report.cost)},
          {"bind", search::BindingsText(report.bindings)},
          {"is_reached", report.result.is_reached},
          {"why_not", report.result.why_not},
          {"is_exact", report.result.is_exact},
          {"num_measured", report.result.num_measured},
          {is_divergence ? "rest_divergence" : "rest_sqnr_db", loss_to_json(report.rest_noise)},
          {"chosen", report.result.chosen},
          {"final", FieldsToJson(report.final_measurement)},
          {"worst", std::move(worst)},
          {"front", std::move(points)}};
}

Json ReadSearchReport(const std::filesystem::path& path) {
  const std::string text = ReadFile(path);
  Json json = Json::parse(text, nullptr, false);
  if (!json.is_object() || !json["bitpress_search"].is_number_integer()) {
    Fail(ErrorCode::kInvalidArgument,
         "'{}' is no result of a search; write one with `bitpress search --json FILE`",
         PathText(path));
  }
  return WithContext(fmt::format("'{}'", PathText(path)), [&] {
    CheckFormatVersion("result of a search", json["bitpress_search"], kSearchVersion);
    try {
      const search::CostKind cost = search::ParseCostKind(json.at("cost").get<std::string>());
      json["cost_label"] = search::CostLabel(cost);
      if (!json.at("front").is_array()) Fail(ErrorCode::kInvalidArgument, "'front' is no list");
      for (Json& point : json["front"]) {
        point.at("cost").get<double>();
        if (!point.contains("predicted_divergence")) point.at("predicted_sqnr_db");
        point.at("measured");
        point.erase("layers");
      }
      if (json.at("chosen").get<size_t>() >= json["front"].size()) {
        Fail(ErrorCode::kInvalidArgument, "'chosen' is no point of the front");
      }
      for (const char* const key : {"strategy", "target", "budget", "is_reached", "why_not"}) {
        json.at(key);
      }
    } catch (const Json::exception& error) {
      Fail(ErrorCode::kInvalidArgument, "it is damaged: {}", error.what());
    }
    return json;
  });
}

}  // namespace bitpress::tasks
