#include "plan/bit_budget.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "ops/compute_ops.h"
#include "ops/multiply_adds.h"
#include "ops/operator_traits.h"

namespace bitpress::plan {
namespace {

using formats::FormatSpec;
using graph::Model;
using graph::Node;

// Wider formats of 6 and of 8 bits. Products from codes take operands with blocks of one size.
constexpr std::string_view kSixBits = "mxfp6_e2m3", kSixBitsInShortBlocks = "mx6";
constexpr std::string_view kEightBits = "mxint8";
// One layer in so many is early.
constexpr size_t kEarlyPart = 4;

// Layers get bits in the order of their places in the network.
enum class Place { kFirst, kDepthwise, kLast, kOther };

// A tensor that a layer multiplies.
struct Counted {
  const TensorPlan* row = nullptr;
  size_t input = 0;        // of the node
  double count = 0;        // of its elements, or of the products that read it
  bool is_shared = false;  // other layers read it, too
};

struct Layer {
  Node node;
  std::string key;
  Place place = Place::kOther;
  std::vector<Counted> weights = {}, activations = {};

  std::vector<Counted>& Of(Role role) { return role == Role::kWeight ? weights : activations; }
};

// Returns the bits of an element. The last block of a row may be short, which raises them.
double BitsOfElement(const FormatSpec& spec, const std::vector<int64_t>& dims, int64_t axis,
                     bool flatten) {
  if (!spec.is_blocked()) return spec.BitsPerElement();
  int64_t length = dims[static_cast<size_t>(axis)];
  for (size_t i = static_cast<size_t>(axis) + 1; flatten && i < dims.size(); ++i) length *= dims[i];
  const double of_block = (spec.BitsPerElement() - spec.element_bits) * spec.block_size;
  const int64_t num_blocks = (length + spec.block_size - 1) / spec.block_size;
  return spec.element_bits + of_block * static_cast<double>(num_blocks) /
                                 static_cast<double>(std::max<int64_t>(1, length));
}

// Returns the bits that the row has.
double BitsOf(const TensorPlan& row, const Model& model) {
  if (!row.is_quantized()) {
    return row.role == Role::kWeight || model.InfoOf(row.value).type == DataType::kFloat16
               ? static_cast<double>(ElementBits(model.InfoOf(row.value).type))
               : 32;  // the types of some activations may be unknown
  }
  const FormatSpec spec = row.Spec();
  if (row.role != Role::kWeight || !row.axis) return spec.BitsPerElement();
  return BitsOfElement(spec, ops::KnownDims(model, row.value), *row.axis, row.flatten);
}

// Returns the bits that the layer's operand would have in another format.
double BitsIn(const FormatSpec& spec, const Counted& operand, const Layer& layer,
              const Model& model, ops::ShortAxis short_axis) {
  if (operand.row->role != Role::kWeight) return spec.BitsPerElement();
  const std::vector<int64_t> dims = ops::KnownDims(model, operand.row->value);
  const auto slot = ops::OperandOf(layer.node, operand.input, static_cast<int64_t>(dims.size()));
  if (!slot) return spec.BitsPerElement();
  const ops::WeightLayout layout =
      ops::LayoutWeight(layer.node, *slot, dims, spec.block_size, short_axis);
  return BitsOfElement(spec, dims, layout.axis, layout.flatten);
}

bool IsDepthwise(const Node& node, const Model& model) {
  if (!ops::TraitsOf(node).is_convolution() || node.GetInt("group", 1) < 2) return false;
  const std::vector<int64_t> dims = ops::KnownDims(model, node.input(1));
  return dims.size() > 1 && dims[1] == 1;
}

// The outputs of the layers behind which no other layer stands, and of those before none. Layers in
// bodies are neither.
class Ends {
 public:
  explicit Ends(const Model& model) {
    const std::vector<Node> nodes = model.Nodes();
    std::set<std::string> given;   // values that follow from samples of floats
    std::set<std::string> behind;  // values that a layer leads to
    for (const std::string& input : model.InputNames()) {
      if (IsFloat(model.InfoOf(input).type)) given.insert(input);
    }
    for (const Node& node : nodes) {
      const bool is_given = ReadsOne(node, given);
      const bool is_behind = ReadsOne(node, behind);
      const bool is_layer = ops::TraitsOf(node).takes_most_time();
      if (is_layer && is_given && !is_behind) first_.insert(node.output(0));
      for (size_t i = 0; i < node.num_outputs(); ++i) {
        if (is_given) given.insert(node.output(i));
        if (is_behind || is_layer) behind.insert(node.output(i));
      }
    }
    std::set<std::string> before;  // values that lead to a layer
    for (auto node = nodes.rbegin(); node != nodes.rend(); ++node) {
      bool is_before = false;
      for (size_t i = 0; i < node->num_outputs(); ++i) {
        is_before = is_before || before.contains(node->output(i));
      }
      const bool is_layer = ops::TraitsOf(*node).takes_most_time();
      if (is_layer && !is_before) last_.insert(node->output(0));
      if (!is_before && !is_layer) continue;
      for (size_t i = 0; i < node->num_inputs(); ++i) {
        if (!node->input(i).empty()) before.insert(node->input(i));
      }
    }
  }

