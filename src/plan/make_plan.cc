#include "plan/make_plan.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/error.h"
#include "ops/compute_ops.h"
#include "ops/layer_roles.h"
#include "ops/operator_traits.h"
#include "ops/quantizer_nodes.h"
#include "plan/bit_budget.h"
#include "plan/dynamic_rows.h"
#include "plan/joined_operators.h"
#include "plan/masked_values.h"
#include "plan/mixed_values.h"
#include "plan/pair_safety.h"
#include "plan/plan_caches.h"
#include "plan/plan_rows.h"
#include "plan/qdq_values.h"

namespace bitpress::plan {
namespace {

using graph::Model;
using graph::Node;

// Returns whether the node normalizes along one axis. Blocks run along it, as Quark's
// RefineBlockAxis has it.
bool IsSoftmax(const Node& node) {
  return node.op_type() == "Softmax" || node.op_type() == "LogSoftmax";
}

class Planner {
 public:
  Planner(const QuantConfig& config, const Model& model)
      : model_(model),
        nodes_(model),
        rules_(config, model),
        rows_(model, rules_),
        placement_(ResolvePlacement(config)) {
    if (placement_ == Placement::kAll) {
      masked_ = MaskedValues(model);
      mixed_ = MixedValues(model);
    }
    plan_.config = config;
    plan_.operators = config.operators;
    plan_.rewrites = ResolveRewrites(config);
    const auto opsets = model.OpsetImports();
    const auto standard = opsets.find("");
    plan_.opset = standard == opsets.end() ? 0 : standard->second;
  }

  QuantPlan Run() {
    rules_.General();  // throws if the operator set lacks a format, even if nothing uses that
    PlannedCaches caches = PlanCaches(plan_.config, model_, rules_, rows_, nodes_);
    plan_.caches = std::move(caches.caches);
    appended_ = std::move(caches.appended);
    if (placement_ == Placement::kQdq) PlanQdqValues();
    for (const Node& node : model_.AllNodes()) {
      if (ops::IsQuantizer(node)) continue;
      for (size_t i = 0; i < node.num_inputs(); ++i) {
        if (!node.input(i).empty()) PlanInput(node, i);
      }
      if (placement_ == Placement::kAll) PlanOutputs(node);
    }
    if (plan_.config.dual_quant) PutInRows();
    MarkPairSafe(plan_, model_, rules_, nodes_);
    AddRoles();
    return std::move(plan_);
  }

  const std::vector<std::string>& unmatched() const { return rules_.unmatched(); }

 private:
  // Adds the use to the row of the same value and treatment, or adds such a row.
  void Add(TensorPlan row, const Node& node, size_t input) {
    TensorPlan& target = RowLike(std::move(row));
    target.uses.push_back({nodes_.KeyOf(node), node.op_type(), static_cast<int64_t>(input)});
  }

  TensorPlan& RowLike(TensorPlan row) {
    for (const size_t i : rows_of_value_[row.value]) {
      const TensorPlan& known = plan_.tensors[i];
      row.uses = known.uses;
      row.is_graph_output = known.is_graph_output;
      // The scale of products belongs to one node's input and weight.
      if (known == row && !row.has_scale_of_products()) return plan_.tensors[i];
    }
    row.uses.clear();
    row.is_graph_output = false;
    rows_of_value_[row.value].push_back(plan_.tensors.size());
    plan_.tensors.push_back(std::move(row));
    return plan_.tensors.back();
  }

  // Adds the rows of placement qdq: the values that it chose, with all their readers.
  void PlanQdqValues() {
    for (TensorPlan& row : QdqRows(model_, rules_, rows_, nodes_)) {
      // Products of 32-bit codes do not fit 32 bits, so their bias stays float.
      if (row.integer && row.Spec().element_bits <= 16) integer_values_.insert(row.value);
      qdq_values_.insert(row.value);
      rows_of_value_[row.value].push_back(plan_.tensors.size());
      plan_.tensors.push_back(std::move(row));
    }
  }

  // Returns whether the placement has a row for what this node reads.
  bool IsPlanned(const Node& node, const std::string& value) const {
    return qdq_values_.contains(value) &&
           (JoinsQdq(rules_, node, value) || !rules_.For(node, value).excluded.empty());
  }

  void PlanInput(const Node& node, size_t input) {
    const std::string& value = node.input(input);
    if (const auto found = appended_.find({nodes_.KeyOf(node), input}); found != appended_.end()) {
      return Add(found->second, node, input);
    }
    if (std::optional<TensorPlan> row = DynamicRow(model_, rules_, rows_, node, input)) {
      return Add(std::move(*row), node, input);
    }
    const std::optional<ops::Operand> operand = ops::OperandOf(node, input, rows_.RankOf(value));
    if (!operand) {
      if (std::optional<TensorPlan> table = rows_.Table(node, input)) {
        Add(*std::move(table), node, input);
      } else if (placement_ == Placement::kAll) {
        PlanOtherInput(node, input);
      } else if (std::optional<TensorPlan> left = rows_.FloatConstant(node, input)) {
        Add(*std::move(left), node, input);
      }
      return;
    }
    if (operand->slot == ops::Slot::kBias) {
      Add(rows_.Bias(node, value, *operand, HasIntegerProduct(node)), node, input);
    } else if (model_.IsInitializer(value)) {
      Add(rows_.Weight(node, input, {operand->slot, BlockAxis(node, value, *operand)}), node,
          input);
    } else if (operand->slot == ops::Slot::kKernel || operand->slot == ops::Slot::kStack ||
               rows_.IsQuantizedConstant(value)) {
      Add(rows_.DynamicWeight(node, value), node, input);
    } else if (!IsPlanned(node, value)) {
      Add(UnlessJoined(rows_.Activation(node, value, BlockAxis(node, value, *operand)), node,
                       input),
          node, input);
    }
  }

