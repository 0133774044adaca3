#include "emit/tied_tables.h"

#include <algorithm>

#include "emit/integer_codes.h"
#include "plan/tied_heads.h"

namespace bitpress::emit {
namespace {

using plan::TensorPlan;

bool IsReadBy(const TensorPlan& row, const char* op_type, int64_t input) {
  return !row.uses.empty() && std::ranges::all_of(row.uses, [&](const plan::TensorUse& use) {
    return use.op_type == op_type && use.input == input;
  });
}

// Returns whether the head's treatment is the table's with the axes exchanged.
bool IsTransposed(const TensorPlan& head, const TensorPlan& table) {
  TensorPlan turned = head;
  turned.value = table.value;
  turned.uses = table.uses;
  if (turned.axis) turned.axis = *turned.axis == 0 ? 1 : 0;
  if (turned.integer) turned.integer->is_pair_safe = turned.integer->may_be_unsigned = false;
  return turned == table && !head.flatten && !head.scaled;
}

// Returns whether the scales that both were given, if any, are those of one matrix: [blocks, rows]
// of the head, and [rows, blocks] of the table.
bool HaveOneScale(const graph::Model& model, const plan::WeightScaleTable& scales,
                  const TensorPlan& head, const TensorPlan& table) {
  const auto of_head = scales.find(plan::ScaleKeyOf(head));
  const auto of_table = scales.find(plan::ScaleKeyOf(table));
  if (of_head == scales.end() || of_table == scales.end()) return of_head == of_table;
  const bool is_per_block =
      table.integer && table.integer->granularity == plan::Granularity::kPerBlock;
  const std::vector<formats::QParams>& a = of_head->second;
  const std::vector<formats::QParams>& b = of_table->second;
  if (!is_per_block || a.size() != b.size()) return false;
  const auto num_rows = static_cast<size_t>(model.Initializer(table.value).dims[0]);
  const size_t num_blocks = b.size() / num_rows;
  for (size_t i = 0; i < b.size(); ++i) {
    if (a[i % num_blocks * num_rows + i / num_blocks] != b[i]) return false;
  }
  return true;
}

}  // namespace

std::map<const TensorPlan*, const TensorPlan*> FindTiedTables(const graph::Model& model,
                                                              const plan::ResolvedPlan& resolved) {
  std::map<const TensorPlan*, const TensorPlan*> tied;
  const auto is_candidate = [&](const TensorPlan& row) {
    return row.is_quantized() && row.role == plan::Role::kWeight;
  };
  for (const TensorPlan& table : resolved.plan.tensors) {
    if (!IsReadBy(table, "Gather", 0) || !is_candidate(table)) continue;
    for (const TensorPlan& head : resolved.plan.tensors) {
      if (IsReadBy(head, "MatMul", 1) && is_candidate(head) && !tied.contains(&head) &&
          IsTransposed(head, table) && plan::HoldsTransposed(model, head.value, table.value) &&
          HaveOneScale(model, resolved.weight_scales, head, table)) {
        tied.emplace(&head, &table);
        break;  // reports have room for one head of a table
      }
    }
  }
  return tied;
}

std::vector<graph::Node> ProductsBehindTranspose(const graph::Model& model, const graph::Use& use) {
  const graph::Node& transpose = use.node;
  std::vector<graph::Node> products;
  if (!IsStandardOp(transpose, "Transpose") || model.IsOutput(transpose.output(0)) ||
      transpose.GetInts("perm") != std::vector<int64_t>{1, 0}) {
    return products;
  }
  for (const graph::Use& reader : model.AllUses(transpose.output(0))) {
    if (!IsStandardOp(reader.node, "MatMul") || reader.input_index != 1) return {};
    products.push_back(reader.node);
  }
  return products;
}

}  // namespace bitpress::emit
