// Pass lower-einsum: replaces each Einsum that multiplies an activation with a constant, and is a
// matrix product, by a MatMul: "abc,cd->abd", and with Transpose and Reshape around it
// "btd,dnh->btnh" and the like, as exporters of Flax and Keras write projections. Plans then treat
// the constant as any other weight. The MatMul has the name of the Einsum, and the constant keeps
// its name unless other nodes read it, too. An Einsum stays if it has a label in all three terms (a
// product of stacked matrices), one that only one term has, or one twice, or if the terms have an
// ellipsis.
#include <algorithm>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/tensor.h"
#include "rewrite/passes.h"

namespace bitpress::rewrite {
namespace {

using graph::Model;
using graph::Node;

// An Einsum of an activation with a constant, as a matrix product. Labels of terms are characters.
struct Product {
  size_t constant_input = 1;
  std::string data;    // the labels of the activation
  std::string weight;  // of the constant
  std::string output;
  // The labels that only the activation and the output have, those that are summed over, and those
  // that only the constant and the output have: rows, sums and columns of the product.
  std::string rows;
  std::string sums;
  std::string columns;
};

bool HasTwice(std::string_view labels) {
  return std::ranges::any_of(labels,
                             [&](char label) { return std::ranges::count(labels, label) > 1; });
}

// Sets the three terms of the equation. Returns whether it has them, and each label once in a term.
bool Parse(const Node& node, Product& product) {
  std::string equation = node.GetString("equation", "");
  std::erase(equation, ' ');
  const size_t comma = equation.find(',');
  const size_t arrow = equation.find("->");
  if (comma == std::string::npos || arrow == std::string::npos || comma > arrow) return false;
  const std::string left = equation.substr(0, comma);
  const std::string right = equation.substr(comma + 1, arrow - comma - 1);
  product.output = equation.substr(arrow + 2);
  product.data = product.constant_input == 1 ? left : right;
  product.weight = product.constant_input == 1 ? right : left;
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  return std::ranges::all_of(product.data + product.weight + product.output, is_letter) &&
         !HasTwice(product.data) && !HasTwice(product.weight) && !HasTwice(product.output);
}

// Sorts the labels into rows, sums and columns. Returns whether each is one of them.
bool Classify(Product& product) {
  for (const char label : product.output) {
    const bool is_row = product.data.find(label) != std::string::npos;
    const bool is_column = product.weight.find(label) != std::string::npos;
    if (is_row == is_column) return false;
    (is_row ? product.rows : product.columns) += label;
  }
  for (const char label : product.data) {
    if (product.rows.find(label) == std::string::npos) product.sums += label;
  }
  for (const char label : product.weight) {
    const bool is_known = product.sums.find(label) != std::string::npos ||
                          product.columns.find(label) != std::string::npos;
    if (!is_known) return false;
  }
  return !product.rows.empty() && !product.columns.empty() && !product.sums.empty() &&
         product.sums.size() + product.columns.size() == product.weight.size();
}

std::optional<Product> ProductOf(const Model& model, const Node& node) {
  if (!node.domain().empty() || node.op_type() != "Einsum" || node.num_inputs() != 2) {
    return std::nullopt;
  }
  const auto is_constant = [&](size_t i) {
    const std::string& name = node.input(i);
    return model.IsInitializer(name) && !model.IsDeferred(name) && !model.IsInput(name);
  };
  if (is_constant(0) == is_constant(1)) return std::nullopt;
  Product product;
  product.constant_input = is_constant(0) ? 0 : 1;
  const graph::InitializerView weight = model.Initializer(node.input(product.constant_input));
  const bool is_float = weight.type == DataType::kFloat || weight.type == DataType::kFloat16;
  if (!is_float || !Parse(node, product) || weight.dims.size() != product.weight.size() ||
      NumElements(weight.dims) == 0 || !Classify(product)) {
    return std::nullopt;
  }
  return product;
}

std::vector<int64_t> Permutation(std::string_view from, std::string_view to) {
  std::vector<int64_t> perm;
  for (const char label : to) perm.push_back(static_cast<int64_t>(from.find(label)));
  return perm;
}

// Returns a constant with its dimensions in another order.
Tensor Transposed(const graph::HeldInitializer& source, std::span<const int64_t> perm) {
  const size_t rank = perm.size();
  Tensor result{source.type, {}, std::vector<std::byte>(source.bytes.size())};
  std::vector<size_t> strides(rank, 1);
  for (size_t i = rank - 1; i-- > 0;) {
    strides[i] = strides[i + 1] * static_cast<size_t>(source.dims[i + 1]);
  }
  for (const int64_t axis : perm) result.dims.push_back(source.dims[static_cast<size_t>(axis)]);
  const size_t width = NumBytes(source.type, 1);
  std::vector<int64_t> index(rank, 0);
  for (size_t to = 0; to < result.bytes.size(); to += width) {
    size_t from = 0;
    for (size_t i = 0; i < rank; ++i) {
      from += static_cast<size_t>(index[i]) * strides[static_cast<size_t>(perm[i])];
    }
    std::memcpy(&result.bytes[to], &source.bytes[from * width], width);
    for (size_t i = rank; i-- > 0 && ++index[i] == result.dims[i];) index[i] = 0;
  }
  return result;
}

class Lowering {
 public:
  Lowering(Model& model, const Node& node, const Product& product)
      : model_(model), node_(node), product_(product) {}

