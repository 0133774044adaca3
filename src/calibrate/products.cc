#include "calibrate/products.h"

#include "ops/multiply_adds.h"
#include "ops/operator_traits.h"

namespace bitpress::calibrate {
namespace {

// Returns the products of a sample. The statistics of the input say how large the dimensions are
// that the model does not know.
double CountOf(const graph::Model& model, const CalibrationTable& table, const graph::Node& node) {
  const auto statistics = table.tensors.find(node.input(0));
  if (statistics == table.tensors.end() || table.num_samples == 0) return 0;
  const ops::ProductShapes shapes = ops::KnownShapes(model, node);
  const double inputs = static_cast<double>(statistics->second.num_elements()) /
                        static_cast<double>(table.num_samples);
  return ops::MultiplyAdds(node, shapes) * inputs / static_cast<double>(NumElements(shapes.data));
}

}  // namespace

Products::Products(const graph::Model& model, const CalibrationTable& table) {
  for (const graph::Node& node : model.AllNodes()) {
    if (ops::TraitsOf(node).is_product()) counts_[node.output(0)] = CountOf(model, table, node);
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
