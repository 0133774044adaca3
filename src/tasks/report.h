// A page about a quantized model, from start to end.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "base/progress.h"
#include "data/source.h"
#include "report/report.h"
#include "rewrite/prepare.h"
#include "tasks/quantize.h"

namespace bitpress::tasks {

struct ReportOptions {
  std::filesystem::path model;      // quantized, by whatever tool
  std::filesystem::path reference;  // the float model that it was made from
  std::filesystem::path output;     // the page. Written as by Quantize
  std::filesystem::path json;       // what it shows, as JSON; empty: none
  // Samples; none: the page knows weights and sizes only.
  data::SampleSpec samples;       // for accuracy as many as they are
  size_t num_layer_samples = 16;  // of them, from the start, for layers and histograms
  size_t batch_size = 20;         // for accuracy
  // Statistics of the float model's activations, a file of Calibrate; empty: gathered.
  std::filesystem::path calibration;
  // The plan that the model was made from, which knows why tensors stayed float; empty: that of the
  // configuration that the model names.
  std::filesystem::path plan_file;
  std::filesystem::path search;  // a JSON file of Search, for the front; empty: none
  rewrite::Preparation preparation = rewrite::Preparation::kOptimize;
  // What Quantize said of this model: its plan, what fine-tuning learned.
  const QuantizeReport* quantized = nullptr;
  // How this page was made, "what it does" and the command; the other commands follow from the
  // model.
  std::vector<std::pair<std::string, std::string>> commands;
  size_t num_threads = 0;  // 0: one per core
  ProgressSink progress;   // may be empty
};

// Measures and writes the page. Throws Error; nothing is left behind then.
report::Report WriteReport(const ReportOptions& options);

}  // namespace bitpress::tasks
