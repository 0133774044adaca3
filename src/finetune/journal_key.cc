#include "finetune/journal_key.h"

#include <fmt/format.h>

#include <bit>
#include <cstdint>
#include <string>
#include <vector>

#include "base/content_hash.h"
#include "base/version.h"
#include "plan/finetune_passes.h"
#include "runtime/ort_library.h"

namespace bitpress::finetune {
namespace {

void AddParams(ContentHash& hash, const formats::QParams& params) {
  hash.AddNumber(std::bit_cast<uint32_t>(params.scale));
  hash.AddNumber(static_cast<uint64_t>(params.zero_point));
}

void AddKey(ContentHash& hash, const plan::ScaleKey& key) {
  hash.Add(key.value);
  hash.Add(key.format);
}

void AddScales(ContentHash& hash, const plan::ResolvedPlan& resolved) {
  hash.AddNumber(resolved.scales.size());
  for (const auto& [key, params] : resolved.scales) {
    AddKey(hash, key);
    AddParams(hash, params);
  }
}

void AddParameters(ContentHash& hash, const plan::ResolvedPlan& resolved) {
  AddScales(hash, resolved);
  hash.AddNumber(resolved.weight_scales.size());
  for (const auto& [key, all] : resolved.weight_scales) {
    AddKey(hash, key);
    hash.AddNumber(all.size());
    for (const formats::QParams& params : all) AddParams(hash, params);
  }
  hash.AddNumber(resolved.channels.size());
  for (const auto& [name, channels] : resolved.channels) {
    hash.Add(name);
    hash.AddNumber(channels.largest.size());
    for (const uint8_t code : channels.largest) hash.AddNumber(code);
    for (const std::vector<double>* values : {&channels.mean_squares, &channels.means}) {
      hash.AddNumber(values->size());
      for (const double value : *values) hash.AddNumber(std::bit_cast<uint64_t>(value));
    }
  }
}

void AddGatherOptions(ContentHash& hash, const GatherOptions& options) {
  hash.AddNumber(options.hold_back_every);
  hash.AddNumber(static_cast<uint64_t>(options.num_positions));
  hash.AddNumber(options.seed);
}

void AddOptions(ContentHash& hash, const FinetuneOptions& options) {
  hash.Add(plan::FinetunePassNames(options.passes));
  hash.AddNumber(options.op_types.size());
  for (const std::string& op_type : options.op_types) hash.Add(op_type);
  hash.AddNumber(options.adds_biases ? 1 : 0);
  hash.AddNumber(options.num_steps);
  AddGatherOptions(hash, options.gather);
  hash.AddNumber(std::bit_cast<uint64_t>(options.tuner.ridge));
  hash.AddNumber(static_cast<uint64_t>(options.tuner.num_rounds));
  hash.AddNumber(options.tuner.activation_order ? 1 : 0);
  hash.AddNumber(options.tuner.refresh_scales ? 1 : 0);
}

}  // namespace

std::string JournalKey(const graph::Model& float_model, const plan::ResolvedPlan& resolved,
                       const FinetuneOptions& options, uint64_t samples) {
  ContentHash request;
  request.Add(plan::ToJson(resolved.plan));
  AddParameters(request, resolved);
  AddOptions(request, options);
  return fmt::format("Bitpress {}, ONNX Runtime {}, model {:016x}, plan {:016x}, samples {:016x}",
                     Version(), runtime::OrtVersion(), float_model.Fingerprint(), request.value(),
                     samples);
}

std::string MomentsKey(const plan::ResolvedPlan& resolved, const FinetuneOptions& options) {
  plan::QuantPlan activations = resolved.plan;
  activations.config = {};
  std::erase_if(activations.tensors,
                [](const plan::TensorPlan& row) { return row.role != plan::Role::kActivation; });
  ContentHash hash;
  hash.Add(plan::ToJson(activations));
  AddScales(hash, resolved);
  AddGatherOptions(hash, options.gather);
  // ONNX Runtime fuses other operators, and rounds otherwise, where other layers are observed in
  // one pass.
  hash.AddNumber(options.gather.memory_limit);
  hash.AddNumber(options.gather.is_spilled ? 1 : 0);
  return fmt::format("Bitpress {}, ONNX Runtime {}, activations {:016x}", Version(),
                     runtime::OrtVersion(), hash.value());
}

}  // namespace bitpress::finetune
