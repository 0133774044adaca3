#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tasks/quantize.h"
#include "tasks/verdict.h"

namespace bitpress::tasks {
namespace {

using Json = nlohmann::ordered_json;

using Reasons = std::vector<std::pair<std::string, std::string>>;

Json ToJson(const Reasons& reasons) {
  Json list = Json::array();
  for (const auto& [name, reason] : reasons) list.push_back({{"name", name}, {"reason", reason}});
  return list;
}

Json FormatOrNull(const std::string& format, bool is_quantized) {
  return is_quantized ? Json(format) : Json();
}

Json TensorsToJson(const plan::QuantPlan& plan) {
  Json list = Json::array();
  for (const plan::TensorPlan& row : plan.tensors) {
    list.push_back({{"value", row.value},
                    {"role", plan::RoleName(row.role)},
                    {"format", FormatOrNull(row.format, row.is_quantized())},
                    {"reason", row.reason}});
  }
  return list;
}

Json CachesToJson(const plan::QuantPlan& plan) {
  Json list = Json::array();
  for (const plan::CachePlan& cache : plan.caches) {
    list.push_back({{"value", cache.value},
                    {"format", FormatOrNull(cache.format, cache.is_quantized())},
                    {"granularity", plan::GranularityName(cache.granularity)},
                    {"reason", cache.reason}});
  }
  return list;
}

Json RewritesToJson(const QuantizeReport& report) {
  Json json = Json::object();
  if (!report.rewritten.fixed_inputs.empty()) json["fixed_inputs"] = report.rewritten.fixed_inputs;
  const rewrite::OptimizerReport& optimizer = report.rewritten.optimizer;
  if (!optimizer.undone.empty()) json["undone_passes"] = {{"optimize", optimizer.undone}};
  if (const auto& changing = report.changing_pass) {
    json["changing_pass"] = {{"pass", changing->pass},
                             {"output", changing->output},
                             {"sqnr_db", changing->sqnr_db},
                             {"is_undone", changing->is_undone}};
  }
  if (!optimizer.kept_computed.empty()) json["kept_computed"] = optimizer.kept_computed;
  for (const graph::PassResult& pass : report.rewritten.passes) {
    if (pass.label.empty()) continue;
    Json& entry = json[pass.label];
    for (const auto& [key, count] : pass.counts) entry[key] = count;
    entry["left_alone"] = ToJson(pass.left_alone);
  }
  if (report.rewritten.num_widened > 0) json["num_widened"] = report.rewritten.num_widened;
  if (const auto& narrowed = report.rewritten.narrowed) {
    json["narrowed"] = {{"num_half_nodes", narrowed->num_half_nodes},
                        {"num_constants", narrowed->constants.num_constants},
                        {"num_clipped", narrowed->constants.num_clipped},
                        {"num_vanished", narrowed->constants.num_vanished},
                        {"kept", ToJson(narrowed->kept)}};
  }
  if (report.smoothed) {
    Json activations = Json::array();
    for (const rewrite::SmoothedActivation& activation : report.smoothed->smoothed) {
      activations.push_back({{"value", activation.value},
                             {"alpha", activation.alpha},
                             {"folded_into", activation.folded_into}});
    }
    json["smoothed"] = {{"activations", std::move(activations)},
                        {"left_alone", ToJson(report.smoothed->left_alone)}};
  }
  return json;
}

Json FinetuningToJson(const finetune::FinetuneReport& report) {
  Json layers = Json::array();
  for (const finetune::TunedLayerReport& layer : report.layers) {
    layers.push_back({{"node", layer.node},
                      {"op_type", layer.op_type},
                      {"weight", layer.weight},
                      {"format", layer.format},
                      {"is_tuned", layer.is_tuned},
                      {"error_before", layer.error_before},
                      {"error_after", layer.error_after},
                      {"judge", finetune::JudgeName(layer.judge)},
                      {"taken_from", layer.taken_from},
                      {"note", layer.note}});
  }
  Json network;  // null: nothing to judge, or nothing to judge with
  if (report.network && (report.network->num_runs > 0 || report.network->num_lost_runs > 0)) {
    network = {{"num_runs", report.network->num_runs},
               {"num_lost_runs", report.network->num_lost_runs},
               {"gain_db", report.network->gain_db},
               {"uncertainty_db", report.network->uncertainty_db},
               {"is_better", report.network->is_better}};
  }
  return {{"num_samples", report.num_samples},
          {"num_resumed", report.num_resumed},
          {"layers", std::move(layers)},
          {"left_out", ToJson(report.left_out)},
          {"network", std::move(network)}};
}

Json GuardToJson(const plan::GuardReport& guard) {
  return {{"num_samples", guard.num_samples},
          {"num_runs", guard.num_runs},
          {"weights_db", guard.weights_db ? Json(*guard.weights_db) : Json()},
          {"range_method", guard.range_method},
          {"worst_output", guard.worst_output},
          {"before_db", guard.before_db},
          {"after_db", guard.after_db},
          {"num_left", guard.num_left},
          {"left_share", guard.left_share},
          {"note", guard.note}};
}

Json HeldBackToJson(const calibrate::HeldBackReport& report) {
  Json values = Json::array();
  for (const calibrate::Unrepresented& value : report.values) {
    values.push_back({{"value", value.value},
                      {"outside_share", value.outside_share},
                      {"lost_db", value.lost_db}});
  }
  return {{"num_held_back", report.num_held_back},
          {"num_samples", report.num_samples},
          {"num_values", report.num_values},
          {"outside", std::move(values)}};
}

Json WeightsToJson(const emit::TransformReport& report) {
  Json list = Json::array();
  for (const auto& weight : report.weights) {
    list.push_back({{"value", weight->value},
                    {"format", weight->format},
                    {"num_elements", weight->num_elements},
                    {"stored_bytes", weight->stored_bytes},
                    {"unpacked_reason", weight->unpacked_reason},
                    {"num_overflowed", weight->num_overflowed},
                    {"mean_squared_error", weight->mean_squared_error},
                    {"sqnr_db", std::isfinite(weight->sqnr_db) ? Json(weight->sqnr_db) : Json()}});
  }
  return list;
}

}  // namespace

Json ToJson(const QuantizeReport& report) {
  Json unsigned_weights = Json::array();
  for (const plan::UnsignedWeight& weight : report.unsigned_weights) {
    unsigned_weights.push_back({{"value", weight.value}, {"saved_db", weight.saved_db}});
  }
  Json needs_library = Json::array();
  for (const auto& omission : report.transform.portable.omissions) {
    needs_library.push_back({{"op_type", omission.op_type}, {"reason", omission.reason}});
  }
  return {{"bitpress_quantization", 1},
          {"config", report.plan.config.name},
          {"input_bytes", report.input_bytes},
          {"output_bytes", report.output_bytes},
          {"tensors", TensorsToJson(report.plan)},
          {"caches", CachesToJson(report.plan)},
          {"weights", WeightsToJson(report.transform)},
          {"left_float", ToJson(report.left_float)},
          {"already_quantized", report.already_quantized},
          {"unsigned_weights", std::move(unsigned_weights)},
          {"rewrites", RewritesToJson(report)},
          {"finetuning", FinetuningToJson(report.finetune)},
          {"guard", report.guard ? GuardToJson(*report.guard) : Json()},
          {"held_back", report.held_back ? HeldBackToJson(*report.held_back) : Json()},
          {"native",
           {{"num_nodes", report.transform.native.num_nodes},
            {"left", ToJson(report.transform.native.omissions)}}},
          {"integer_operators",
           {{"num_nodes", report.transform.integer.num_nodes},
            {"left", ToJson(report.transform.integer.omissions)}}},
          {"needs_library", std::move(needs_library)},
          {"verdict", ToJson(VerdictOf(report))},
          {"check", report.target ? deploy::ToJson(*report.target) : Json()},
          {"why_not_checked", report.why_not_checked}};
}

}  // namespace bitpress::tasks
