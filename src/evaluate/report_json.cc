#include <cmath>
#include <nlohmann/json.hpp>

#include "evaluate/evaluate.h"

namespace bitpress::evaluate {
namespace {

template <typename T>
nlohmann::ordered_json OrNull(const std::optional<T>& value) {
  return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json();
}

nlohmann::ordered_json FiniteOrNull(std::optional<double> value) {
  return value && std::isfinite(*value) ? nlohmann::ordered_json(*value) : nlohmann::ordered_json();
}

std::optional<double> If(bool is_there, double value) {
  return is_there ? std::optional(value) : std::nullopt;
}

nlohmann::ordered_json TextOrNull(const std::string& text) {
  return text.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(text);
}

nlohmann::ordered_json ToJson(const LanguageReport& report, bool has_times) {
  nlohmann::ordered_json json;
  json["num_tokens"] = report.num_tokens;
  json["perplexity"] = FiniteOrNull(report.perplexity);
  json["reference_perplexity"] = FiniteOrNull(report.reference_perplexity);
  json["mean_divergence"] = OrNull(report.mean_divergence);
  json["divergence_99"] = OrNull(report.divergence_99);
  json["agreement"] = OrNull(report.agreement);
  json["prompt_tokens_per_s"] = OrNull(If(has_times, report.prompt_tokens_per_s));
  json["reference_prompt_tokens_per_s"] = OrNull(report.reference_prompt_tokens_per_s);
  json["decoding"] = nullptr;
  if (const std::optional<DecodingReport>& decoding = report.decoding) {
    json["decoding"] = {{"prompt_length", decoding->prompt_length},
                        {"num_tokens", decoding->num_tokens},
                        {"tokens_per_s", decoding->tokens_per_s},
                        {"reference_tokens_per_s", OrNull(decoding->reference_tokens_per_s)},
                        {"num_same", OrNull(decoding->num_same)}};
  }
  return json;
}

}  // namespace

nlohmann::ordered_json ToJson(const EvaluationReport& report) {
  nlohmann::ordered_json json;
  json["bitpress_evaluation"] = 1;  // version of this JSON (docs/versions.md)
  json["model"] = report.model.string();
  json["reference"] = TextOrNull(report.reference.string());
  json["num_samples"] = report.num_samples;
  json["left_out"] = report.left_out;
  json["num_labelled"] = report.num_labelled;
  json["batch_size"] = report.batch_size;
  json["class_output"] = TextOrNull(report.class_output);
  json["top1"] = OrNull(report.top1);
  json["top5"] = OrNull(report.top5);
  json["reference_top1"] = OrNull(report.reference_top1);
  json["reference_top5"] = OrNull(report.reference_top5);
  json["agreement"] = OrNull(report.agreement);
  json["sqnr_db"] = FiniteOrNull(report.sqnr_db);
  json["cosine"] = FiniteOrNull(report.cosine);
  json["l2"] = FiniteOrNull(report.l2);
  json["outputs_identical"] = report.outputs_identical;
  json["num_nonfinite_values"] = report.num_nonfinite_values;
  json["time_ms"] = OrNull(If(report.has_times, report.time_ms));
  json["reference_time_ms"] = OrNull(report.reference_time_ms);
  json["time_ratio"] = OrNull(report.time_ratio);
  json["load_ms"] = OrNull(If(report.has_times, report.load_ms));
  json["reference_load_ms"] = OrNull(report.reference_load_ms);
  json["memory_bytes"] = OrNull(report.memory_bytes);
  json["reference_memory_bytes"] = OrNull(report.reference_memory_bytes);
  json["language"] =
      report.language ? ToJson(*report.language, report.has_times) : nlohmann::ordered_json();
  json["processor"] = ToJson(report.processor);
  json["depends_on_processor"] = report.depends_on_processor;
  json["file_bytes"] = report.file_bytes;
  json["reference_file_bytes"] = OrNull(report.reference_file_bytes);
  json["outputs"] = nlohmann::ordered_json::array();
  for (const OutputReport& output : report.outputs) {
    json["outputs"].push_back({{"name", output.name},
                               {"num_values", output.num_values},
                               {"sqnr_db", FiniteOrNull(output.sqnr_db)},
                               {"cosine", output.cosine}});
  }
  return json;
}

}  // namespace bitpress::evaluate
