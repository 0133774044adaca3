// From a float model to the file that suits its network, this machine and a preference.
//
//   bitpress::AutoOptions options;
//   options.model = "model.onnx";
//   options.output = "best.onnx";
//   options.samples.folder = "photos";
//   const bitpress::AutoResult result = bitpress::ChooseAutomatically(options);
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "bitpress/export.h"
#include "bitpress/progress.h"
#include "bitpress/samples.h"

namespace bitpress {

// The words are those of `bitpress auto --help`.
struct AutoOptions {
  std::filesystem::path model;
  std::filesystem::path output;  // written as by Quantize
  std::filesystem::path page;    // a page about the written model; empty: none
  // For ranges and measuring. None: only what needs none is tried, and no loss is measured.
  Samples samples;
  std::string want = "balanced";
  std::string budget;         // "bytes<=3MB,time<=0.8,loss<=1%"; empty: the preference's own limits
  std::string task = "auto";  // in whose terms loss is measured
  size_t num_threads = 0;     // 0: one per core
  ProgressSink progress;      // may be empty
};

struct AutoResult {
  std::string configuration;   // the chosen one
  bool keeps_limits = false;   // false: none does, and this one comes nearest
  std::optional<double> loss;  // nothing: not measured
  std::optional<double> time_ratio;
  uint64_t file_bytes = 0;
  std::string json;  // everything, as `bitpress auto --json` writes it
};

// Tries the configurations that suit the model and writes the best one. Throws Error.
BITPRESS_API AutoResult ChooseAutomatically(const AutoOptions& options);

}  // namespace bitpress
