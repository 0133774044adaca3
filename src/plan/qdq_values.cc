#include "plan/qdq_values.h"

#include <map>
#include <optional>

#include "ops/operator_traits.h"
#include "plan/qdq_placement.h"

namespace bitpress::plan {
namespace {

using graph::Node;

class QdqPlanner {
 public:
  QdqPlanner(const graph::Model& model, const NodeRules& rules, const RowMaker& rows,
             const NodeIndex& index)
      : model_(model), rules_(rules), rows_(rows), index_(index) {}

  std::vector<TensorPlan> Run() {
    const std::vector<QdqValue> values = PlaceQdq(
        model_, [&](const Node& node) { return NodeReason(node); },
        [&](const std::string& value) { return ValueReason(value); });
    // Values that share a scale get one treatment: the first that is asked for.
    std::map<std::string, const Treatment*> special;
    for (const QdqValue& value : values) {
      if (const Treatment* asked = SpecialOf(value.name)) special.try_emplace(RootOf(value), asked);
    }
    std::vector<TensorPlan> planned;
    for (const QdqValue& value : values) {
      const auto found = special.find(RootOf(value));
      planned.push_back(RowOf(value, found == special.end() ? rules_.General() : *found->second));
    }
    return planned;
  }

 private:
  static const std::string& RootOf(const QdqValue& value) {
    return value.shares.empty() ? value.name : value.shares;
  }

  std::string NodeReason(const Node& node) const {
    if (JoinsQdq(rules_, node)) return "";
    const std::string& excluded = rules_.For(node).excluded;
    return excluded.empty() ? "its activations have another format" : excluded;
  }

  // Returns why a value stays float although the nodes around it compute on integers, or "". The
  // reason may be a rule for tensors.
  std::string ValueReason(const std::string& value) const {
    for (const Node& node : NodesAt(value)) {
      if (JoinsQdq(rules_, node) && !JoinsQdq(rules_, node, value)) return "a rule for this tensor";
    }
    const Treatment* const special = SpecialOf(value);
    return rows_.ActivationReason(value, special == nullptr ? rules_.General() : *special);
  }

  std::vector<Node> NodesAt(const std::string& value) const {
    std::vector<Node> nodes;
    for (const graph::Use& use : model_.AllUses(value)) nodes.push_back(use.node);
    if (const std::optional<Node> producer = model_.Producer(value)) nodes.push_back(*producer);
    return nodes;
  }

  // Returns the treatment that a rule asks for, if it makes another row than the configuration's.
  const Treatment* SpecialOf(const std::string& value) const {
    const TensorPlan general = Quantized(value, rules_.General());
    for (const Node& node : NodesAt(value)) {
      if (!JoinsQdq(rules_, node, value)) continue;
      const Treatment& treatment = rules_.For(node, value);
      if (Quantized(value, treatment) != general) return &treatment;
    }
    return nullptr;
  }

  static TensorPlan Quantized(const std::string& value, const Treatment& treatment) {
    return treatment.activation
               ? RowMaker::Quantized(value, Role::kActivation, *treatment.activation, treatment, 0)
               : TensorPlan();
  }

  TensorPlan RowOf(const QdqValue& value, const Treatment& treatment) const {
    TensorPlan row = Quantized(value.name, treatment);
    if (row.integer && !value.shares.empty()) {
      row.integer->shares = value.shares;
      row.integer->range = {};  // the other value's counts
    }
    row.is_graph_output = value.is_graph_output;
    for (const graph::Use& use : value.readers) {
      const bool is_excluded = !rules_.For(use.node, value.name).excluded.empty();
      const bool is_reader = is_excluded || JoinsQdq(rules_, use.node, value.name);
      if (!is_reader || ops::TraitsOf(use.node).Is(ops::kReadsShape)) continue;
      row.uses.push_back(
          {index_.KeyOf(use.node), use.node.op_type(), static_cast<int64_t>(use.input_index)});
    }
    return row;
  }

  const graph::Model& model_;
  const NodeRules& rules_;
  const RowMaker& rows_;
  const NodeIndex& index_;
};

}  // namespace

bool JoinsQdq(const NodeRules& rules, const Node& node, std::string_view value) {
  const Treatment& treatment = rules.For(node, value);
  if (!treatment.excluded.empty() || !treatment.activation || IsDynamic(treatment)) return false;
  const std::optional<formats::FormatSpec>& general = rules.General().activation;
  return treatment.activation->is_integer() || (general && !general->is_integer());
}

std::vector<TensorPlan> QdqRows(const graph::Model& model, const NodeRules& rules,
                                const RowMaker& rows, const NodeIndex& index) {
  return QdqPlanner(model, rules, rows, index).Run();
}

}  // namespace bitpress::plan
