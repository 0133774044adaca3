// Pass rotate: turns the inputs of matrix products in blocks, and their weights likewise, by an
// orthogonal matrix (Ashkboos et al., "QuaRot", 2024; Egiazarian et al., "Bridging the Gap between
// Promise and Performance for Microscaling FP4 Quantization", 2025):
//
//   x W = (x R) (R' W)    R = diag(H, H, ...), H a Hadamard matrix of the block's size / sqrt(size)
//
// A large element of a block is spread over all of its elements, so that a few bits and one scale
// for the block lose less. Blocks as large as those of the format keep the ranges of different
// blocks apart. The model computes the same but for float rounding. Rotations stand in the graph as
// nodes `bitpress.Rotate_<size>`, functions of standard operators.
//
// MatMul and Gemm of the main graph are rotated whose first input is computed and whose second one
// is a constant FLOAT matrix that nothing else reads. The sum has to be over whole blocks. A head
// that is a table of embeddings stays as it is, so that both are one tensor. The rotated form of a
// value is called `<value>_rotated`, and all layers that read the value share it.
// Older models are brought to opset 21 before, as far as they can be raised.
#include <bit>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <span>

#include "base/check.h"
#include "base/hadamard.h"
#include "base/tensor.h"
#include "graph/own_domain.h"
#include "ops/operator_traits.h"
#include "plan/tied_heads.h"
#include "rewrite/passes.h"

namespace bitpress::rewrite {
namespace {

using graph::Model;
using graph::Node;
using Attributes = std::vector<std::pair<std::string, graph::Attribute>>;

// Returns the element of the normalized Hadamard matrix: its sign is the parity of the common bits
// of both indices (Sylvester's construction). The matrix is its own inverse.
double Hadamard(size_t row, size_t column, size_t size) {
  const double magnitude = 1 / std::sqrt(static_cast<double>(size));
  return std::popcount(row & column) % 2 == 0 ? magnitude : -magnitude;
}

Tensor HadamardTensor(size_t size) {
  const auto side = static_cast<int64_t>(size);
  Tensor matrix{.type = DataType::kFloat, .dims = {side, side}, .bytes = {}};
  matrix.bytes.resize(size * size * sizeof(float));
  const std::span<float> values = matrix.values<float>();
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(Hadamard(i / size, i % size, size));
  }
  return matrix;
}

Tensor ShapeTensor(std::vector<int64_t> dims) {
  Tensor shape{.type = DataType::kInt64, .dims = {std::ssize(dims)}, .bytes = {}};
  const auto bytes = std::as_bytes(std::span<const int64_t>(dims));
  shape.bytes.assign(bytes.begin(), bytes.end());
  return shape;
}

// Adds the function that turns the last axis of a value of any rank.
void AddFunction(Model& model, const std::string& name, int64_t block_size) {
  const std::map<std::string, int64_t> imports = model.OpsetImports();
  if (!imports.contains(graph::kOwnDomain)) model.SetOpsetImport(graph::kOwnDomain, 1);
  // A value without elements keeps its shape: a 0 in it is no copy of another dimension.
  Attributes allow_zero;
  const auto standard = imports.find("");
  if (standard != imports.end() && standard->second >= graph::kFirstOpsetWithAllowZero) {
    allow_zero.emplace_back("allowzero", int64_t{1});
  }
  const auto node = [](std::string op_type, std::vector<std::string> inputs, std::string output,
                       Attributes attributes = {}) {
    return graph::NodeSpec{.name = "",
                           .op_type = std::move(op_type),
                           .domain = "",
                           .inputs = std::move(inputs),
                           .outputs = {std::move(output)},
                           .attributes = std::move(attributes)};
  };
  const Tensor matrix = HadamardTensor(static_cast<size_t>(block_size));
  model.SetFunction(
      {.domain = graph::kOwnDomain,
       .name = name,
       .doc = "Multiplies blocks of the last axis by a normalized Hadamard matrix.",
       .inputs = {"x"},
       .outputs = {"y"},
       .attributes = {},
       .nodes = {node("Constant", {}, "matrix", {{"value", matrix}}),
                 node("Constant", {}, "blocks_shape", {{"value", ShapeTensor({-1, block_size})}}),
                 node("Shape", {"x"}, "shape"), node("Reshape", {"x", "blocks_shape"}, "blocks"),
                 node("MatMul", {"blocks", "matrix"}, "turned"),
                 node("Reshape", {"turned", "shape"}, "y", allow_zero)}});
}

// Turns the rows of a matrix [inputs, outputs], or the columns of [outputs, inputs].
Tensor TurnWeight(const graph::InitializerView& weight, bool is_transposed, size_t size) {
  const auto num_rows = static_cast<size_t>(weight.dims[0]);
  const auto num_columns = static_cast<size_t>(weight.dims[1]);
  const std::span<const float> values = weight.values<float>();
  Tensor turned{
      .type = DataType::kFloat, .dims = {weight.dims.begin(), weight.dims.end()}, .bytes = {}};
  turned.bytes.resize(values.size_bytes());
  const std::span<float> out = turned.values<float>();
  const size_t num_inputs = is_transposed ? num_columns : num_rows;
  const size_t num_outputs = is_transposed ? num_rows : num_columns;
  const size_t input_stride = is_transposed ? 1 : num_columns;
  const size_t output_stride = is_transposed ? num_columns : 1;
  std::vector<double> sums(size * num_outputs);
  for (size_t first = 0; first < num_inputs; first += size) {
    // All outputs are turned at once, in double.
    for (size_t i = 0; i < size; ++i) {
      const size_t begin = (first + i) * input_stride;
      for (size_t k = 0; k < num_outputs; ++k) {
        sums[i * num_outputs + k] = values[begin + k * output_stride];
      }
    }
    TurnRows(std::span(sums), size);
    for (size_t i = 0; i < size; ++i) {
      const size_t begin = (first + i) * input_stride;
      for (size_t k = 0; k < num_outputs; ++k) {
        out[begin + k * output_stride] = static_cast<float>(sums[i * num_outputs + k]);
      }
    }
  }
  return turned;
}

class Rotator {
 public:
  Rotator(Model& model, int64_t block_size) : model_(model), block_size_(block_size) {
    for (const plan::TiedHead& tied : plan::FindTiedHeads(model)) {
      tied_.insert(tied.head.output(0));
    }
  }

