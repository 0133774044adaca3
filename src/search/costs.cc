#include "search/costs.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <numeric>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/words.h"
#include "emit/apply_plan.h"
#include "ops/compute_ops.h"
#include "ops/layer_roles.h"
#include "ops/operator_traits.h"

namespace bitpress::search {
namespace {

constexpr std::array<std::pair<std::string_view, CostKind>, 4> kCosts{
    {{"bits", CostKind::kBits},
     {"bytes", CostKind::kBytes},
     {"mac_bits", CostKind::kMacBits},
     {"time", CostKind::kTime}}};
constexpr std::array<std::pair<std::string_view, CostKind>, 4> kLabels{
    {{"bits of a weight, scales included", CostKind::kBits},
     {"bytes of the model", CostKind::kBytes},
     {"bits of the weight times bits of the activation", CostKind::kMacBits},
     {"time of inference in parts of the float model's", CostKind::kTime}}};

enum class Binding { kNone, kQkv, kGateUp };
constexpr std::array<std::pair<std::string_view, Binding>, 3> kBindings{
    {{"none", Binding::kNone}, {"qkv", Binding::kQkv}, {"gate_up", Binding::kGateUp}}};

double BitsOf(const std::string& format, double float_bits) {
  return format == "none" ? float_bits : formats::FindFormat(format).BitsPerElement();
}

// Returns the constants that a node multiplies with.
std::vector<std::string> WeightsOf(const graph::Model& model, const graph::Node& node) {
  std::vector<std::string> weights;
  for (size_t i = 0; i < node.num_inputs(); ++i) {
    const std::string& input = node.input(i);
    if (input.empty() || !model.IsInitializer(input)) continue;
    const auto rank = static_cast<int64_t>(model.InfoOf(input).shape.size());
    const auto operand = ops::OperandOf(node, i, rank);
    if (operand && operand->slot != ops::Slot::kBias) weights.push_back(input);
  }
  return weights;
}

// Returns the bits of an element of a node's operands, which have one type. The types of some
// activations may be unknown.
double FloatBitsOf(const graph::Model& model, const graph::Node& node) {
  for (size_t i = 0; i < node.num_inputs(); ++i) {
    if (node.input(i).empty()) continue;
    const size_t bits = ElementBits(model.InfoOf(node.input(i)).type);
    if (bits > 0) return static_cast<double>(bits);
  }
  return 32;
}

// Returns a text that all layers have which get one format; "" for a layer that none is bound to.
std::string BondOf(const std::optional<ops::LayerPlace>& place, const Bindings& bindings) {
  using ops::LayerRole;
  if (!place || !place->block) return "";
  const auto is_one_of = [&](std::initializer_list<LayerRole> roles) {
    return std::ranges::find(roles, place->role) != roles.end();
  };
  const bool is_bound = (bindings.qkv && is_one_of({LayerRole::kAttnQ, LayerRole::kAttnK,
                                                    LayerRole::kAttnV, LayerRole::kAttnKV})) ||
                        (bindings.gate_up && is_one_of({LayerRole::kMlpGate, LayerRole::kMlpUp}));
  return is_bound ? fmt::format("{}", *place->block) : "";
}

// Moves all layers and weights of one group into another one.
void Merge(LayerGroup& from, LayerGroup& into) {
  into.layers.insert(into.layers.end(), from.layers.begin(), from.layers.end());
  std::ranges::sort(into.layers);
  into.weights.insert(into.weights.end(), from.weights.begin(), from.weights.end());
  from = {};
}

}  // namespace

std::string_view CostName(CostKind kind) { return WordOf<CostKind>(kCosts, kind); }

std::string_view CostLabel(CostKind kind) { return WordOf<CostKind>(kLabels, kind); }

CostKind ParseCostKind(std::string_view word) { return ParseWord<CostKind>(kCosts, word, "cost"); }

Bindings ParseBindings(std::string_view words) {
  Bindings bindings;
  for (const std::string& word : Split(words, ',')) {
    switch (ParseWord<Binding>(kBindings, Trim(word), "binding")) {
      case Binding::kNone:
        break;
      case Binding::kQkv:
        bindings.qkv = true;
        break;
      case Binding::kGateUp:
        bindings.gate_up = true;
        break;
    }
  }
  return bindings;
}

std::string BindingsText(const Bindings& bindings) {
  if (bindings.qkv && bindings.gate_up) return "qkv,gate_up";
  return bindings.qkv ? "qkv" : bindings.gate_up ? "gate_up" : "none";
}

std::vector<LayerGroup> GroupLayers(const graph::Model& model, const Sensitivity& sensitivity,
                                    const Bindings& bindings) {
  const plan::NodeIndex index(model);
  const bool is_bound = bindings.qkv || bindings.gate_up;
  const ops::LayerRoles roles = is_bound ? ops::LayerRoles(model) : ops::LayerRoles();
  std::vector<LayerGroup> groups;
  // Layers with a key in common are one group. A key is a weight, or what binds layers.
  using Key = std::pair<bool, std::string>;
  std::map<Key, size_t> group_of;
  for (size_t i = 0; i < sensitivity.layers.size(); ++i) {
    const LayerLoss& layer = sensitivity.layers[i];
    const graph::Node node = index.Find({layer.node, layer.op_type, 0});
    std::vector<Key> keys;
    for (const std::string& weight : WeightsOf(model, node)) keys.emplace_back(true, weight);
    const std::string bond = BondOf(roles.Of(node), bindings);
    if (!bond.empty()) keys.emplace_back(false, bond);
    std::set<size_t> known;
    for (const Key& key : keys) {
      if (const auto found = group_of.find(key); found != group_of.end()) {
        known.insert(found->second);
      }
    }
    const size_t group = known.empty() ? groups.size() : *known.begin();
    if (known.empty()) groups.emplace_back().float_bits = FloatBitsOf(model, node);
    known.erase(group);
    for (const size_t other : known) Merge(groups[other], groups[group]);
    for (auto& [key, place] : group_of) {
      if (known.contains(place)) place = group;
    }
    groups[group].layers.push_back(i);
    for (const Key& key : keys) {
      if (group_of.emplace(key, group).second && key.first) {
        groups[group].weights.push_back(key.second);
      }
    }
  }
  std::erase_if(groups, [](const LayerGroup& group) { return group.layers.empty(); });
  return groups;
}

std::map<std::string, uint64_t> StoredWeightBytes(const graph::Model& model,
                                                  const plan::ResolvedPlan& part,
                                                  ThreadPool& pool) {
  graph::Model quantized = model.Clone();
  emit::ApplyOptions options;
  std::map<std::string, uint64_t> bytes;
  for (const auto& weight : emit::ApplyPlan(quantized, part, options, pool).weights) {
    bytes[weight->value] += weight->stored_bytes;
  }
  return bytes;
}

CostModel::CostModel(CostKind kind, const graph::Model& model, const Space& space,
                     const Sensitivity& sensitivity, std::vector<LayerGroup> groups,
                     std::vector<std::map<std::string, uint64_t>> stored, uint64_t file_bytes)
    : kind_(kind),
      model_(model),
      space_(space),
      sensitivity_(sensitivity),
      groups_(std::move(groups)),
      stored_(std::move(stored)) {
  double total = 0;
  switch (kind) {
    case CostKind::kBits:
      // An eighth of the number of elements: stored bytes divided by it are bits of an element.
      for (const LayerGroup& group : groups_) total += FloatBytesOf(group) / group.float_bits;
      unit_ = total;
      break;
    case CostKind::kBytes:
      for (const LayerGroup& group : groups_) total += FloatBytesOf(group);
      fixed_ = static_cast<double>(file_bytes) - total;
      break;
    case CostKind::kMacBits:
      for (const LayerLoss& layer : sensitivity.layers) total += layer.num_macs;
      unit_ = total;
      break;
    case CostKind::kTime:
      for (const LayerLoss& layer : sensitivity.layers) total += layer.time_ms.value();
      unit_ = total;
      break;
  }
  if (unit_ <= 0) {
    Fail(ErrorCode::kInvalidArgument, "the layers have nothing to count as {}: {}", CostName(kind),
         kind == CostKind::kMacBits ? "no products" : "no constant weights");
  }
}

double CostModel::FloatBytesOf(const LayerGroup& group) const {
  double bytes = 0;
  for (const std::string& weight : group.weights) {
    bytes += static_cast<double>(model_.Initializer(weight).bytes.size());
  }
  return bytes;
}

double CostModel::BytesOf(const LayerGroup& group, std::span<const size_t> combination) const {
  double bytes = 0;
  for (const std::string& weight : group.weights) {
    double least = static_cast<double>(model_.Initializer(weight).bytes.size());
    for (const size_t part : combination) {
      if (space_.parts[part].side == Side::kActivations) continue;
      const auto found = stored_[part].find(weight);
      if (found != stored_[part].end()) least = static_cast<double>(found->second);
    }
    bytes += least;
  }
  return bytes;
}

double CostModel::Of(const LayerGroup& group, std::span<const size_t> combination) const {
  if (kind_ == CostKind::kBits) return BytesOf(group, combination) / unit_;
  if (kind_ == CostKind::kBytes) return BytesOf(group, combination);
  double cost = 0;
  for (const size_t index : group.layers) {
    const LayerLoss& layer = sensitivity_.layers[index];
    double time = layer.time_ms.value_or(0);
    double weight_bits = group.float_bits;
    double activation_bits = group.float_bits;
    for (const size_t part : combination) {
      if (!layer.parts[part].is_there) continue;
      const auto& [side, candidate] = space_.parts[part];
      if (side != Side::kActivations)
        weight_bits = BitsOf(candidate.config.weights, group.float_bits);
      const bool has_activations =
          !ops::TraitsNamed(layer.op_type).has_weights_only();  // those stay float
      if (side != Side::kWeights && has_activations) {
        activation_bits = BitsOf(candidate.config.activations, group.float_bits);
      }
      time += layer.parts[part].time_ms.value_or(0) - layer.time_ms.value_or(0);
    }
    // A layer without weights multiplies two activations.
    if (group.weights.empty()) weight_bits = activation_bits;
    cost += kind_ == CostKind::kTime ? time : layer.num_macs * weight_bits * activation_bits;
  }
  return cost / unit_;
}

double CostModel::NoiseOf(const LayerGroup& group, std::span<const size_t> combination) const {
  double noise = 0;
  for (const size_t index : group.layers) {
    for (const size_t part : combination) noise += sensitivity_.layers[index].parts[part].noise();
  }
  return noise;
}

}  // namespace bitpress::search
