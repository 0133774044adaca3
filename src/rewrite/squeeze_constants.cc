// Pass squeeze-constants: drops leading dimensions of 1 from the constants of matrix products,
// weights of [1, K, N] and biases of [1, N], so that every later step sees the matrix and the
// vector that integer kernels, MatMulNBits and our own products take. A constant keeps its name. It
// stays as it is if one of its readers needs the dimensions, or may need them because a rank is
// unknown.
#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rewrite/passes.h"

namespace bitpress::rewrite {
namespace {

using graph::Model;
using graph::Node;

bool IsStandard(const Node& node, std::string_view op_type) {
  return node.domain().empty() && node.op_type() == op_type;
}

// Returns whether the other operand of a node of two has at least `rank` dimensions, so that
// dimensions of 1 in front of this one change nothing.
bool HasOtherRank(const Model& model, const graph::Use& use, size_t rank) {
  const graph::ValueInfo other = model.InfoOf(use.node.input(1 - use.input_index));
  return other.has_shape && other.shape.size() >= rank;
}

// Returns the least number of dimensions with which the constant means the same to a reader.
size_t LeastRank(const Model& model, const graph::Use& use, size_t rank) {
  const Node& node = use.node;
  if (IsStandard(node, "MatMul") && use.input_index == 1) {
    return HasOtherRank(model, use, rank) ? 2 : rank;
  }
  if (IsStandard(node, "Gemm") && use.input_index == 2) return 1;
  if (IsStandard(node, "Add") && HasOtherRank(model, use, rank)) {
    const std::optional<Node> producer = model.Producer(node.input(1 - use.input_index));
    if (producer && IsStandard(*producer, "MatMul")) return 1;
  }
  return rank;
}

// Returns the number of constants that changed.
size_t SqueezeConstants(Model& model) {
  size_t num_changes = 0;
  for (const std::string& name : model.InitializerNames()) {
    if (model.IsDeferred(name) || model.IsOutput(name) || model.IsInput(name)) continue;
    const std::vector<int64_t> dims = [&] {
      const auto view = model.Initializer(name).dims;
      return std::vector<int64_t>(view.begin(), view.end());
    }();
    if (dims.size() < 2 || dims[0] != 1) continue;
    const std::vector<graph::Use> uses = model.AllUses(name);
    size_t rank = uses.empty() ? dims.size() : 1;
    for (const graph::Use& use : uses) rank = std::max(rank, LeastRank(model, use, dims.size()));
    size_t num_ones = 0;
    while (dims.size() - num_ones > rank && dims[num_ones] == 1) ++num_ones;
    // A bias of [1, C, 1] is none of the last dimension.
    if (num_ones == 0 || dims.size() - num_ones > std::max<size_t>(rank, 1)) continue;
    graph::HeldInitializer squeezed = model.HoldInitializer(name);
    squeezed.dims.erase(squeezed.dims.begin(),
                        squeezed.dims.begin() + static_cast<std::ptrdiff_t>(num_ones));
    model.SetHeldInitializer(name, squeezed);
    ++num_changes;
  }
  return num_changes;
}

}  // namespace

const PreparePass kSqueezeConstants = CleanUp<SqueezeConstants>("squeeze-constants", Optimizes);

}  // namespace bitpress::rewrite
