// The part of the page about the model as a whole: its settings, its sizes, which tensors are float
// and why, and notes on how to read the figures.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "graph/model.h"
#include "plan/quant_config.h"
#include "plan/quant_plan.h"
#include "report/layers.h"
#include "report/report.h"
#include "weights/stored_constants.h"

namespace bitpress::report {

// Returns the settings that differ from the defaults, as JSON by their names.
nlohmann::ordered_json ChangedSettings(const plan::QuantConfig& config);

// Returns the bytes of all constants by format, and of the rest of the file as "graph"; the largest
// come first.
std::vector<FormatSize> SizesOf(const std::vector<weights::StoredConstant>& constants,
                                uint64_t file_bytes);

// Writes the format of each tensor's constant to `tensors`, where the file has one of that name.
void NameStoredFormats(const std::vector<weights::StoredConstant>& constants,
                       std::vector<TensorReport>& tensors);

// Everything that tells why tensors are float.
struct KeptFloatSources {
  const graph::Model& model;  // the quantized one
  const std::vector<MatchedLayer>& layers;
  const std::vector<weights::StoredConstant>& constants;
  std::optional<plan::QuantPlan> plan = {};  // nothing: it is not known
  // The plan is the one that made the model. Otherwise it was made anew from the configuration and
  // may differ.
  bool is_plan_exact = false;
  // Integer activations that stayed float, with the reason.
  std::vector<std::pair<std::string, std::string>> left_float = {};
};

// Returns the tensors that are float, each once, with the reason. `report` has the layers and the
// tensors.
std::vector<FloatTensor> ListKeptFloat(const KeptFloatSources& sources, const Report& report);

// Returns notes on how the figures came about.
std::vector<std::string> NotesOf(const Report& report, const std::vector<MatchedLayer>& layers,
                                 bool is_equalized);

}  // namespace bitpress::report
