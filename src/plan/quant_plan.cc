#include "plan/quant_plan.h"

#include <algorithm>
#include <tuple>

#include "base/check.h"
#include "base/error.h"
#include "base/text.h"
#include "ops/quantizer_nodes.h"
#include "plan/plan_caches.h"

namespace bitpress::plan {
namespace {

bool IsStoredAsFloat(DataType type) {
  return type == DataType::kFloat || type == DataType::kFloat16;
}

bool HasValue(const graph::Model& model, std::string_view value) {
  return model.IsInput(value) || model.IsBodyInput(value) || model.IsInitializer(value) ||
         model.Producer(value).has_value();
}

void CheckAxis(const TensorPlan& row, const graph::ValueInfo& info) {
  if (!row.axis || !info.has_shape) return;
  const auto rank = static_cast<int64_t>(info.shape.size());
  if (*row.axis < -rank || *row.axis >= rank) {
    Fail(ErrorCode::kInvalidArgument, "axis {} is out of range for a value of rank {}", *row.axis,
         rank);
  }
}

void CheckWeight(const TensorPlan& row, const graph::Model& model) {
  if (!model.IsInitializer(row.value)) {
    Fail(ErrorCode::kInvalidArgument, "it is not a constant of the model");
  }
  const DataType type = model.InfoOf(row.value).type;
  if (!IsStoredAsFloat(type)) {
    Fail(ErrorCode::kInvalidArgument, "it is {}; only FLOAT and FLOAT16 can be quantized",
         DataTypeName(type));
  }
}

// Throws if the scales are whole multiples of those of channels, and are not those of blocks.
void CheckScaleKind(const TensorPlan& row) {
  if (!row.integer || row.integer->scale_kind != formats::ScaleKind::kLpbq) return;
  const bool fits = row.role == Role::kWeight && row.integer->is_symmetric &&
                    row.integer->granularity == Granularity::kPerBlock &&
                    ElementBits(row.Spec().onnx_type) <= 8;
  if (!fits) {
    Fail(ErrorCode::kInvalidArgument,
         "scale kind lpbq is for symmetric weights in blocks, of up to 8 bits "
         "(weight_granularity=per_block, weight_symmetric=true)");
  }
}

void CheckUse(const TensorPlan& row, const TensorUse& use, const NodeIndex& nodes,
              const graph::Model& model) {
  const graph::Node node = nodes.Find(use);
  const auto input = static_cast<size_t>(use.input);
  if (input >= node.num_inputs()) {
    Fail(ErrorCode::kInvalidArgument, "{} has {} inputs; there is no input {}", node.Describe(),
         node.num_inputs(), use.input);
  }
  if (node.input(input) != row.value && !ops::ReadsQuantized(model, node, input, row.value)) {
    Fail(ErrorCode::kInvalidArgument, "input {} of {} is '{}'", use.input, node.Describe(),
         node.input(input));
  }
}

void CheckThrough(const QuantPlan& plan, const TensorPlan& row) {
  const formats::FormatSpec spec = formats::FindFormat(row.through);
  if (spec.is_blocked() && !row.axis && !row.through_axis) {
    Fail(ErrorCode::kInvalidArgument,
         "'through' is {}, which has blocks: give their 'through_axis'", row.through);
  }
  CheckHasOperator(plan.operators, spec);
  formats::Validate(row.ThroughRow().Spec());
}

void CheckRow(const QuantPlan& plan, const TensorPlan& row, const NodeIndex& nodes,
              const graph::Model& model) {
  const formats::FormatSpec spec = row.Spec();
  if (row.role == Role::kActivation) {
    if (!HasValue(model, row.value)) {
      Fail(ErrorCode::kInvalidArgument, "the model has no value of this name");
    }
    if (model.IsInitializer(row.value)) {
      Fail(ErrorCode::kInvalidArgument, "it is a constant of the model, not an activation");
    }
    if (row.is_graph_output && !model.IsOutput(row.value)) {
      Fail(ErrorCode::kInvalidArgument, "it is not an output of the model");
    }
    if (row.is_graph_output && !model.Producer(row.value)) {
      Fail(ErrorCode::kInvalidArgument,
           "no node computes this output, so none can be put behind it");
    }
    CheckHasOperator(plan.operators, spec);
    if (!row.through.empty()) CheckThrough(plan, row);
    const DataType type = model.InfoOf(row.value).type;
    if (type == DataType::kFloat16 && !HasHalfOperator(plan.operators, spec)) {
      Fail(ErrorCode::kUnsupported,
           "it is FLOAT16, but com.amd.quark's Q/DQ pairs for {} give FLOAT", row.format);
    }
    if (type != DataType::kUndefined && !IsStoredAsFloat(type)) {
      Fail(ErrorCode::kInvalidArgument, "it is {}; only FLOAT and FLOAT16 can be quantized",
           DataTypeName(type));
    }
  } else {
    // A weight is gone if every reader has got its quantized copy.
    const bool is_replaced =
        !model.IsInitializer(row.value) && !row.uses.empty() &&
        std::all_of(row.uses.begin(), row.uses.end(), [&](const auto& use) {
          const graph::Node node = nodes.Find(use);
          const auto input = static_cast<size_t>(use.input);
          return input < node.num_inputs() && ops::ReadsQuantized(model, node, input, row.value);
        });
    if (is_replaced) return;
    CheckWeight(row, model);
  }
  CheckScaleKind(row);
  CheckAxis(row, model.InfoOf(row.value));
  if (!row.through.empty()) CheckAxis(row.ThroughRow(), model.InfoOf(row.value));
  for (const TensorUse& use : row.uses) CheckUse(row, use, nodes, model);
}

// Returns whether a node of the first type may be one of the second type that was raised to a later
// operator set.
bool IsSameOperator(const std::string& op_type, const std::string& planned) {
  return op_type == planned || (planned == "Upsample" && op_type == "Resize") ||
         (planned == "Scatter" && op_type == "ScatterElements");
}

}  // namespace

formats::FormatSpec TensorPlan::Spec() const {
  BITPRESS_DCHECK(is_quantized());
  formats::FormatSpec spec = formats::FindFormat(format);
  if (scale_choice) spec.scale_choice = *scale_choice;
  spec.rounding = rounding;
  return spec;
}

TensorPlan TensorPlan::ThroughRow() const {
  BITPRESS_DCHECK(!through.empty());
  TensorPlan row;
  row.value = value;
  row.format = through;
  row.integer = through_integer;
  const formats::FormatSpec spec = formats::FindFormat(through);
  if (spec.is_blocked()) {
    row.axis = through_axis ? through_axis : axis;
    row.scale_choice = through_scale_choice.value_or(DefaultScaleChoice(spec, Role::kActivation));
  }
  row.rounding = through_rounding;
  return row;
}

formats::IntegerSpec TensorPlan::IntegerSpec() const {
  BITPRESS_DCHECK(integer.has_value());
  return {Spec().element_type, integer->is_symmetric, integer->is_reduced, integer->scale_kind};
}

NodeIndex::NodeIndex(const graph::Model& model) {
  const std::vector<graph::Node> nodes = model.AllNodes();
  for (const graph::Node& node : nodes) ++name_counts_[node.name()];
  for (const graph::Node& node : nodes) nodes_.emplace(KeyOf(node), node);
}

std::string NodeIndex::KeyOf(const graph::Node& node) const {
  const auto found = name_counts_.find(node.name());
  const int count = found == name_counts_.end() ? 1 : found->second;
  if (!node.name().empty() && count == 1) return node.name();
  for (size_t i = 0; i < node.num_outputs(); ++i) {
    if (!node.output(i).empty()) return node.output(i);
  }
  return node.name();
}

graph::Node NodeIndex::Find(const TensorUse& use) const {
  const auto [begin, end] = nodes_.equal_range(use.node);
  if (begin == end) {
    std::vector<std::string> names;
    for (const auto& [name, node] : nodes_) names.push_back(name);
    Fail(ErrorCode::kInvalidArgument, "the model has no node '{}'{}", use.node,
         DidYouMean(use.node, names));
  }
  for (auto candidate = begin; candidate != end; ++candidate) {
    if (IsSameOperator(candidate->second.op_type(), use.op_type)) return candidate->second;
  }
  Fail(ErrorCode::kInvalidArgument, "node '{}' is a {}, not a {}", use.node,
       begin->second.op_type(), use.op_type);
}

std::optional<graph::Node> NodeIndex::Only(std::string_view key) const {
  const auto [begin, end] = nodes_.equal_range(key);
  if (begin == end || std::next(begin) != end) return std::nullopt;
  return begin->second;
}

std::string DescribeRow(const QuantPlan& plan, size_t row) {
  BITPRESS_DCHECK(row < plan.tensors.size());
  const TensorPlan& tensor = plan.tensors[row];
  return fmt::format("plan, tensors[{}] ({} '{}')", row, RoleName(tensor.role), tensor.value);
}

void CheckFits(const QuantPlan& plan, const graph::Model& model) {
  const NodeIndex nodes(model);
  std::map<std::tuple<std::string, std::string, int64_t>, size_t> row_of_use;
  for (size_t i = 0; i < plan.tensors.size(); ++i) {
    const TensorPlan& row = plan.tensors[i];
    if (!row.is_quantized()) continue;
    WithContext(DescribeRow(plan, i), [&] {
      CheckRow(plan, row, nodes, model);
      for (const TensorUse& use : row.uses) {
        const auto [seen, is_new] = row_of_use.try_emplace({use.node, use.op_type, use.input}, i);
        if (!is_new) {
          Fail(ErrorCode::kInvalidArgument, "input {} of {} '{}' is decided in tensors[{}] too",
               use.input, use.op_type, use.node, seen->second);
        }
      }
    });
  }
  CheckCachesFit(plan, nodes, model);
}

}  // namespace bitpress::plan