  void Run() {
    const std::string constant = node_.input(product_.constant_input);
    model_.Replace({node_}, [&] { Insert(); });
    if (model_.IsInitializer(constant) && !model_.IsRead(constant)) {
      model_.RemoveInitializer(constant);
    }
  }

 private:
  void Insert() {
    const std::string& output = node_.output(0);
    const std::string& data = node_.input(1 - product_.constant_input);
    const std::string& constant = node_.input(product_.constant_input);
    const graph::HeldInitializer weight = model_.HoldInitializer(constant);
    const auto dim_of = [&](char label) { return weight.dims[product_.weight.find(label)]; };
    std::vector<int64_t> columns;
    for (const char label : product_.columns) columns.push_back(dim_of(label));
    int64_t num_sums = 1;
    for (const char label : product_.sums) num_sums *= dim_of(label);

    const std::string by_sums = product_.rows + product_.sums;
    std::string left = Transpose(data, product_.data, by_sums, "");
    if (product_.sums.size() > 1) left = Reshape(left, {num_sums}, "");
    const std::string by_rows = product_.rows + product_.columns;
    const bool is_moved = product_.output != by_rows;
    const bool is_split = columns.size() > 1;
    const std::string product =
        is_moved || is_split ? model_.FreshName(output + "_product") : output;
    const std::string matrix = Matrix(constant, weight, num_sums);
    model_.InsertNode({node_.name(), "MatMul", "", {left, matrix}, {product}, {}}, node_);
    std::string last = product;
    if (is_split) last = Reshape(last, columns, is_moved ? "" : output);
    if (is_moved) Transpose(last, by_rows, product_.output, output);
  }

  // Returns the name of the constant as a matrix. It is the constant's own if nothing else reads
  // it.
  std::string Matrix(const std::string& name, const graph::HeldInitializer& weight,
                     int64_t num_sums) {
    const std::vector<int64_t> perm =
        Permutation(product_.weight, product_.sums + product_.columns);
    const std::vector<int64_t> dims{num_sums, NumElements(weight.dims) / num_sums};
    const bool is_in_order = std::ranges::is_sorted(perm);
    if (is_in_order && weight.dims == dims) return name;
    const std::string target = model_.OnlyUse(name) ? name : model_.FreshName(name + "_matrix");
    if (is_in_order) {
      graph::HeldInitializer matrix = weight;
      matrix.dims = dims;
      model_.SetHeldInitializer(target, matrix);
    } else {
      Tensor matrix = Transposed(weight, perm);
      matrix.dims = dims;
      model_.SetInitializer(target, std::move(matrix));
    }
    return target;
  }

  std::string NameOf(const std::string& value, const char* suffix,
                     const std::string& wanted) const {
    return wanted.empty() ? model_.FreshName(value + suffix) : wanted;
  }

  std::string Transpose(const std::string& value, std::string_view from, std::string_view to,
                        const std::string& wanted) {
    if (from == to) return value;
    const std::string output = NameOf(value, "_transposed", wanted);
    model_.InsertNode({model_.FreshNodeName(output + "_transpose"),
                       "Transpose",
                       "",
                       {value},
                       {output},
                       {{"perm", Permutation(from, to)}}},
                      node_);
    return output;
  }

  // Reshapes a value whose first dimensions are the rows.
  std::string Reshape(const std::string& value, const std::vector<int64_t>& last,
                      const std::string& wanted) {
    const std::string output = NameOf(value, "_reshaped", wanted);
    std::vector<int64_t> shape(product_.rows.size(), 0);  // 0 keeps a dimension
    shape.insert(shape.end(), last.begin(), last.end());
    const std::string name = model_.FreshName(output + "_shape");
    const auto length = static_cast<int64_t>(shape.size());
    model_.SetInitializer(name, DataType::kInt64, std::span(&length, 1),
                          std::as_bytes(std::span<const int64_t>(shape)));
    model_.InsertNode(
        {model_.FreshNodeName(output + "_reshape"), "Reshape", "", {value, name}, {output}, {}},
        node_);
    return output;
  }

  Model& model_;
  Node node_;
  const Product& product_;
};

// Returns the number of nodes that were replaced.
size_t LowerEinsum(Model& model) {
  size_t num_nodes = 0;
  for (const Node& node : model.AllNodes()) {
    const std::optional<Product> product = ProductOf(model, node);
    if (!product) continue;
    Lowering(model, node, *product).Run();
    ++num_nodes;
  }
  if (num_nodes > 0) model.InferShapes();
  return num_nodes;
}

}  // namespace

const PreparePass kLowerEinsum = CleanUp<LowerEinsum>("lower-einsum", Optimizes);

}  // namespace bitpress::rewrite
