#include "calibrate/shrink_file.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "calibrate/leave_float.h"
#include "plan/qdq_placement.h"

namespace bitpress::calibrate {
namespace {

using plan::TensorPlan;

constexpr std::string_view kReason =
    "its quantizers take more bytes than the file of the float model has room for";

// Returns about the bytes of a QuantizeLinear, a DequantizeLinear, their scale and their zero
// point, whose names all begin with the value's.
uint64_t BytesOfPair(const std::string& value) { return 11 * value.size() + 170; }

// Returns about the bytes of a weight's DequantizeLinear, scales and zero points.
uint64_t BytesOfDecoder(const TensorPlan& row, const graph::InitializerView& weight) {
  const bool is_per_tensor = row.integer->granularity == plan::Granularity::kPerTensor;
  const uint64_t num_scales =
      is_per_tensor || weight.dims.empty() ? 1 : static_cast<uint64_t>(weight.dims[0]);
  return 7 * row.value.size() + 120 + 5 * num_scales;
}

// Returns the elements of the weights of operators, which are given by their first outputs.
double WeightsOf(const graph::Model& model, const std::set<std::string>& operators) {
  double elements = 0;
  for (const std::string& output : operators) {
    const auto node = model.Producer(output);
    if (!node || node->num_inputs() < 2 || !model.IsInitializer(node->input(1))) continue;
    elements += static_cast<double>(NumElements(model.Initializer(node->input(1)).dims));
  }
  return elements;
}

// Values that share a scale, which become floats together.
struct ProductGroup {
  std::set<std::string> values;
  double bytes_of_product = 0;  // bytes that they save for each element of a weight that they cost
};

std::vector<ProductGroup> SortedGroups(const plan::ResolvedPlan& resolved,
                                       const graph::Model& model,
                                       const std::set<std::string>& integers) {
  std::map<std::string, size_t> index;
  std::vector<ProductGroup> groups;
  for (const TensorPlan& row : resolved.plan.tensors) {
    if (row.role != plan::Role::kActivation || !row.integer || !integers.contains(row.value)) {
      continue;
    }
    const auto [found, is_new] = index.try_emplace(plan::ScaleRootOf(row), groups.size());
    if (is_new) groups.emplace_back();
    groups[found->second].values.insert(row.value);
  }
  const double all = WeightsOf(model, plan::NeededValues(model, integers).operators);
  for (ProductGroup& group : groups) {
    std::set<std::string> rest = integers;
    for (const std::string& value : group.values) rest.erase(value);
    const plan::NeededQdq needed = plan::NeededValues(model, rest);
    uint64_t bytes = 0;
    for (const std::string& value : integers) bytes += BytesOfPair(value);
    for (const plan::QdqValue& value : needed.values) bytes -= BytesOfPair(value.name);
    group.bytes_of_product =
        static_cast<double>(bytes) / (1 + all - WeightsOf(model, needed.operators));
  }
  std::ranges::stable_sort(groups, std::ranges::greater(), &ProductGroup::bytes_of_product);
  return groups;
}

size_t LeaveSmallWeights(plan::ResolvedPlan& resolved, const graph::Model& model) {
  size_t num_left = 0;
  for (TensorPlan& row : resolved.plan.tensors) {
    if (row.role != plan::Role::kWeight || !row.integer || !model.IsInitializer(row.value))
      continue;
    const graph::InitializerView weight = model.Initializer(row.value);
    const uint64_t saved = 3 * static_cast<uint64_t>(NumElements(weight.dims));
    if (saved > BytesOfDecoder(row, weight)) continue;
    resolved.left_float.emplace_back(row.value, "file size: its scales take more bytes than it");
    MakeFloatRow(row, resolved.left_float.back().second);
    ++num_left;
  }
  return num_left;
}

}  // namespace

size_t ShrinkFile(plan::ResolvedPlan& resolved, const graph::Model& model, uint64_t bytes) {
  const std::set<std::string> integers = IntegerValues(resolved);
  std::map<std::string, std::string> reasons;
  std::set<std::string> left;
  uint64_t saved = 0;
  for (const ProductGroup& group : SortedGroups(resolved, model, integers)) {
    if (saved >= bytes) break;
    for (const std::string& value : group.values) {
      reasons[value] = kReason;
      left.insert(value);
    }
    saved = 0;
    for (const std::string& value : left) saved += BytesOfPair(value);
    for (const std::string& value : IdleValues(model, integers, left)) saved += BytesOfPair(value);
  }
  if (!left.empty()) return LeaveFloat(resolved, model, reasons, "file size");
  return LeaveSmallWeights(resolved, model);
}

}  // namespace bitpress::calibrate