  Place PlaceOf(const Node& node, const Model& model) const {
    if (first_.contains(node.output(0))) return Place::kFirst;
    if (IsDepthwise(node, model)) return Place::kDepthwise;
    return last_.contains(node.output(0)) ? Place::kLast : Place::kOther;
  }

 private:
  static bool ReadsOne(const Node& node, const std::set<std::string>& values) {
    for (size_t i = 0; i < node.num_inputs(); ++i) {
      if (values.contains(node.input(i))) return true;
    }
    return false;
  }

  std::set<std::string> first_, last_;
};

// Returns the layers with what they multiply. A shared weight is counted at the first one.
std::vector<Layer> LayersOf(const QuantPlan& plan, const Model& model) {
  const NodeIndex index(model);
  const Ends ends(model);
  std::vector<Layer> layers;
  std::map<std::string, size_t> by_key;
  std::map<std::string, size_t> num_readers;
  for (const TensorPlan& row : plan.tensors) num_readers[row.value] += row.uses.size();
  for (const TensorPlan& row : plan.tensors) {
    if (row.role == Role::kBias) continue;
    const bool is_weight = row.role == Role::kWeight;
    if (is_weight && !model.IsInitializer(row.value)) continue;
    bool is_counted = false;
    for (const TensorUse& use : row.uses) {
      const Node node = index.Find(use);
      const auto input = static_cast<size_t>(use.input);
      const auto rank = static_cast<int64_t>(model.InfoOf(row.value).shape.size());
      if (!ops::OperandOf(node, input, rank)) continue;
      const auto [known, is_new] = by_key.emplace(use.node, layers.size());
      if (is_new) layers.push_back({node, use.node, ends.PlaceOf(node, model)});
      Counted operand{&row, input, 0, is_weight && num_readers[row.value] > 1};
      if (!is_weight) {
        operand.count = ops::MultiplyAdds(node, ops::KnownShapes(model, node));
      } else if (!is_counted) {
        operand.count = 1;
        for (const int64_t dim : ops::KnownDims(model, row.value)) {
          operand.count *= static_cast<double>(dim);
        }
        is_counted = true;
      }
      layers[known->second].Of(row.role).push_back(operand);
    }
  }
  return layers;
}

// The sums that a mean is of.
struct Sums {
  double bits = 0;
  double count = 0;
  double Mean() const { return count > 0 ? bits / count : 0; }
};

Sums SumsOf(std::vector<Layer>& layers, const Model& model, Role role) {
  Sums sums;
  for (Layer& layer : layers) {
    for (const Counted& operand : layer.Of(role)) {
      sums.bits += operand.count * BitsOf(*operand.row, model);
      sums.count += operand.count;
    }
  }
  return sums;
}

// Gives the layers' weights, or their activations, wider formats.
class Widener {
 public:
  Widener(std::vector<Layer>& layers, const QuantPlan& plan, const Model& model, Role role)
      : plan_(plan), model_(model), role_(role), sums_(SumsOf(layers, model, role)) {
    const std::optional<FormatSpec> narrow = ResolveFormat(plan.config, role);
    if (!narrow) return;
    Check(*narrow);
    narrow_ = narrow->name;
    for (Layer& layer : layers) {
      Candidate candidate{&layer, &layer.Of(role), layer.place, 0, narrow->name, 0};
      bool can_widen = !candidate.operands->empty();
      for (const Counted& operand : *candidate.operands) {
        can_widen = can_widen && !operand.is_shared && operand.row->format == narrow->name;
        candidate.count += operand.count;
        candidate.bits += operand.count * BitsOf(*operand.row, model);
      }
      // An operand that cannot be counted could take any part of the budget.
      if (can_widen && candidate.count > 0) candidates_.push_back(candidate);
    }
    JoinEarlyToDepthwise();
    // Those come first that take few bits. Of layers of about one size the early ones do: what they
    // lose, no later one gives back.
    std::ranges::stable_sort(candidates_, {}, [](const Candidate& candidate) {
      const bool is_in_order = candidate.kind == Place::kDepthwise;
      return std::pair(candidate.kind, is_in_order ? 0 : candidate.Size());
    });
    Widen(*narrow);
  }