  // Returns the row, or that of a float where the value lies between operators of float_between.
  TensorPlan UnlessJoined(TensorPlan row, const Node& node, size_t input) {
    const QuantConfig& config = plan_.config;
    if (!row.is_quantized() || !IsBetween(model_, node, input, config.float_between)) return row;
    if (row.Spec().is_blocked() && !config.float_between_blocks) return row;
    // A quantizer of another format stands there, too.
    const std::optional<Node> producer = model_.Producer(row.value);
    if (config.dual_quant && GivenRow(*producer, row)) return row;
    joined_.insert(nodes_.KeyOf(node));
    return RowMaker::Float(row.value, row.role,
                           fmt::format("computed as one with {}", node.op_type()));
  }

  // Returns the axis that the blocks of an operand run along.
  int64_t BlockAxis(const Node& node, const std::string& value, const ops::Operand& operand) const {
    return ops::TraitsOf(node).is_convolution() ? RequestedAxis(node, value, operand.axis)
                                                : operand.axis;
  }

  // Returns the axis that the configuration asks for, for the blocks of a value, else `fallback`.
  // If the value has no such axis, it is the last one.
  int64_t RequestedAxis(const Node& node, const std::string& value, int64_t fallback) const {
    const std::optional<int64_t>& request = rules_.For(node, value).config.block_axis;
    const int64_t rank = rows_.RankOf(value);
    if (!request || rank < 1) return fallback;
    return *request >= -rank && *request < rank ? (*request + rank) % rank : rank - 1;
  }

  // Returns whether input and weight are integers with one scale, or one for each channel. ONNX
  // Runtime then adds the bias to their products as an integer with the product of both scales.
  bool HasIntegerProduct(const Node& node) const {
    const std::string& input = node.input(0);
    return integer_values_.contains(input) && IsPlanned(node, input) &&
           rows_.MultipliesIntegers(node);
  }

  // Adds the row of an input of an operator that does not multiply, for placement all.
  void PlanOtherInput(const Node& node, size_t input) {
    const std::string& value = node.input(input);
    const graph::ValueInfo info = model_.InfoOf(value);
    if (!IsFloat(info.type) || ops::TraitsOf(node).Is(ops::kReadsShape)) return;
    if (model_.IsInitializer(value)) {
      // Scalars such as the limits of a Clip are parameters of the operator and stay as they are.
      if (info.shape.empty()) return;
      Add(RowMaker::Float(value, Role::kWeight,
                          fmt::format("a constant of {}, which does not multiply", node.op_type())),
          node, input);
      return;
    }
    Add(UnlessJoined(DefaultAxisRow(node, value), node, input), node, input);
  }

  // Returns the row of a value around an operator that does not multiply, for placement all.
  TensorPlan DefaultAxisRow(const Node& node, const std::string& value) const {
    const int64_t rank = rows_.RankOf(value);
    const Treatment& treatment = rules_.For(node, value);
    const bool shares_scale = treatment.activation && (treatment.activation->is_blocked() ||
                                                       treatment.activation->is_integer() ||
                                                       treatment.config.activation_scaled);
    if (shares_scale && treatment.excluded.empty() && masked_.contains(value)) {
      return RowMaker::Float(value, Role::kActivation,
                             "it holds masked elements, beside which all others would vanish");
    }
    // Scales of integers follow from samples, which say more (calibrate/mixed_concats.h).
    const bool has_blocks = treatment.activation && treatment.activation->is_blocked();
    if (has_blocks && treatment.excluded.empty() && mixed_.contains(value)) {
      return RowMaker::Float(
          value, Role::kActivation,
          "it holds scores beside other numbers, which would make zeros of them");
    }
    if (rank < 0 && has_blocks) {
      return RowMaker::Float(value, Role::kActivation,
                             treatment.excluded.empty()
                                 ? "its rank is not known, so neither is the axis"
                                 : treatment.excluded);
    }
    // Recurrent operators read [time, batch, features], so that the last axis is right.
    int64_t axis = rank == 1                            ? 0
                   : ops::TraitsOf(node).is_recurrent() ? rank - 1
                                                        : RequestedAxis(node, value, 1);
    if (IsSoftmax(node) && node.input(0) == value) {
      // Before opset 13 the default axis was 1.
      axis = node.GetInt("axis", plan_.opset >= 13 ? -1 : 1);
    }
    return rows_.Activation(node, value, axis);
  }

