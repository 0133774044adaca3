// The end of every task that writes a model: the model is written beside its place, checked in a
// process of its own, and then put there. No task writes a model for the user in another way.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "bitpress/progress.h"
#include "data/source.h"
#include "deploy/check_target.h"
#include "graph/model.h"

namespace bitpress::tasks {

struct WriteModelOptions {
  std::filesystem::path output;
  // The model that the written one was made of. Where it fails just as the written one does, with
  // an operator that ONNX Runtime does not know for example, that is a warning in the report.
  std::filesystem::path given;
  graph::ExternalData external_data = graph::ExternalData::kIfNeeded;
  bool is_checked = true;
  bool is_kept = true;  // false: the model is checked, and nothing is left of it
  // The first ones are run (SamplesToCompare); not given: a made-up one.
  data::SampleSpec samples = {};
  double num_products = 0;              // as ops::CountProducts has them; 0: not known
  double wanted_db = deploy::kLeastDb;  // what the outputs should reach (WantedDb)
  ProgressSink progress = {};           // may be empty
};

struct WrittenModel {
  uint64_t num_bytes = 0;  // size of the files, external data included
  // The result of the check. Nothing if no check was asked for, or if it was not possible.
  std::optional<deploy::TargetReport> target;
  // The reason why the model was not checked although that was asked for; empty otherwise.
  std::string why_not_checked;
};

// Models up to this size are checked with all details. Larger ones are only loaded and run, because
// their optimized form would fill the folder for temporary files.
inline constexpr uint64_t kMostDescribedBytes = 100'000'000;

// Writes a model, which is gone then, so that its memory is free for the check. Throws
// Error(kInvalidModel) if ONNX's checker refuses it, even unchecked; Error(kRuntime) if ONNX
// Runtime crashes on it, or if it does not load, does not run or breaks the rules of ONNX where
// `given` does not. Nothing is left behind then, and an old file stays.
WrittenModel WriteModel(graph::Model model, const WriteModelOptions& options);

}  // namespace bitpress::tasks
