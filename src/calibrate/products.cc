#include "calibrate/products.h"

#include <algorithm>
#include <cstdint>
#include <span>

#include "ops/compute_ops.h"

namespace bitpress::calibrate {
namespace {

// Returns the elements of a weight times the positions that it is read at. Products of two
// activations count as if the second had the columns that the model says, or one.
double CountOf(const graph::Model& model, const CalibrationTable& table, const graph::Node& node) {
  const auto statistics = table.tensors.find(node.input(0));
  if (statistics == table.tensors.end() || table.num_samples == 0) return 0;
  const double inputs = static_cast<double>(statistics->second.num_elements()) /
                        static_cast<double>(table.num_samples);
  if (!model.IsInitializer(node.input(1))) {
    const graph::ValueInfo info = model.InfoOf(node.input(1));
    const int64_t columns = info.shape.empty() ? 1 : info.shape.back().value;
    return inputs * static_cast<double>(std::max<int64_t>(columns, 1));
  }
  const std::span<const int64_t> dims = model.Initializer(node.input(1)).dims;
  if (dims.size() < 2) return inputs;
  double depth = 1;  // input elements for each position
  if (node.op_type() == "Conv" || node.op_type() == "FusedConv") {
    depth = static_cast<double>(dims[1]) * static_cast<double>(node.GetInt("group", 1));
    for (const int64_t step : node.GetInts("strides")) depth *= static_cast<double>(step);
  } else if (node.op_type() == "ConvTranspose") {
    depth = static_cast<double>(dims[0]);
  } else {
    const bool is_transposed = node.GetInt("transB", 0) != 0;
    depth = static_cast<double>(dims[dims.size() - (is_transposed ? 1 : 2)]);
  }
  return inputs / std::max(depth, 1.0) * static_cast<double>(NumElements(dims));
}

}  // namespace

Products::Products(const graph::Model& model, const CalibrationTable& table) {
  for (const graph::Node& node : model.AllNodes()) {
    if (ops::IsComputeOp(node)) counts_[node.output(0)] = CountOf(model, table, node);
  }
}

double Products::Sum(const std::set<std::string>& operators) const {
  double sum = 0;
  for (const std::string& output : operators) {
    const auto found = counts_.find(output);
    if (found != counts_.end()) sum += found->second;
  }
  return sum;
}

}  // namespace bitpress::calibrate