  // Tells each reader's role and layer.
  void AddRoles() {
    const ops::LayerRoles roles(model_);
    if (roles.all().empty()) return;
    bool is_decoder = false;
    for (TensorPlan& row : plan_.tensors) {
      for (TensorUse& use : row.uses) {
        const std::optional<ops::LayerPlace> place = roles.Of(nodes_.Find(use));
        if (!place) continue;
        use.role = ops::LayerRoleName(place->role);
        use.layer = place->layer;
        is_decoder = is_decoder || place->role == ops::LayerRole::kLmHead;
      }
    }
    if (is_decoder) UseErrorsOfElements();
  }

  // Layers of decoders read what a norm gives, which has no mean: the error of elements is that of
  // products there (docs/benchmarks/weights.md).
  void UseErrorsOfElements() {
    for (TensorPlan& row : plan_.tensors) {
      if (row.role != Role::kWeight || !row.integer) continue;
      if (row.integer->range.kind == RangeMethod::Kind::kAuto) {
        row.integer->range.kind = RangeMethod::Kind::kMse;
      }
    }
  }

  // Puts the producer's quantizer before the reader's if their formats differ, for dual_quant.
  void PutInRows() {
    // Keys of nodes. Those that are computed as one with their producer have quantizers behind.
    std::set<std::string> quantized = joined_;
    for (const TensorPlan& row : plan_.tensors) {
      if (row.role != Role::kActivation || !row.is_quantized()) continue;
      for (const TensorUse& use : row.uses) quantized.insert(use.node);
    }
    for (TensorPlan& row : plan_.tensors) {
      if (row.role != Role::kActivation || !row.is_quantized() || row.is_dynamic()) continue;
      const std::optional<Node> producer = model_.Producer(row.value);
      if (!producer || !quantized.contains(nodes_.KeyOf(*producer))) continue;
      const std::optional<TensorPlan> given = GivenRow(*producer, row);
      if (!given) continue;
      row.through = given->format;
      row.through_axis = given->axis;
      row.through_scale_choice = given->scale_choice;
      row.through_rounding = given->rounding;
      row.through_integer = given->integer;
    }
  }

  // Returns the row that a value would have as its producer's other activations have it; nothing if
  // that is no other format than the row's, or none.
  std::optional<TensorPlan> GivenRow(const Node& producer, const TensorPlan& row) const {
    const Treatment& treatment = rules_.For(producer, row.value);
    const std::optional<formats::FormatSpec>& format = treatment.activation;
    if (!format || !treatment.excluded.empty() || format->name == row.format) return std::nullopt;
    if (IsDynamic(treatment)) return std::nullopt;
    const int64_t rank = rows_.RankOf(row.value);
    if (format->is_blocked() && rank < 1) return std::nullopt;
    // What a product gives has blocks along its columns, as Quark's RefineBlockAxis has it.
    const bool has_columns = ops::TraitsOf(producer).is_matrix_product();
    const int64_t axis = has_columns ? rank - 1
                         : rank == 1 ? 0
                                     : RequestedAxis(producer, row.value, 1);
    return RowMaker::Quantized(row.value, Role::kActivation, *format, treatment,
                               std::min(axis, rank - 1));
  }

  // Adds the quantizers of the outputs of the model and of bodies, for placement all.
  void PlanOutputs(const Node& node) {
    for (size_t i = 0; i < node.num_outputs(); ++i) {
      const std::string& value = node.output(i);
      if (value.empty() || !IsFloat(model_.InfoOf(value).type)) continue;
      if (model_.IsOutput(value)) {
        TensorPlan row = DefaultAxisRow(node, value);
        RowLike(std::move(row)).is_graph_output = true;
      }
    }
  }

  const Model& model_;
  NodeIndex nodes_;
  NodeRules rules_;
  RowMaker rows_;
  Placement placement_;
  std::set<std::string> qdq_values_;
  std::set<std::string> masked_, mixed_;  // for placement all
  // The rows of what enters caches, by the key of the node and its input.
  std::map<std::pair<std::string, size_t>, TensorPlan> appended_;
  std::set<std::string> joined_;          // keys of nodes that read floats of float_between
  std::set<std::string> integer_values_;  // the values that become integers
  QuantPlan plan_;
  std::map<std::string, std::vector<size_t>> rows_of_value_;
};

}  // namespace

QuantPlan MakePlan(const QuantConfig& config, const Model& model, std::string model_name,
                   std::vector<std::string>* unmatched) {
  Planner planner(config, model);
  QuantPlan plan = planner.Run();
  if (unmatched != nullptr) *unmatched = planner.unmatched();
  if (config.mean_bits > 0) {
    QuantConfig widened = config;
    const std::vector<Rule> rules = WideningRules(plan, model);
    widened.rules.insert(widened.rules.end(), rules.begin(), rules.end());
    plan = Planner(widened, model).Run();
    plan.config = config;
  }
  plan.model_name = std::move(model_name);
  return plan;
}

}  // namespace bitpress::plan