  graph::PassResult Run() {
    for (Node node : model_.Nodes()) {
      if (!IsProduct(node)) continue;
      const std::string reason = WhyNot(node);
      if (reason.empty()) {
        RotateLayer(node);
      } else {
        result_.left_alone.emplace_back(node.Describe(), reason);
      }
    }
    result_.is_modified = num_layers_ > 0;
    result_.label = "rotated";
    result_.text = fmt::format("{} layers in blocks of {}, which read {} values", num_layers_,
                               block_size_, rotated_.size());
    result_.counts = {{"num_layers", num_layers_}, {"block_size", block_size_}};
    return std::move(result_);
  }

 private:
  bool IsProduct(const Node& node) const {
    return node.domain().empty() && ops::TraitsOf(node).is_matrix_product() &&
           !model_.IsInitializer(node.input(0)) && model_.IsInitializer(node.input(1));
  }
  static bool IsTransposed(const Node& node) { return node.GetInt("transB", 0) != 0; }

  std::string WhyNot(const Node& node) const {
    const graph::InitializerView weight = model_.Initializer(node.input(1));
    if (weight.type != DataType::kFloat) return "the weight is not FLOAT";
    if (weight.dims.size() != 2) return "the weight is no matrix";
    if (node.GetInt("transA", 0) != 0) return "the input is transposed";
    const int64_t num_inputs = weight.dims[IsTransposed(node) ? 1 : 0];
    if (num_inputs == 0 || num_inputs % block_size_ != 0) {
      return fmt::format("{} inputs are not whole blocks of {}", num_inputs, block_size_);
    }
    if (tied_.contains(node.output(0))) return "it is a table of embeddings";
    if (!model_.OnlyUse(node.input(1))) return "its weight has other readers";
    return "";
  }

  void RotateLayer(Node node) {
    const std::string value = node.input(0);
    if (!rotated_.contains(value)) AddRotation(value, node);
    node.set_input(0, rotated_.at(value));
    const std::string weight = node.input(1);
    model_.SetInitializer(weight, TurnWeight(model_.Initializer(weight), IsTransposed(node),
                                             static_cast<size_t>(block_size_)));
    ++num_layers_;
  }

  void AddRotation(const std::string& value, const Node& reader) {
    const std::string function = fmt::format("{}{}", graph::kRotationPrefix, block_size_);
    if (rotated_.empty()) AddFunction(model_, function, block_size_);
    const std::string output = model_.FreshName(value + "_rotated");
    const graph::ValueInfo info = model_.InfoOf(value);
    model_.InsertNode({.name = model_.FreshNodeName(output),
                       .op_type = function,
                       .domain = graph::kOwnDomain,
                       .inputs = {value},
                       .outputs = {output},
                       .attributes = {}},
                      reader);
    if (info.type != DataType::kUndefined) model_.SetInfo(output, info);
    rotated_.emplace(value, output);
  }

  Model& model_;
  int64_t block_size_;
  std::set<std::string> tied_;                  // outputs of heads that are tables
  std::map<std::string, std::string> rotated_;  // values and their turned forms
  int64_t num_layers_ = 0;                      // whose weights were turned
  graph::PassResult result_ = false;
};

// REQUIRES: `block_size` is a power of two.
graph::PassResult Rotate(Model& model, int64_t block_size) {
  BITPRESS_DCHECK(block_size > 0 && std::has_single_bit(static_cast<uint64_t>(block_size)));
  // A model with functions keeps its operator set, so it is raised before they come. Codes of 4
  // bits and of FP8 want this operator set; a model that cannot be raised keeps its own.
  constexpr int64_t kOpsetOfCodes = 21;
  if (model.RaiseOpset(kOpsetOfCodes).empty()) model.InferShapes();
  return Rotator(model, block_size).Run();
}

}  // namespace

const PreparePass kRotate{
    .name = "rotate",
    .run = [](Model& model,
              PrepareState& state) { return Rotate(model, state.options.rewrites.rotation); },
    .is_wanted = [](const Model&,
                    const PrepareState& state) { return state.options.rewrites.rotation > 0; }};

}  // namespace bitpress::rewrite
