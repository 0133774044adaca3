// The task `report`: measures a quantized model and writes a page about it. Use it to see how good
// a model is and to show how it was made.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "report/report.h"
#include "rewrite/prepare.h"
#include "tasks/quantize.h"
#include "tasks/run.h"

namespace bitpress::tasks {

// Without samples the page has weights and sizes only. All samples are used for accuracy.
struct ReportOptions : RunOptions {
  std::filesystem::path model;      // quantized, by whatever tool
  std::filesystem::path reference;  // the float model that it was made from
  std::filesystem::path output;     // the page; written as by Quantize
  std::filesystem::path json;       // the contents of the page as JSON; empty: none
  size_t num_layer_samples = 16;    // the first ones, for layers and histograms
  size_t batch_size = 20;           // for accuracy
  std::string task = "auto";        // likewise, as in EvaluateOptions
  // The statistics of the float model's activations, a file of Calibrate. Empty: they are gathered.
  std::filesystem::path calibration;
  // The plan that the model was made from, which has the reasons why tensors stayed float. Empty:
  // the plan of the configuration that the model names.
  std::filesystem::path plan_file;
  std::filesystem::path search;  // a JSON file of Search, for the front; empty: none
  rewrite::Preparation preparation = rewrite::Preparation::kOptimize;
  // The report of Quantize for this model, with its plan and the results of fine-tuning. May be
  // null.
  const QuantizeReport* quantized = nullptr;
  nlohmann::ordered_json trials = {};  // the report of Auto in JSON; null: none
  // The commands that made this page, each with a line on its purpose. The other commands follow
  // from the model.
  std::vector<std::pair<std::string, std::string>> commands;
};

// Measures the model and writes the page. Throws Error; leaves nothing behind then.
report::Report WriteReport(const ReportOptions& options);

}  // namespace bitpress::tasks
