#include "plan/added_bias.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/check.h"
#include "plan/plan_rows.h"

namespace bitpress::plan {
namespace {

bool IsRead(const TensorPlan& row, const TensorUse& use, int64_t input) {
  return std::ranges::find(row.uses, TensorUse{use.node, use.op_type, input}) != row.uses.end();
}

bool IsFactor(const TensorPlan& row) {
  return row.integer && !row.is_dynamic() && row.Spec().element_bits <= 16 &&
         row.integer->granularity != Granularity::kPerBlock;
}

// Returns whether biases become int32 where their products are integers. Plan files from before
// "default" was a word for that say "none".
bool HasBiasesOfProducts(const QuantPlan& plan) {
  return plan.config.biases != "none" ||
         std::ranges::any_of(plan.tensors, &TensorPlan::has_scale_of_products);
}

}  // namespace

void AddBiasRow(QuantPlan& plan, const graph::Model& model, const std::string& value,
                const TensorUse& use) {
  const auto weight = std::ranges::find_if(
      plan.tensors, [&](const TensorPlan& row) { return IsRead(row, use, 1); });
  BITPRESS_DCHECK(weight != plan.tensors.end());
  const bool meets_integers =
      IsFactor(*weight) && std::ranges::any_of(plan.tensors, [&](const TensorPlan& row) {
        return IsRead(row, use, 0) && IsFactor(row);
      });
  const bool is_of_integers =
      meets_integers && HasBiasesOfProducts(plan) &&
      RowMaker::WhyNoBiasOfProducts(model, NodeIndex(model).Find(use), value).empty();
  const auto other = std::ranges::find_if(plan.tensors, [](const TensorPlan& row) {
    return row.role == Role::kBias && row.is_quantized() && !row.has_scale_of_products();
  });
  TensorPlan row = RowMaker::Float(value, Role::kBias, "no other bias is quantized");
  if (other != plan.tensors.end() && (!meets_integers || other->integer)) {
    row = *other;
    // The other bias may have more dimensions, as that of an LSTM, and scales of its own.
    if (row.axis) row.axis = 0;
    row.flatten = false;
    if (row.integer) {
      row.integer->params.reset();
      row.integer->channel_params.clear();
    }
    if (row.scaled) row.scaled->scale.reset();
  } else if (is_of_integers) {
    row.reason.clear();
    row.format = "int32";
    row.integer = IntegerTreatment{};
    row.integer->granularity = weight->integer->granularity;
    if (row.integer->granularity == Granularity::kPerAxis) row.axis = 0;
  }
  row.value = value;
  row.uses = {use};
  plan.tensors.insert(weight + 1, std::move(row));
}

}  // namespace bitpress::plan
