// Quantizing a model.
//
//   bitpress::QuantizeOptions options;
//   options.model = "model.onnx";
//   options.output = "model_mx6.onnx";
//   options.configuration.name = "MX6";
//   const bitpress::QuantizeResult result = bitpress::Quantize(options);
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bitpress/export.h"
#include "bitpress/progress.h"
#include "bitpress/quantize_options.h"
#include "bitpress/samples.h"

namespace bitpress {

// The way to quantize. The names, settings and rules are those of the command line:
// `bitpress plan --help` lists them.
struct Configuration {
  // A preset ("MX6", "INT8"), a format for weights and activations, or a .json file.
  std::string name;
  std::vector<std::pair<std::string, std::string>> settings;  // {"weights", "mxfp4_e2m1"}, ...
  std::vector<std::string> rules;  // "op_types=MatMul: activation_range=dynamic", ...
};

struct QuantizeOptions : QuantizeChoices {
  std::filesystem::path model;
  // May be `model` itself. The file is written at the end and all at once: at any time the old one
  // or the new one is there, never a part.
  std::filesystem::path output;
  Configuration configuration;
  // A plan's file with decisions instead of `configuration`; empty: none.
  std::filesystem::path plan;
  Samples samples;  // for scales, fine-tuning and the check of the result
#define BITPRESS_RUN_OPTION(type, field, key, value, ...) type field = value;
#include "bitpress/quantize_options.inc"
  ProgressSink progress;  // may be empty
};

struct QuantizeResult {
  uint64_t input_bytes = 0, output_bytes = 0;  // external data included
  // How many tensors have a format ("mx6", "float"), by their part: "weight", "activation", "bias".
  std::map<std::string, std::map<std::string, size_t>> formats;
  // Tensors that stay float, with the reason.
  std::vector<std::pair<std::string, std::string>> left_float;
  // The weight that lost most, and its signal-to-noise ratio in dB. Nothing: none lost anything.
  std::optional<std::pair<std::string, double>> least_accurate;
  // Nothing: the model was checked, or no check was asked for. Else why it was not.
  std::string why_not_checked;
};

// Quantizes a model. Throws Error.
BITPRESS_API QuantizeResult Quantize(const QuantizeOptions& options);

// Writes what Quantize would decide as JSON, which may be edited and given as
// QuantizeOptions::plan. Throws Error.
BITPRESS_API void MakePlan(const std::filesystem::path& model, const Configuration& configuration,
                           const std::filesystem::path& output);

}  // namespace bitpress
