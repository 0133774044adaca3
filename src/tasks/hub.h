// The task `hub`: makes the files of a model folder that a runtime looks for by their names:
// transformers.js (onnx/model_q4.onnx), sentence-transformers (onnx/model_qint8_avx512_vnni.onnx),
// ONNX Runtime GenAI (whatever its genai_config.json names). Each file is checked and compared with
// the float model.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "base/fields.h"
#include "tasks/hub_budget.h"
#include "tasks/run.h"

namespace bitpress::tasks {

// Samples are for the comparison; without any, a model that takes tokens gets random ones.
struct HubOptions : RunOptions {
  std::filesystem::path folder;     // with config.json, the tokenizer, onnx/
  std::filesystem::path output;     // a folder; may be `folder` itself
  std::vector<std::string> dtypes;  // words of HubDtypes; empty: all but those of one processor
  std::string budget;               // as ParseHubBudget reads it; empty: nothing is chosen
};

// Returns the words for files that can be made: "fp16", "q8", "qint8_arm64", ...
std::vector<std::string> HubDtypes();

struct HubFile {
  std::string file;   // relative to the output: "onnx/model_q4.onnx"
  std::string dtype;  // its word
  std::string model;  // the float model: "onnx/model.onnx"
  uint64_t num_bytes = 0;
  uint64_t float_bytes = 0;
  // Of the output that is farthest off. Nothing: not compared, see why_not_compared.
  std::optional<double> sqnr_db, cosine;
  std::string worst_output;
  size_t num_samples = 0;
  std::string why_not_compared;
  std::vector<std::string> missing_in_web;
  std::vector<std::string> warnings;
};
constexpr auto FieldsOf(const HubFile*) {
  return std::tuple(
      Field{"file", &HubFile::file, "Relative to the output folder."},
      Field{"dtype", &HubFile::dtype}, Field{"model", &HubFile::model, "The float model."},
      Field{"num_bytes", &HubFile::num_bytes, "External data included."},
      Field{"float_bytes", &HubFile::float_bytes, "Of the float model."},
      Field{"sqnr_db", &HubFile::sqnr_db,
            "SQNR in dB of the output that is farthest off. None if nothing was compared."},
      Field{"cosine", &HubFile::cosine, "The cosine of that output, averaged over samples."},
      Field{"worst_output", &HubFile::worst_output, "The name of that output."},
      Field{"num_samples", &HubFile::num_samples, "Runs that were compared."},
      Field{"why_not_compared", &HubFile::why_not_compared,
            "Why nothing was compared. '' if something was."},
      Field{"missing_in_web", &HubFile::missing_in_web,
            "Operators that onnxruntime-web's WebAssembly build does not have."},
      Field{"warnings", &HubFile::warnings, "What quantize warns of."});
}

// Returns whether transformers.js looks for a file by the word of its dtype.
bool IsOfTransformersJs(const HubFile& file);

struct HubReport {
  std::filesystem::path output;
  std::vector<HubFile> files;         // in the order of the models, then of the dtypes
  std::vector<std::string> copied;    // the other files of the folder
  std::vector<std::string> left_out;  // models that are no float models of the folder's own
  bool are_samples_random = false;    // no samples were given: tokens were drawn
  std::optional<HubChoice> choice;    // nothing: no budget was given
};
constexpr auto FieldsOf(const HubReport*) {
  using Report = HubReport;
  return std::tuple(
      Field{"files", &Report::files},
      Field{"copied", &Report::copied, "Other files that were copied."},
      Field{"left_out", &Report::left_out,
            "Models in the folder that already have another format by their names."},
      Field{"are_samples_random", &Report::are_samples_random,
            "No samples were given: the comparison is on random tokens."},
      Field{"choice", &Report::choice, "The files that a budget takes. None without one."});
}

// Makes the files. Throws Error before anything is written if the folder holds no float model, or a
// dtype or the budget cannot be read; otherwise as Quantize, naming the file, which is removed
// then. Files that were made before stay.
HubReport MakeHubFolder(const HubOptions& options);

// Returns the report as `hub --json` writes it.
nlohmann::ordered_json ToJson(const HubReport& report);

}  // namespace bitpress::tasks
