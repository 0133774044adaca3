// bitpress search: chooses a format for each layer, for a target or within a budget.
#include <fmt/format.h>

#include <cmath>
#include <memory>
#include <string>

#include "base/paths.h"
#include "base/text.h"
#include "command.h"
#include "json_option.h"
#include "progress_bar.h"
#include "search/output_meter.h"
#include "search_options.h"
#include "tasks/search.h"
#include "word_option.h"

namespace bitpress::apps {
namespace {

struct SearchArguments {
  SpaceArguments arguments;
  std::string output, picture, target, budget, cost, bind;
  JsonOption json;
  tasks::SearchOptions request;
};

std::string CostText(search::CostKind kind, double cost) {
  return kind == search::CostKind::kBytes ? HumanBytes(static_cast<uint64_t>(cost))
                                          : fmt::format("{:.3g}", cost);
}

std::string MeasuredText(const search::Measurement& measurement) {
  std::string text = std::isinf(measurement.sqnr_db)
                         ? "identical outputs"
                         : fmt::format("SQNR {:.2f} dB", measurement.sqnr_db);
  if (measurement.agreement) {
    text += fmt::format(", agreement {:.1f} %", 100 * *measurement.agreement);
  }
  if (measurement.divergence) text += fmt::format(", divergence {:.4f}", *measurement.divergence);
  if (measurement.loss && measurement.loss_measure != "noise") {
    text += fmt::format(", loss {:.2f} % ({})", 100 * *measurement.loss, measurement.loss_measure);
  }
  if (measurement.top1) {
    text += fmt::format(", top-1 {:.1f} % (float {:.1f} %)", 100 * *measurement.top1,
                        100 * measurement.reference_top1.value_or(0));
  }
  return text;
}

// Counts the layers that get each combination of formats, in the order of the candidates.
std::string CountText(const tasks::SearchReport& report, const search::Choice& choice) {
  std::string text;
  for (size_t i = 0; i < report.space.combinations.size(); ++i) {
    size_t count = 0;
    size_t example = 0;
    for (size_t group = 0; group < choice.size(); ++group) {
      if (choice[group] != i) continue;
      count += report.groups[group].layers.size();
      example = group;
    }
    if (count > 0) {
      text += fmt::format("  {:>5} layers: {}\n", count, report.Describe(choice, example));
    }
  }
  return text;
}

std::string FrontText(const tasks::SearchReport& report) {
  std::string text =
      fmt::format("  {:>10}  {:>11}  measured\n", search::CostName(report.cost), "predicted");
  for (size_t i = 0; i < report.result.points.size(); ++i) {
    const search::SearchPoint& point = report.result.points[i];
    if (!point.measured) continue;
    text += fmt::format("{} {:>10}  {:>11}  {}\n", i == report.result.chosen ? '*' : ' ',
                        CostText(report.cost, point.cost),
                        search::LossText(point.noise, report.sensitivity.is_divergence()),
                        MeasuredText(*point.measured));
  }
  return text;
}

std::string Summarize(const SearchArguments& options, const tasks::SearchReport& report) {
  const search::SearchResult& result = report.result;
  const search::SearchPoint& chosen = result.points[result.chosen];
  std::string text =
      fmt::format("{}: {} = {}, {}\n", options.output, search::CostName(report.cost),
                  CostText(report.cost, chosen.cost), MeasuredText(report.final_measurement));
  text += fmt::format("  file: {}\n", HumanBytes(report.final_measurement.file_bytes));
  text += CountText(report, chosen.choice);
  if (report.sensitivity.num_resumed > 0) {
    text += fmt::format("  {} layers were in a journal\n", report.sensitivity.num_resumed);
  }
  if (report.rest_noise > 0) {
    text += fmt::format("  what no choice is about loses {}, which the predictions contain\n",
                        search::LossText(report.rest_noise, report.sensitivity.is_divergence()));
  }
  for (const auto& [node, reason] : report.sensitivity.left_out) {
    text += fmt::format("  not searched: '{}': {}\n", node, reason);
  }
  if (!result.is_reached) {
    text += fmt::format("  {}\n  the layers that hold it back, by what each loses alone:\n",
                        result.why_not);
    for (const auto& [group, noise] : report.worst) {
      text += fmt::format("    {:>9}  '{}' in {}\n",
                          search::LossText(noise, report.sensitivity.is_divergence()),
                          report.sensitivity.layers[report.groups[group].layers[0]].node,
                          report.Describe(chosen.choice, group));
    }
  }
  text += fmt::format("  {} points on the {}, {} models measured:\n", result.points.size(),
                      report.goals.strategy == search::Strategy::kGreedy ? "way" : "front",
                      result.num_measured);
  return text + FrontText(report);
}

void RunSearch(SearchArguments& options) {
  tasks::SearchOptions& request = options.request;
  options.arguments.Resolve(request);
  request.output = PathOf(options.output);
  request.report = options.json.file();
  request.picture = PathOf(options.picture);
  if (!options.target.empty()) request.goals.target = search::ParseTarget(options.target);
  if (!options.budget.empty()) request.goals.budget = search::ParseBudget(options.budget);
  if (!options.cost.empty()) request.cost = search::ParseCostKind(options.cost);
  if (!options.bind.empty()) request.bindings = search::ParseBindings(options.bind);
  tasks::SearchReport report;
  {
    ProgressBar bar;
    request.progress = bar.Sink();
    report = tasks::Search(request);
    request.progress = {};
  }
  options.json.Print(Summarize(options, report), [&] { return tasks::ToJson(report); });
}

}  // namespace

void AddSearchCommand(CLI::App& program) {
  CLI::App* const command = program.add_subcommand(
      "search", "Choose a format for each layer, to reach an accuracy or to stay within a budget.");
  const auto options = std::make_shared<SearchArguments>();
  AddSpaceOptions(*command, options->arguments, options->request);
  AddEvaluationTaskOption(*command, options->request.task);
  command->add_option("-o,--output", options->output, "the plan to write, for `quantize --plan`")
      ->required()
      ->type_name("FILE");
  command
      ->add_option("--target", options->target,
                   "reach this on the samples at the least cost: sqnr>=DB, cosine>=X, l2<=X, "
                   "agreement>=PERCENT, divergence<=NATS (of tokens), top1>=PERCENT, "
                   "top1_drop<=POINTS, loss<=PERCENT (by the measure that suits the outputs, as "
                   "auto has it) or task_loss<=PERCENT")
      ->type_name("TARGET");
  command
      ->add_option("--budget", options->budget,
                   "lose as little as possible within this cost: bits<=N (mean bits of a weight), "
                   "bytes<=NMB (size of the file), mac_bits<=N (mean bits of a weight times bits "
                   "of an activation) or time<=N (as a share of the float layers' time)")
      ->type_name("BUDGET");
  command
      ->add_option("--cost", options->cost,
                   "the cost to save if there is no --budget: bits (default), bytes, mac_bits or "
                   "time")
      ->type_name("COST");
  command
      ->add_option("--bind", options->bind,
                   "layers of a transformer that get one format: qkv, the queries, keys and values "
                   "of an attention; gate_up, both halves of an MLP; or qkv,gate_up (default: "
                   "none)")
      ->type_name("NAME[,NAME]");
  AddWordOption<search::Strategy>(
      *command, "--strategy", options->request.goals.strategy, search::kStrategyWords,
      "the way to search. optimal (default): go along the front of the best combinations; greedy: "
      "lower the least sensitive layers one by one until the target is missed");
  constexpr int kMostPoints = 256;
  command
      ->add_option("--measure", options->request.goals.num_measured,
                   "number of models along the front to measure even if the search does not need "
                   "them (default: 0)")
      ->check(CLI::Range(0, kMostPoints))
      ->type_name("N");
  options->json.Add(*command, "the front and the measurements");
  command->add_option("--svg", options->picture, "write a picture of the front to this SVG file")
      ->type_name("FILE");
  command->footer(
      "Examples:\n"
      "  bitpress search model.onnx --candidates mx9,mx6,mxfp4_e2m1 --data photos \\\n"
      "      --image \"resize=256,crop=224,mean=0.498,std=0.502\" --target \"agreement>=98\" \\\n"
      "      -o plan.json\n"
      "  bitpress search model.onnx --weight-candidates int8,int4 --activation-candidates uint8 "
      "\\\n"
      "      --data samples --budget \"bytes<=3MB\" -o plan.json --svg front.svg\n"
      "  bitpress quantize model.onnx --plan plan.json -o mixed.onnx\n");
  command->callback([options] { RunSearch(*options); });
}

}  // namespace bitpress::apps
