// Losses as JSON and back. Infinity does not occur: an error of no energy is 0.
#include <nlohmann/json.hpp>

#include "search/sensitivity.h"

namespace bitpress::search {
namespace {

using Json = nlohmann::ordered_json;

// SQNR in dB; null without any error.
Json Decibels(double noise) { return noise == 0 ? Json() : Json(evaluate::SqnrDb(noise)); }

template <typename T>
Json OrNull(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

std::optional<double> Optional(const Json& json) {
  return json.is_null() ? std::nullopt : std::optional(json.get<double>());
}

}  // namespace

Json ToJson(const LayerLoss& layer) {
  Json parts = Json::array();
  for (const PartLoss& part : layer.parts) {
    if (!part.is_there) {
      parts.push_back(nullptr);
      continue;
    }
    Json json{{"local_noise", part.local_noise}, {"local_sqnr_db", Decibels(part.local_noise)}};
    if (part.fast_noise) {
      json["fast"] = {{"noise", *part.fast_noise}, {"sqnr_db", Decibels(*part.fast_noise)}};
    }
    if (part.exact) {
      json["exact"] = {{"noise", part.exact->noise},
                       {"sqnr_db", Decibels(part.exact->noise)},
                       {"l2", part.exact->l2},
                       {"cosine", part.exact->cosine},
                       {"divergence", OrNull(part.exact->divergence)},
                       {"agreement", OrNull(part.exact->agreement)},
                       {"top1", OrNull(part.exact->top1)},
                       {"reference_top1", OrNull(part.exact->reference_top1)}};
    }
    if (part.time_ms) json["time_ms"] = *part.time_ms;
    parts.push_back(std::move(json));
  }
  Json json{{"node", layer.node}, {"op_type", layer.op_type}, {"macs", layer.num_macs}};
  if (layer.time_ms) json["time_ms"] = *layer.time_ms;
  json["parts"] = std::move(parts);
  return json;
}

LayerLoss LayerLossFromJson(const Json& json) {
  LayerLoss layer{json.at("node"), json.at("op_type"), json.at("macs"), std::nullopt, {}};
  if (json.contains("time_ms")) layer.time_ms = json["time_ms"].get<double>();
  for (const Json& part : json.at("parts")) {
    PartLoss loss;
    loss.is_there = !part.is_null();
    if (loss.is_there) {
      loss.local_noise = part.at("local_noise");
      if (part.contains("fast")) loss.fast_noise = part["fast"].at("noise").get<double>();
      if (part.contains("exact")) {
        const Json& exact = part["exact"];
        loss.exact = evaluate::Loss{exact.at("noise"),
                                    exact.at("l2"),
                                    exact.at("cosine"),
                                    Optional(exact.at("divergence")),
                                    Optional(exact.at("agreement")),
                                    Optional(exact.at("top1")),
                                    Optional(exact.at("reference_top1"))};
      }
      if (part.contains("time_ms")) loss.time_ms = part["time_ms"].get<double>();
    }
    layer.parts.push_back(std::move(loss));
  }
  return layer;
}

}  // namespace bitpress::search
