// The cost of a choice of formats: bits, bytes, work or time. A search weighs it against the loss.
// Costs of layers add up.
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

// The unit of cost.
enum class CostKind {
  kBits,     // bits of a stored weight, scales included; the mean over all weights of layers
  kBytes,    // bytes of the model file
  kMacBits,  // bits of the weight times bits of the activation; the mean over all products
  kTime,     // time of inference in parts of the float model's; layers are measured one by one
};
std::string_view CostName(CostKind kind);   // "bits", "bytes", "mac_bits", "time"
std::string_view CostLabel(CostKind kind);  // for pictures
// Reads what CostName gives. Throws Error(kInvalidArgument).
CostKind ParseCostKind(std::string_view word);

// The layers of transformers (ops/layer_roles.h) that get one format. Programs that run several of
// them as one product need that: qkv the queries, keys and values of one attention, gate_up the two
// halves of one MLP. Nothing is bound by default, because values are more sensitive than queries
// and keys, and have few weights where heads share them: bits are best spent there.
struct Bindings {
  bool qkv = false;
  bool gate_up = false;
};
// Reads "qkv", "gate_up", both joined by a comma, or "none". Throws Error(kInvalidArgument).
Bindings ParseBindings(std::string_view words);
// Returns the words that ParseBindings reads.
std::string BindingsText(const Bindings& bindings);

// Layers that are decided together because they share a weight or are bound. Most groups have one
// layer.
struct LayerGroup {
  std::vector<size_t> layers;        // indices of Sensitivity::layers
  std::vector<std::string> weights;  // the constants that they multiply with
  double float_bits = 32;            // bits of an element before it is quantized
};
// Returns the groups of all layers.
std::vector<LayerGroup> GroupLayers(const graph::Model& model, const Sensitivity& sensitivity,
                                    const Bindings& bindings = {});

// Returns the stored bytes of each weight, by name, in the model that a part makes. Weights that
// stay float are not there. Nothing is quantized to find out.
std::map<std::string, uint64_t> StoredWeightBytes(const graph::Model& model,
                                                  const plan::ResolvedPlan& part, ThreadPool& pool);

// The costs and losses of all groups. Pure.
class CostModel {
 public:
  // Begins with the measurements of all parts. `stored` has an entry for each part. `file_bytes` is
  // the float model's size. The references must outlive this. REQUIRES: measured times for
  // CostKind::kTime.
  CostModel(CostKind kind, const graph::Model& model, const Space& space,
            const Sensitivity& sensitivity, std::vector<LayerGroup> groups,
            std::vector<std::map<std::string, uint64_t>> stored, uint64_t file_bytes);

  const std::vector<LayerGroup>& groups() const { return groups_; }
  // Returns the cost that one group adds with this combination of the space.
  double Of(const LayerGroup& group, std::span<const size_t> combination) const;
  // Returns the cost of a model whatever is chosen.
  double fixed() const { return fixed_; }
  // The loss of a model whatever is chosen, as of NoiseOf: of all that no choice is about, such as
  // embeddings and key-value caches. 0 unless it is set.
  double fixed_noise() const { return fixed_noise_; }
  void set_fixed_noise(double noise) { fixed_noise_ = noise; }
  // Returns the loss of one group, in parts of the energy of the outputs. Errors of different
  // layers add up as if they were independent.
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
  double fixed_noise_ = 0;
};

}  // namespace bitpress::search
