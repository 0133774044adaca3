#include "emit/matrix_products.h"

#include <set>

#include "emit/integer_codes.h"
#include "weights/unpack_functions.h"

namespace bitpress::emit {

std::string WhyNoMatrixProduct(const graph::Model& model, const graph::Use& use, int64_t axis,
                               const std::vector<int64_t>& dims) {
  const graph::Node& node = use.node;
  if (use.input_index != 1) return "it is the left matrix of a product";
  const bool is_gemm = IsStandardOp(node, "Gemm");
  const bool is_transposed = is_gemm && node.GetInt("transB", 0) != 0;
  if (axis != (is_transposed ? 1 : 0)) return "its blocks do not run along the sums";
  if (!is_gemm) return "";
  if (node.GetInt("transA", 0) != 0 || node.GetFloat("alpha", 1) != 1) {
    return "Gemm with transA or alpha";
  }
  if (node.num_inputs() < 3 || node.input(2).empty()) return "";
  const graph::ValueInfo bias = model.InfoOf(node.input(2));
  const bool is_vector = bias.has_shape && bias.shape.size() == 1 &&
                         bias.shape[0].value == dims[static_cast<size_t>(1 - axis)];
  return is_vector && node.GetFloat("beta", 1) == 1 ? "" : "Gemm that adds more than a vector";
}

void RemoveUnusedDecoders(graph::Model& model) {
  std::set<std::string> used;
  for (const graph::Node& node : model.AllNodes()) {
    if (node.domain() == "bitpress") used.insert(node.op_type());
  }
  for (const auto& [domain, name] : model.Functions()) {
    if (domain == "bitpress" && name.starts_with(weights::kUnpackPrefix) && !used.contains(name)) {
      model.RemoveFunction(domain, name);
    }
  }
}

}  // namespace bitpress::emit
