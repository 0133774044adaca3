// The JSON of a report, as the page reads it.
#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "evaluate/loss.h"
#include "report/report.h"

namespace bitpress::report {
namespace {

using Json = nlohmann::ordered_json;

// Returns an error in dB. One without energy is "identical"; one beside a signal of 0 is unknown.
Json Decibels(const std::optional<double>& noise) {
  if (!noise || std::isinf(*noise)) return nullptr;
  return *noise == 0 ? Json("identical") : Json(evaluate::SqnrDb(*noise));
}

Json ToJson(const Histogram& histogram) {
  return {{"lower", histogram.lower}, {"upper", histogram.upper}, {"counts", histogram.counts}};
}

Json ToJson(const TensorReport& tensor) {
  Json json{{"name", tensor.name},
            {"is_weight", tensor.is_weight},
            {"format", tensor.format},
            {"shape", tensor.dims},
            {"elements", tensor.num_elements},
            {"zeros", tensor.num_zeros},
            {"nonfinite", tensor.num_nonfinite},
            {"min", tensor.min},
            {"max", tensor.max},
            {"mean", tensor.mean},
            {"deviation", tensor.deviation},
            {"range", nullptr},
            {"histogram", ToJson(tensor.histogram)},
            {"quantized", nullptr}};
  if (tensor.range) json["range"] = {tensor.range->first, tensor.range->second};
  if (tensor.quantized) json["quantized"] = ToJson(*tensor.quantized);
  return json;
}

Json ToJson(const LayerReport& layer) {
  Json weights = Json::array();
  for (const WeightReport& weight : layer.weights) {
    weights.push_back({{"tensor", weight.tensor}, {"sqnr_db", Decibels(weight.noise)}});
  }
  Json json{{"node", layer.node},
            {"op_type", layer.op_type},
            {"input", layer.input},
            {"output", layer.output},
            {"input_format", layer.input_format},
            {"weights", std::move(weights)},
            {"sqnr_db", Decibels(layer.output_noise)},
            {"learned", nullptr},
            {"judged_by", layer.judged_by},
            {"taken_from", layer.taken_from},
            {"note", layer.note}};
  if (layer.learned) {
    json["learned"] = {Decibels(layer.learned->first), Decibels(layer.learned->second)};
  }
  return json;
}

// Returns whether constants of this format are quantized weights. Formats are written in small
// letters. Constants without a format have the name of their ONNX type in capitals; types of codes
// count as quantized.
bool IsQuantized(std::string_view format) {
  static constexpr std::array<std::string_view, 9> kOthers = {
      "FLOAT", "DOUBLE", "INT64", "INT32", "UINT64", "UINT32", "BOOL", "STRING", "graph"};
  return std::ranges::find(kOthers, format) == kOthers.end();
}

}  // namespace

Json ToJson(const Report& report) {
  Json layers = Json::array();
  for (const LayerReport& layer : report.layers) layers.push_back(ToJson(layer));
  Json tensors = Json::array();
  for (const TensorReport& tensor : report.tensors) tensors.push_back(ToJson(tensor));
  Json sizes = Json::array();
  for (const FormatSize& size : report.sizes) {
    sizes.push_back({{"format", size.format},
                     {"is_quantized", IsQuantized(size.format)},
                     {"tensors", size.num_tensors},
                     {"elements", size.num_elements},
                     {"bytes", size.num_bytes}});
  }
  Json kept = Json::array();
  for (const FloatTensor& tensor : report.kept_float) {
    kept.push_back({{"name", tensor.name}, {"role", tensor.role}, {"reason", tensor.reason}});
  }
  return {{"bitpress_report", 1},  // version of this JSON (docs/versions.md)
          {"version", report.version},
          {"model", report.model},
          {"reference", report.reference},
          {"config", report.config},
          {"settings", report.settings},
          {"file_bytes", report.file_bytes},
          {"reference_bytes", report.reference_bytes},
          {"evaluation", report.evaluation ? evaluate::ToJson(*report.evaluation) : Json()},
          {"num_layer_samples", report.num_layer_samples},
          {"layers", std::move(layers)},
          {"tensors", std::move(tensors)},
          {"sizes", std::move(sizes)},
          {"kept_float", std::move(kept)},
          {"search", report.search},
          {"commands", report.commands},
          {"notes", report.notes}};
}

}  // namespace bitpress::report
