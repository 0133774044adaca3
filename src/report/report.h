// The report on a quantized model beside the float one that it was made from: its data, its JSON,
// and the page that shows it. `bitpress report` fills it in. Plain data; all functions are pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "evaluate/evaluate.h"

namespace bitpress::report {

// Counts in bins of equal width from `lower` to `upper`; one bin if both are the same.
struct Histogram {
  double lower = 0;
  double upper = 0;
  std::vector<uint64_t> counts;
};

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

// The error of a layer's weight.
struct WeightReport {
  std::string tensor;
  // The energy of the error in parts of the float weight's: 10^(-SQNR/10). Nothing if it is not
  // known; `note` of the layer says why.
  std::optional<double> noise;
};

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
  // The samples that `learned` was measured on, by finetune::JudgeName; "" without fine-tuning.
  std::string judged_by;
  std::string taken_from;  // pass whose weights it has, and what was chosen for it; empty: none
  std::string note;
};

// All constants of one format in the quantized file.
struct FormatSize {
  std::string format;  // as weights::StoredConstant says it; "graph": all the rest
  size_t num_tensors = 0;
  uint64_t num_elements = 0;
  uint64_t num_bytes = 0;
};

// A tensor that is stored as floats, or computed in them.
struct FloatTensor {
  std::string name;
  std::string role;  // "activation", "weight", "bias"
  std::string reason;
};

// The whole report.
struct Report {
  std::string version;
  std::string model, reference;     // file names
  std::string config;               // name of the configuration; "" if the file does not say
  nlohmann::ordered_json settings;  // its settings that are no defaults; null if not known
  uint64_t file_bytes = 0;
  uint64_t reference_bytes = 0;
  std::optional<evaluate::EvaluationReport> evaluation;
  size_t num_layer_samples = 0;  // samples that layers and activations were measured on
  std::vector<LayerReport> layers;
  std::vector<TensorReport> tensors;
  std::vector<FormatSize> sizes;  // the largest first
  std::vector<FloatTensor> kept_float;
  nlohmann::ordered_json search;  // the file of a search, with "cost_label"; null: none
  std::vector<std::pair<std::string, std::string>> commands;  // purpose, command
  std::vector<std::string> notes;
};

// Returns the JSON that the page reads. Infinite SQNRs are the text "identical"; unknown figures
// are null.
nlohmann::ordered_json ToJson(const Report& report);

// Returns a page that needs no other file and no network. Names of a model stay text, whatever they
// are.
std::string ToHtml(const Report& report);

}  // namespace bitpress::report
