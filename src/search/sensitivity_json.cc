// The JSON of losses. A noise is infinite if the reference is 0 everywhere and the output is not.
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "search/json_numbers.h"
#include "search/sensitivity.h"

namespace bitpress::search {
namespace {

using Json = nlohmann::ordered_json;

// Returns the SQNR of a noise, in dB.
Json Decibels(double noise) { return DecibelsToJson(evaluate::SqnrDb(noise)); }

// The noise at the outputs of a model.
Json NoiseToJson(double noise, bool is_divergence) {
  if (is_divergence) return {{"divergence", ToJson(noise)}};
  return {{"noise", ToJson(noise)}, {"sqnr_db", Decibels(noise)}};
}
double NoiseFromJson(const Json& json, bool is_divergence) {
  return NumberFromJson(json.at(is_divergence ? "divergence" : "noise"));
}

}  // namespace

Json ToJson(const LayerLoss& layer) {
  Json parts = Json::array();
  for (const PartLoss& part : layer.parts) {
    if (!part.is_there) {
      parts.push_back(nullptr);
      continue;
    }
    Json json{{"local_noise", ToJson(part.local_noise)},
              {"local_sqnr_db", Decibels(part.local_noise)}};
    if (part.fast_noise) json["fast"] = NoiseToJson(*part.fast_noise, layer.is_divergence);
    if (part.exact) {
      json["exact"] = NoiseToJson(part.exact->noise, layer.is_divergence);
      json["exact"].update({{"l2", ToJson(part.exact->l2)},
                            {"cosine", ToJson(part.exact->cosine)},
                            {"divergence", ToJson(part.exact->divergence)},
                            {"agreement", ToJson(part.exact->agreement)},
                            {"top1", ToJson(part.exact->top1)},
                            {"reference_top1", ToJson(part.exact->reference_top1)}});
    }
    if (part.time_ms) json["time_ms"] = ToJson(*part.time_ms);
    parts.push_back(std::move(json));
  }
  Json json{{"node", layer.node}, {"op_type", layer.op_type}, {"macs", ToJson(layer.num_macs)}};
  if (layer.is_divergence) json["is_divergence"] = true;
  if (layer.time_ms) json["time_ms"] = ToJson(*layer.time_ms);
  json["parts"] = std::move(parts);
  return json;
}

LayerLoss LayerLossFromJson(const Json& json) {
  LayerLoss layer{
      json.at("node"), json.at("op_type"), NumberFromJson(json.at("macs")), std::nullopt, {}};
  if (json.contains("time_ms")) layer.time_ms = NumberFromJson(json["time_ms"]);
  layer.is_divergence = json.value("is_divergence", false);
  for (const Json& part : json.at("parts")) {
    PartLoss loss;
    loss.is_there = !part.is_null();
    if (loss.is_there) {
      loss.local_noise = NumberFromJson(part.at("local_noise"));
      if (part.contains("fast")) {
        loss.fast_noise = NoiseFromJson(part["fast"], layer.is_divergence);
      }
      if (part.contains("exact")) {
        const Json& exact = part["exact"];
        loss.exact = evaluate::Loss{
            NoiseFromJson(exact, layer.is_divergence),   NumberFromJson(exact.at("l2")),
            NumberFromJson(exact.at("cosine")),          OptionalFromJson(exact.at("divergence")),
            OptionalFromJson(exact.at("agreement")),     OptionalFromJson(exact.at("top1")),
            OptionalFromJson(exact.at("reference_top1"))};
      }
      if (part.contains("time_ms")) loss.time_ms = NumberFromJson(part["time_ms"]);
    }
    layer.parts.push_back(std::move(loss));
  }
  return layer;
}

void CheckIsComplete(const LayerLoss& loss, const SearchLayer& layer,
                     const SensitivityOptions& options) {
  if (loss.node != layer.node || loss.op_type != layer.op_type) {
    Fail(ErrorCode::kInvalidArgument, "it is about {} '{}', not {} '{}'", loss.op_type, loss.node,
         layer.op_type, layer.node);
  }
  if (loss.parts.size() != layer.has_part.size()) {
    Fail(ErrorCode::kInvalidArgument, "it has {} parts, expected {}", loss.parts.size(),
         layer.has_part.size());
  }
  const auto check = [](bool is_expected, size_t i, std::string_view what) {
    if (!is_expected) Fail(ErrorCode::kInvalidArgument, "part {}: {}", i, what);
  };
  for (size_t i = 0; i < loss.parts.size(); ++i) {
    const PartLoss& part = loss.parts[i];
    check(part.is_there == layer.has_part[i], i,
          part.is_there ? "the candidate quantizes nothing of the layer" : "it is missing");
    if (!part.is_there) continue;
    check(part.fast_noise || options.method == Method::kExact, i, "\"fast\" is missing");
    check(part.exact || options.method == Method::kFast, i, "\"exact\" is missing");
    check(part.time_ms || !options.measures_time, i, "\"time_ms\" is missing");
  }
  if (options.measures_time && !loss.time_ms) {
    Fail(ErrorCode::kInvalidArgument, "\"time_ms\" is missing");
  }
}

}  // namespace bitpress::search
