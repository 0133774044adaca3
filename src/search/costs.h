// What a choice of formats costs: bits, bytes, work or time. Costs of layers add up.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/model.h"
#include "search/candidates.h"
#include "search/sensitivity.h"

namespace bitpress::search {

enum class CostKind {
  kBits,     // of a weight as it is stored, scales included; the mean over all weights of layers
  kBytes,    // of the model file
  kMacBits,  // bits of the weight times bits of the activation, the mean over all products
  kTime,     // of inference, in parts of the float model's: the layers' own, measured one by one
};
std::string_view CostName(CostKind kind);   // "bits", "bytes", "mac_bits", "time"
std::string_view CostLabel(CostKind kind);  // for pictures
// Throws Error(kInvalidArgument).
CostKind ParseCostKind(std::string_view word);

// Layers that are decided together because they share a weight; most have one layer.
struct LayerGroup {
  std::vector<size_t> layers;        // indices of Sensitivity::layers
  std::vector<std::string> weights;  // the constants that they multiply with
};
std::vector<LayerGroup> GroupLayers(const graph::Model& model, const Sensitivity& sensitivity);

// Stored bytes of each weight, by name, in the model that a part makes; what it leaves float is not
// there. Nothing is quantized for it.
std::map<std::string, uint64_t> StoredWeightBytes(const graph::Model& model,
                                                  const plan::ResolvedPlan& part, ThreadPool& pool);

class CostModel {
 public:
  // `stored` has an entry for each part. `file_bytes` is the float model's size. All must outlive
  // this. REQUIRES: measured times for CostKind::kTime.
  CostModel(CostKind kind, const graph::Model& model, const Space& space,
            const Sensitivity& sensitivity, std::vector<LayerGroup> groups,
            std::vector<std::map<std::string, uint64_t>> stored, uint64_t file_bytes);

  const std::vector<LayerGroup>& groups() const { return groups_; }
  // What one group adds with this combination of the space.
  double Of(const LayerGroup& group, std::span<const size_t> combination) const;
  // What a model costs whatever is chosen.
  double fixed() const { return fixed_; }
  // What it loses, in parts of the energy of the outputs: errors of different layers add up as if
  // they had nothing to do with each other.
  double NoiseOf(const LayerGroup& group, std::span<const size_t> combination) const;

 private:
  double BytesOf(const LayerGroup& group, std::span<const size_t> combination) const;
  double FloatBytesOf(const LayerGroup& group) const;

  CostKind kind_;
  const graph::Model& model_;
  const Space& space_;
  const Sensitivity& sensitivity_;
  std::vector<LayerGroup> groups_;
  std::vector<std::map<std::string, uint64_t>> stored_;
  double unit_ = 1;  // sums are divided by it
  double fixed_ = 0;
};

}  // namespace bitpress::search
