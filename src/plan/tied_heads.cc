#include "plan/tied_heads.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>

#include "ops/operator_traits.h"

namespace bitpress::plan {
namespace {

using graph::InitializerView;
using graph::Node;

bool IsFloatMatrix(const graph::Model& model, const std::string& value) {
  if (!model.IsInitializer(value) || model.IsDeferred(value)) return false;
  const InitializerView view = model.Initializer(value);
  return view.type == DataType::kFloat && view.dims.size() == 2;
}

}  // namespace

bool HoldsTransposed(const graph::Model& model, const std::string& head, const std::string& table) {
  if (!IsFloatMatrix(model, head) || !IsFloatMatrix(model, table)) return false;
  const InitializerView a = model.Initializer(head);
  const InitializerView b = model.Initializer(table);
  const auto rows = static_cast<size_t>(b.dims[0]), columns = static_cast<size_t>(b.dims[1]);
  if (a.dims[0] != b.dims[1] || a.dims[1] != b.dims[0]) return false;
  // Bits are compared in tiles that fit the cache. Data of a file need not be aligned.
  constexpr size_t kTile = 64;
  const auto bits = [](const InitializerView& view, size_t i) {
    uint32_t number = 0;
    std::memcpy(&number, view.bytes.data() + i * sizeof(number), sizeof(number));
    return number;
  };
  for (size_t row = 0; row < rows; row += kTile) {
    for (size_t column = 0; column < columns; column += kTile) {
      for (size_t i = row; i < std::min(rows, row + kTile); ++i) {
        for (size_t k = column; k < std::min(columns, column + kTile); ++k) {
          if (bits(a, k * rows + i) != bits(b, i * columns + k)) return false;
        }
      }
    }
  }
  return true;
}

std::vector<TiedHead> FindTiedHeads(const graph::Model& model) {
  const std::vector<Node> nodes = model.Nodes();
  std::vector<Node> lookups;
  std::ranges::copy_if(nodes, std::back_inserter(lookups), [&](const Node& node) {
    return ops::TraitsOf(node).Is(ops::kLooksUp) && node.GetInt("axis", 0) == 0 &&
           IsFloatMatrix(model, node.input(0));
  });
  std::vector<TiedHead> tied;
  if (lookups.empty()) return tied;
  for (const Node& head : nodes) {
    const bool is_standard = head.domain().empty();
    const bool reads_columns = is_standard && head.op_type() == "MatMul";
    const bool reads_rows =
        is_standard && head.op_type() == "Gemm" && head.GetInt("transB", 0) != 0;
    if (!reads_columns && !reads_rows) continue;
    const std::string& matrix = head.input(1);
    const auto lookup = std::ranges::find_if(lookups, [&](const Node& node) {
      return reads_rows ? node.input(0) == matrix : HoldsTransposed(model, matrix, node.input(0));
    });
    if (lookup != lookups.end()) tied.push_back({head, *lookup});
  }
  return tied;
}

}  // namespace bitpress::plan