  // Appends a rule for each wider format, in the order of their names.
  void AddRules(std::vector<Rule>& rules) const {
    const std::string side = role_ == Role::kWeight ? "weight" : "activation";
    std::map<std::string, Rule> by_format;
    for (const Candidate& candidate : candidates_) {
      if (candidate.format == narrow_) continue;
      Rule& rule = by_format[candidate.format];
      rule.names.push_back(candidate.layer->key);
      rule.settings = {{side + "s", candidate.format}, {side + "_scaled", "false"}};
    }
    for (auto& [format, rule] : by_format) rules.push_back(std::move(rule));
  }

 private:
  struct Candidate {
    const Layer* layer;
    const std::vector<Counted>* operands;
    Place kind;    // that of the layer, or kDepthwise if it is early and as small as those
    double count;  // of all operands
    std::string format;
    double bits;  // in that format, of all operands

    int Size() const { return std::ilogb(count); }
  };

  void Check(const FormatSpec& narrow) const {
    if (!narrow.is_blocked()) {
      Fail(ErrorCode::kInvalidArgument,
           "setting mean_bits: it is for formats with blocks, such as mxfp4_e2m1, not for {}",
           narrow.name);
    }
    if (plan_.config.mean_bits < narrow.BitsPerElement()) {
      Fail(ErrorCode::kInvalidArgument,
           "setting mean_bits: {} bits are fewer than the {} of {}, the format of the {}s",
           plan_.config.mean_bits, narrow.BitsPerElement(), narrow.name, RoleName(role_));
    }
  }

  // A late depthwise layer must not take the bits of an early layer that needs no more.
  void JoinEarlyToDepthwise() {
    std::optional<int> largest;
    for (const Candidate& candidate : candidates_) {
      if (candidate.kind == Place::kDepthwise) {
        largest = std::max(largest.value_or(candidate.Size()), candidate.Size());
      }
    }
    const size_t num_early = candidates_.size() / kEarlyPart;
    for (Candidate& candidate : std::span(candidates_).first(largest ? num_early : 0)) {
      const bool is_other = candidate.kind == Place::kOther;
      if (is_other && candidate.Size() <= *largest) candidate.kind = Place::kDepthwise;
    }
  }

  void Widen(const FormatSpec& narrow) {
    const auto widen = [&](std::string_view format, const auto& is_next) {
      const FormatSpec wide = formats::FindFormat(format);
      if (wide.BitsPerElement() <= narrow.BitsPerElement()) return;
      if (!WhyNoOperator(plan_.operators, wide).empty()) return;
      for (Candidate& candidate : candidates_) {
        if (is_next(candidate)) TryWiden(wide, candidate);
      }
    };
    const std::string_view six =
        narrow.block_size == formats::FindFormat(kSixBitsInShortBlocks).block_size
            ? kSixBitsInShortBlocks
            : kSixBits;
    widen(six, [](const Candidate& candidate) { return candidate.kind != Place::kOther; });
    widen(six, [](const Candidate& candidate) { return candidate.kind == Place::kOther; });
    widen(kEightBits,
          [](const Candidate& candidate) { return candidate.layer->place != Place::kOther; });
  }

  void TryWiden(const FormatSpec& wide, Candidate& candidate) {
    double bits = 0;
    for (const Counted& operand : *candidate.operands) {
      bits +=
          operand.count * BitsIn(wide, operand, *candidate.layer, model_, plan_.config.short_axis);
    }
    const double sum = sums_.bits + bits - candidate.bits;
    if (sum > plan_.config.mean_bits * sums_.count) return;
    sums_.bits = sum;
    candidate.bits = bits;
    candidate.format = wide.name;
  }

  const QuantPlan& plan_;
  const Model& model_;
  Role role_;
  std::string narrow_;
  Sums sums_;
  std::vector<Candidate> candidates_;
};

}  // namespace

MeanBits MeanBitsOf(const QuantPlan& plan, const Model& model) {
  std::vector<Layer> layers = LayersOf(plan, model);
  return {SumsOf(layers, model, Role::kWeight).Mean(),
          SumsOf(layers, model, Role::kActivation).Mean()};
}

std::vector<Rule> WideningRules(const QuantPlan& plan, const Model& model) {
  std::vector<Layer> layers = LayersOf(plan, model);
  std::vector<Rule> rules;
  for (const Role role : {Role::kWeight, Role::kActivation}) {
    Widener(layers, plan, model, role).AddRules(rules);
  }
  return rules;
}

}  // namespace bitpress::plan
