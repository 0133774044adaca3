// The sensitivity of layers: how much the outputs of a model suffer if one layer alone gets a
// format, for every layer and part of a space. Searches and reports need it. It is measured in two
// ways:
//   exact  that layer is quantized, and the model runs with what it gives
//   fast   the error at the layer's own output, measured for each part, is multiplied with the gain
//          of errors on the way to the outputs, measured with one part for each side of the layer
// The loss of a language model is the divergence of the tokens that it predicts.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/thread_pool.h"
#include "bitpress/progress.h"
#include "data/source.h"
#include "data/token_inputs.h"
#include "evaluate/loss.h"
#include "graph/model.h"
#include "plan/resolved_plan.h"
#include "search/candidates.h"
#include "search/search_layers.h"

namespace bitpress::search {

// The loss of one part in one layer.
struct PartLoss {
  bool is_there = false;   // false: the part quantizes nothing of this layer
  double local_noise = 0;  // at the layer's output, in parts of its energy
  // The noise at the model's outputs, from `local_noise` and the gain.
  std::optional<double> fast_noise;
  std::optional<evaluate::Loss> exact;
  std::optional<double> time_ms;  // time of the layer alone, for one sample, on this machine

  // Returns the exact noise if there is one, else the fast one: in parts of the energy of the
  // outputs, or in nats (LayerLoss::is_divergence).
  double noise() const { return exact ? exact->noise : fast_noise.value_or(0); }
};

// The losses of all parts in one layer.
struct LayerLoss {
  std::string node;
  std::string op_type;
  double num_macs = 0;            // multiplications and additions for one sample, as pairs
  std::optional<double> time_ms;  // time of the float layer
  std::vector<PartLoss> parts;    // in the order of the space's parts
  // Noises at the outputs are mean Kullback-Leibler divergences of the predicted tokens.
  bool is_divergence = false;
};

enum class Method { kFast, kExact, kBoth };
inline constexpr std::array<std::pair<std::string_view, Method>, 3> kMethodWords{
    {{"fast", Method::kFast}, {"exact", Method::kExact}, {"both", Method::kBoth}}};
std::string_view MethodName(Method method);
// Reads "fast", "exact" or "both". Throws Error(kInvalidArgument).
Method ParseMethod(std::string_view word);

struct SensitivityOptions {
  Method method = Method::kFast;
  bool measures_time = false;
  // The position of the only output of the model that losses are about. Null: all outputs.
  std::optional<size_t> output_index = std::nullopt;
  // The inputs of a language model, if the samples are token ids.
  std::optional<data::TokenInputs> tokens = std::nullopt;
  size_t num_threads = 0;   // 0: one per core
  data::Shard layers = {};  // the layers to measure; no others are in the result
  // The file that keeps the measurements, a line for each layer, so that a run that was stopped
  // goes on; empty: none. `key` names the work: a file with another key is begun anew.
  std::filesystem::path journal;
  std::string key;
  ProgressSink progress;  // counts layers; may be empty
};

struct Sensitivity {
  size_t num_samples = 0;
  size_t num_resumed = 0;  // layers that were in the journal
  std::vector<LayerLoss> layers;
  std::vector<std::pair<std::string, std::string>> left_out;  // with the reason

  // Returns whether losses are divergences of predicted tokens.
  bool is_divergence() const { return !layers.empty() && layers.front().is_divergence; }
};

// Returns the layers without any measurement, for costs that depend on none.
Sensitivity Unmeasured(const SearchLayers& layers);

// Measures all layers. REQUIRES: `source` was opened with the input names of `model`, the float
// model. Samples that fit into kMostHeldBytes are read once, others once a layer; they run one at a
// time, as in calibration. A layer whose values are no floats is left out. Throws Error: no
// samples, a model that does not run, or a file that cannot be read or written (kIo).
Sensitivity MeasureSensitivity(const graph::Model& model, const SearchLayers& layers,
                               const Space& space, const std::vector<plan::ResolvedPlan>& parts,
                               data::Source& source, const SensitivityOptions& options,
                               ThreadPool& pool);

// Returns Spearman's rank correlation of fast_noise with exact->noise over all layers and parts
// that have both; nothing for fewer than 2.
std::optional<double> RankCorrelation(const Sensitivity& sensitivity);

// Returns Spearman's rank correlation. Equal values share the mean of their ranks.
// REQUIRES: as many of both, 2 or more.
double RankCorrelation(const std::vector<double>& a, const std::vector<double>& b);

// Returns the fields by name, with numbers as the text form of base/fields_json.h.
nlohmann::ordered_json ToJson(const LayerLoss& layer);
// Reads what ToJson wrote. Throws Error(kInvalidArgument) or a nlohmann exception.
LayerLoss LayerLossFromJson(const nlohmann::ordered_json& json);
// Throws Error(kInvalidArgument) unless the losses are what a measurement of that layer with these
// options gives: one part for each of the layer's, with all numbers that searches read.
void CheckIsComplete(const LayerLoss& loss, const SearchLayer& layer,
                     const SensitivityOptions& options);

}  // namespace bitpress::search
