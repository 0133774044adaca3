#include "deploy/closeness.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <new>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "evaluate/metrics.h"
#include "evaluate/outputs.h"

namespace bitpress::deploy {
namespace {

using runtime::ValueDescription;

// Returns the position of each value of `wanted` in `found`. Throws Error(kUnsupported) if there is
// none of its name.
std::vector<size_t> PositionsOf(const std::vector<ValueDescription>& wanted,
                                const std::vector<ValueDescription>& found, const char* what) {
  std::vector<size_t> positions;
  for (const ValueDescription& value : wanted) {
    const auto at = std::ranges::find(found, value.name, &ValueDescription::name);
    if (at == found.end()) {
      Fail(ErrorCode::kUnsupported, "only one of the models has the {} '{}'", what, value.name);
    }
    positions.push_back(static_cast<size_t>(at - found.begin()));
  }
  return positions;
}

// Compares the outputs of all runs. The positions are those of the session's inputs among the
// samples' tensors, and those of the written model's outputs among the session's.
void Compare(runtime::Session& session, const std::vector<size_t>& input_positions,
             const std::vector<size_t>& output_positions,
             const std::vector<std::vector<Tensor>>& samples,
             const std::vector<std::vector<Tensor>>& outputs,
             const std::vector<ValueDescription>& descriptions, Closeness& closeness) {
  std::vector<evaluate::OutputComparison> comparisons(descriptions.size());
  for (size_t run = 0; run < outputs.size(); ++run) {
    std::vector<Tensor> inputs;
    for (const size_t i : input_positions) inputs.push_back(samples[run].at(i));
    const std::vector<Tensor> wanted = session.Run(inputs);
    for (size_t k = 0; k < descriptions.size(); ++k) {
      const evaluate::Output reference = evaluate::ToOutput(wanted.at(output_positions[k]));
      const evaluate::Output found = evaluate::ToOutput(outputs[run].at(k));
      const std::string& name = descriptions[k].name;
      // Codes have no distance from the floats that they stand for.
      const bool is_comparable = reference.values.empty() == found.values.empty();
      if (!is_comparable) continue;
      if (reference.dims != found.dims) {
        if (std::ranges::find(closeness.other_shapes, name) == closeness.other_shapes.end()) {
          closeness.other_shapes.push_back(name);
        }
      } else if (!reference.values.empty() && !found.values.empty()) {
        comparisons[k].Add(reference.values, found.values);
      }
    }
    ++closeness.num_runs;
  }
  for (size_t k = 0; k < descriptions.size(); ++k) {
    const evaluate::OutputComparison& of_output = comparisons[k];
    if (of_output.num_samples() == 0) continue;
    closeness.outputs.push_back(
        {descriptions[k].name, of_output.num_values(), of_output.SqnrDb(), of_output.Cosine()});
  }
}

}  // namespace

Closeness MeasureCloseness(const std::filesystem::path& given,
                           const std::vector<std::vector<Tensor>>& samples,
                           const std::vector<std::vector<Tensor>>& outputs,
                           const std::vector<ValueDescription>& inputs,
                           const std::vector<ValueDescription>& descriptions) {
  Closeness closeness;
  try {
    runtime::Session session(given, {});
    Compare(session, PositionsOf(session.inputs(), inputs, "input"),
            PositionsOf(descriptions, session.outputs(), "output"), samples, outputs, descriptions,
            closeness);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kIo) throw;
    closeness = {};
    closeness.why_not = error.what();
  } catch (const std::bad_alloc&) {
    closeness = {};
    closeness.why_not = "memory is short";
  }
  return closeness;
}

nlohmann::ordered_json ToJson(const Closeness& closeness) {
  nlohmann::ordered_json json = {{"num_runs", closeness.num_runs},
                                 {"outputs", nlohmann::ordered_json::array()},
                                 {"other_shapes", closeness.other_shapes},
                                 {"why_not", closeness.why_not}};
  for (const evaluate::OutputReport& output : closeness.outputs) {
    // JSON has no infinity.
    const bool is_finite = std::isfinite(output.sqnr_db);
    json["outputs"].push_back(
        {{"name", output.name},
         {"num_values", output.num_values},
         {"sqnr_db", is_finite ? nlohmann::ordered_json(output.sqnr_db) : nullptr},
         {"is_identical", output.sqnr_db == std::numeric_limits<double>::infinity()},
         {"cosine", output.cosine}});
  }
  return json;
}

Closeness ClosenessFromJson(const nlohmann::ordered_json& json) {
  Closeness closeness;
  json.at("num_runs").get_to(closeness.num_runs);
  json.at("other_shapes").get_to(closeness.other_shapes);
  json.at("why_not").get_to(closeness.why_not);
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const auto& output : json.at("outputs")) {
    const double other = output.at("is_identical").get<bool>() ? kInfinity : -kInfinity;
    closeness.outputs.push_back(
        {output.at("name"), output.at("num_values"),
         output.at("sqnr_db").is_null() ? other : output.at("sqnr_db").get<double>(),
         output.at("cosine")});
  }
  return closeness;
}

}  // namespace bitpress::deploy
