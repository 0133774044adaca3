#include "plan/shift_conditions.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "base/error.h"

namespace bitpress::plan {
namespace {

using graph::Node;

// Returns the binary logarithm of a row's scale, if that is one known power of two.
std::optional<double> Log2Scale(const TensorPlan* row) {
  if (row == nullptr) return std::nullopt;
  const std::vector<formats::QParams> params = ParamsOf(*row);
  if (params.size() != 1 || !IsPowerOfTwo(params[0].scale)) return std::nullopt;
  return std::log2(static_cast<double>(params[0].scale));
}

std::optional<double> Log2ScaleAt(const Node& node, const PlannedModel& planned, int64_t input) {
  return Log2Scale(planned.RowAt(planned.KeyOf(node), input));
}

// Returns the logarithms of the scales of all inputs of a node. Empty if one is not known.
std::vector<double> Log2ScalesOfInputs(const Node& node, const PlannedModel& planned) {
  std::vector<double> found;
  for (size_t i = 0; i < node.num_inputs(); ++i) {
    const std::optional<double> one = Log2ScaleAt(node, planned, static_cast<int64_t>(i));
    if (!one) return {};
    found.push_back(*one);
  }
  return found;
}

// Returns the logarithm of the scale of the products of a node, or of its only input.
std::optional<double> Log2ScaleOfProducts(const Node& node, const PlannedModel& planned) {
  double sum = 0;
  for (size_t i = 0; i < std::min<size_t>(node.num_inputs(), 2); ++i) {
    const std::optional<double> one = Log2ScaleAt(node, planned, static_cast<int64_t>(i));
    if (!one) return std::nullopt;
    sum += *one;
  }
  return sum;
}

// Returns `to` less `from` as a number of bits; nothing if one is not known.
Found Bits(std::optional<double> from, std::optional<double> to, std::string_view text) {
  if (!from || !to) return {};
  return {.numbers = {*to - *from}, .text = fmt::format("{} by {} bits", text, *to - *from)};
}

// Returns the number of bits behind the point of codes with a scale.
Found FractionBits(std::optional<double> log2_scale, std::string_view text) {
  if (!log2_scale) return {};
  const double bits = 0.0 - *log2_scale;
  return {.numbers = {bits}, .text = fmt::format("{} with {} bits behind the point", text, bits)};
}

}  // namespace

std::vector<formats::QParams> ParamsOf(const TensorPlan& row) {
  if (!row.integer) return {};
  if (row.integer->params) return {*row.integer->params};
  return row.integer->channel_params;
}

bool IsPowerOfTwo(float scale) {
  int exponent = 0;
  return std::frexp(scale, &exponent) == 0.5F;
}

Found ShiftOf(const Node& node, const PlannedModel& planned) {
  return Bits(Log2ScaleOfProducts(node, planned), Log2Scale(planned.RowOfOutput(node)),
              "products that are shifted");
}

Adjusted ShiftedBy(const Node& node, const PlannedModel& planned) {
  const TensorPlan* const second = planned.RowAt(planned.KeyOf(node), 1);
  if (second != nullptr && second->role == Role::kWeight) return {second, -1};
  return {planned.RowOfOutput(node), 1};
}

Adjusted OutputRaises(const Node& node, const PlannedModel& planned) {
  return {planned.RowOfOutput(node), 1};
}

Adjusted OutputLowers(const Node& node, const PlannedModel& planned) {
  return {planned.RowOfOutput(node), -1};
}

Adjusted BiasRaises(const Node& node, const PlannedModel& planned) {
  return {planned.RowAt(planned.KeyOf(node), 2), 1};
}

Adjusted BiasLowers(const Node& node, const PlannedModel& planned) {
  return {planned.RowAt(planned.KeyOf(node), 2), -1};
}

Adjusted FirstInputLowers(const Node& node, const PlannedModel& planned) {
  return {planned.RowAt(planned.KeyOf(node), 0), -1};
}

Found BiasShiftOf(const Node& node, const PlannedModel& planned) {
  return Bits(Log2ScaleOfProducts(node, planned), Log2ScaleAt(node, planned, 2),
              "a bias that is shifted to the products");
}

Found BiasToOutputOf(const Node& node, const PlannedModel& planned) {
  return Bits(Log2ScaleAt(node, planned, 2), Log2Scale(planned.RowOfOutput(node)),
              "a bias that is finer than the output");
}

Found InputSpreadOf(const Node& node, const PlannedModel& planned) {
  const std::vector<double> inputs = Log2ScalesOfInputs(node, planned);
  if (inputs.empty()) return {};
  return Bits(std::ranges::min(inputs), std::ranges::max(inputs), "inputs whose scales differ");
}

Adjusted FinestInputOf(const Node& node, const PlannedModel& planned) {
  Adjusted finest{nullptr, -1};
  std::optional<double> least;
  for (size_t i = 0; i < node.num_inputs(); ++i) {
    const TensorPlan* const row = planned.RowAt(planned.KeyOf(node), static_cast<int64_t>(i));
    const std::optional<double> scale = Log2Scale(row);
    if (!scale || (least && *scale >= *least)) continue;
    least = scale;
    finest.row = row;
  }
  return finest;
}

Found SumShiftOf(const Node& node, const PlannedModel& planned) {
  const std::vector<double> inputs = Log2ScalesOfInputs(node, planned);
  if (inputs.empty()) return {};
  return Bits(std::ranges::max(inputs), Log2Scale(planned.RowOfOutput(node)),
              "a sum that is shifted");
}

Found InputFractionOf(const Node& node, const PlannedModel& planned) {
  return FractionBits(Log2ScaleAt(node, planned, 0), "an input");
}

Found OutputFractionOf(const Node& node, const PlannedModel& planned) {
  return FractionBits(Log2Scale(planned.RowOfOutput(node)), "an output");
}

}  // namespace bitpress::plan
