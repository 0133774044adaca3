// The report on a quantized model beside the float one that it was made from: its data, its JSON,
// and the page that shows it. `bitpress report` fills it in. Plain data; all functions are pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "base/fields.h"
#include "evaluate/evaluate.h"

namespace bitpress::report {

// Counts in bins of equal width from `lower` to `upper`; one bin if both are the same.
struct Histogram {
  double lower = 0;
  double upper = 0;
  std::vector<uint64_t> counts;
};
constexpr auto FieldsOf(const Histogram*) {
  return std::tuple(Field{"lower", &Histogram::lower}, Field{"upper", &Histogram::upper},
                    Field{"counts", &Histogram::counts});
}

// The numbers of a weight, or of an activation over all samples. Extremes, mean and deviation are
// those of the finite elements.
struct TensorReport {
  std::string name;
  bool is_weight = false;
  std::string format;         // format in the quantized model: "mx6", "FLOAT"
  std::vector<int64_t> dims;  // -1: differs or not known
  uint64_t num_elements = 0;  // elements of a weight, or of an activation in all samples
  uint64_t num_zeros = 0;
  uint64_t num_nonfinite = 0;
  double min = 0, max = 0, mean = 0, deviation = 0;
  // The smallest and largest value of its integers, if their scale is in the model.
  std::optional<std::pair<double, double>> range;
  Histogram histogram;                 // numbers in the float model
  std::optional<Histogram> quantized;  // a weight's numbers in the quantized model, same bins
};
constexpr auto FieldsOf(const TensorReport*) {
  using Report = TensorReport;
  return std::tuple(Field{"name", &Report::name}, Field{"is_weight", &Report::is_weight},
                    Field{"format", &Report::format}, Field{"shape", &Report::dims},
                    Field{"elements", &Report::num_elements}, Field{"zeros", &Report::num_zeros},
                    Field{"nonfinite", &Report::num_nonfinite}, Field{"min", &Report::min},
                    Field{"max", &Report::max}, Field{"mean", &Report::mean},
                    Field{"deviation", &Report::deviation}, Field{"range", &Report::range},
                    Field{"histogram", &Report::histogram}, Field{"quantized", &Report::quantized});
}

// Returns an error in dB. One without energy is "identical"; one beside a signal of 0 is null, as
// is one that is not known.
nlohmann::ordered_json DecibelsJson(const std::optional<double>& noise);

// The error of a layer's weight.
struct WeightReport {
  std::string tensor;
  // The energy of the error in parts of the float weight's: 10^(-SQNR/10). Nothing if it is not
  // known; `note` of the layer says why.
  std::optional<double> noise;
};
constexpr auto FieldsOf(const WeightReport*) {
  return std::tuple(Field{"tensor", &WeightReport::tensor},
                    ComputedField{"sqnr_db", [](const WeightReport& report) {
                                    return DecibelsJson(report.noise);
                                  }});
}

// A layer: a node of the float model that multiplies, or that reads another weight.
struct LayerReport {
  std::string node;
  std::string op_type;
  std::string input;   // value; "" if it is a constant
  std::string output;  // value
  std::string input_format;
  std::vector<WeightReport> weights;
  // The noise of its output, with the errors of everything before it. Nothing without samples.
  std::optional<double> output_noise;
  // The noise of its output before and after fine-tuning, as fine-tuning measured it.
  std::optional<std::pair<double, double>> learned;
  // The samples that `learned` was measured on, a word of finetune::kValidatedOnWords; "" without
  // fine-tuning.
  std::string validated_on;
  std::string taken_from;  // pass whose weights it has, and what was chosen for it; empty: none
  std::string note;
};
constexpr auto FieldsOf(const LayerReport*) {
  using Report = LayerReport;
  return std::tuple(
      Field{"node", &Report::node}, Field{"op_type", &Report::op_type},
      Field{"input", &Report::input}, Field{"output", &Report::output},
      Field{"input_format", &Report::input_format}, Field{"weights", &Report::weights},
      ComputedField{"sqnr_db",
                    [](const Report& report) { return DecibelsJson(report.output_noise); }},
      ComputedField{
          "learned",
          [](const Report& report) {
            nlohmann::ordered_json pair;
            if (report.learned) {
              pair = {DecibelsJson(report.learned->first), DecibelsJson(report.learned->second)};
            }
            return pair;
          }},
      Field{"validated_on", &Report::validated_on}, Field{"taken_from", &Report::taken_from},
      Field{"note", &Report::note});
}

// All constants of one format in the quantized file.
struct FormatSize {
  std::string format;  // as weights::StoredConstant says it; "graph": all the rest
  size_t num_tensors = 0;
  uint64_t num_elements = 0;
  uint64_t num_bytes = 0;
};
// Returns whether constants of this format are quantized weights.
bool IsQuantizedFormat(std::string_view format);
constexpr auto FieldsOf(const FormatSize*) {
  return std::tuple(
      Field{"format", &FormatSize::format},
      ComputedField{"is_quantized",
                    [](const FormatSize& size) { return IsQuantizedFormat(size.format); }},
      Field{"tensors", &FormatSize::num_tensors}, Field{"elements", &FormatSize::num_elements},
      Field{"bytes", &FormatSize::num_bytes});
}

// A tensor that is stored as floats, or computed in them.
struct FloatTensor {
  std::string name;
  std::string role;  // "activation", "weight", "bias"
  std::string reason;
};
constexpr auto FieldsOf(const FloatTensor*) {
  return std::tuple(Field{"name", &FloatTensor::name}, Field{"role", &FloatTensor::role},
                    Field{"reason", &FloatTensor::reason});
}

// A picture of a sample, and the boxes that both models found in it.
struct PictureReport {
  std::string name;           // of the sample
  int width = 0, height = 0;  // of what the models saw, as the boxes count
  std::string image;          // a data URI
  std::vector<evaluate::DrawnBox> boxes;
  bool has_mask = false;  // laid over the image
};
constexpr auto FieldsOf(const PictureReport*) {
  return std::tuple(Field{"name", &PictureReport::name}, Field{"width", &PictureReport::width},
                    Field{"height", &PictureReport::height}, Field{"image", &PictureReport::image},
                    Field{"boxes", &PictureReport::boxes},
                    Field{"has_mask", &PictureReport::has_mask});
}

// The whole report.
struct Report {
  std::string version;
  std::string model, reference;     // file names
  std::string config;               // name of the configuration; "" if the file does not say
  nlohmann::ordered_json settings;  // its settings that are no defaults; null if not known
  uint64_t file_bytes = 0;
  uint64_t reference_bytes = 0;
  std::optional<evaluate::EvaluationReport> evaluation;
  std::vector<PictureReport> pictures;  // the first in which the task found something
  size_t num_layer_samples = 0;         // samples that layers and activations were measured on
  std::vector<LayerReport> layers;
  std::vector<TensorReport> tensors;
  std::vector<FormatSize> sizes;  // the largest first
  std::vector<FloatTensor> kept_float;
  nlohmann::ordered_json search;  // the file of a search, with "cost_label"; null: none
  nlohmann::ordered_json trials;  // the report of `auto`; null: none
  std::vector<std::pair<std::string, std::string>> commands;  // purpose, command
  std::vector<std::string> notes;
};
constexpr auto FieldsOf(const Report*) {
  return std::tuple(
      Field{"version", &Report::version}, Field{"model", &Report::model},
      Field{"reference", &Report::reference}, Field{"config", &Report::config},
      Field{"settings", &Report::settings}, Field{"file_bytes", &Report::file_bytes},
      Field{"reference_bytes", &Report::reference_bytes}, Field{"evaluation", &Report::evaluation},
      Field{"pictures", &Report::pictures}, Field{"num_layer_samples", &Report::num_layer_samples},
      Field{"layers", &Report::layers}, Field{"tensors", &Report::tensors},
      Field{"sizes", &Report::sizes}, Field{"kept_float", &Report::kept_float},
      Field{"search", &Report::search}, Field{"trials", &Report::trials},
      ComputedField{"commands",
                    [](const Report& report) { return nlohmann::ordered_json(report.commands); }},
      Field{"notes", &Report::notes});
}

// Returns the JSON that the page reads. Infinite SQNRs are the text "identical"; unknown figures
// are null.
nlohmann::ordered_json ToJson(const Report& report);

// Returns a page that needs no other file and no network. Names of a model stay text, whatever they
// are.
std::string ToHtml(const Report& report);

}  // namespace bitpress::report
