#include "interop/block_sums.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "base/check.h"

namespace bitpress::interop {
namespace {

using graph::Model;
using graph::Node;
using graph::Use;

int64_t OpsetOf(const Model& model) {
  const auto imports = model.OpsetImports();
  const auto standard = imports.find("");
  return standard == imports.end() ? 0 : standard->second;
}

bool IsTable(const Use& use) { return use.node.op_type() == "Gather" && use.input_index == 0; }

// Ranks need not be known: rows are cut into blocks as a matrix, and what comes of them takes the
// shape of what they are added to.
class Rewriter {
 public:
  Rewriter(Model& model, int64_t block_size, std::string offsets)
      : model_(model), block_size_(block_size), offsets_(std::move(offsets)) {}

  void Rewrite(const Use& use) {
    const Node& node = use.node;
    const std::string y = node.output(0);
    const graph::ValueInfo info = model_.InfoOf(y);
    model_.Replace({node}, [&] {
      const std::string codes = Copy(node, model_.FreshName(y + "_codes"));
      IsTable(use) ? MoveRows(node, codes, y) : AddSums(node, codes, y);
    });
    if (!model_.IsOutput(y)) model_.SetInfo(y, info);
  }

 private:
  void AddSums(const Node& node, const std::string& codes, const std::string& y) {
    const int64_t num_blocks = model_.Initializer(offsets_).dims[0];
    const std::string blocks =
        Insert(node, "Reshape", {node.input(0), Constant({-1, num_blocks, block_size_})}, "blocks");
    const std::string sums =
        Insert(node, "ReduceSum", {blocks, Constant({-1})}, "sums", "", {{"keepdims", int64_t{0}}});
    const std::string moved = Insert(node, "MatMul", {sums, offsets_}, "offsets");
    Insert(node, "Add", {codes, ShapedAs(node, moved, codes)}, "moved", y);
  }

  void MoveRows(const Node& node, const std::string& codes, const std::string& y) {
    const int64_t num_blocks = model_.Initializer(offsets_).dims[1];
    const std::string blocks =
        Insert(node, "Reshape", {codes, Constant({-1, num_blocks, block_size_})}, "blocks");
    const std::string rows = Insert(node, "Gather", {offsets_, node.input(1)}, "offsets");
    const std::string beside =
        Insert(node, "Reshape", {rows, Constant({-1, num_blocks, 1})}, "beside");
    ShapedAs(node, Insert(node, "Add", {blocks, beside}, "moved"), codes, y);
  }

  std::string ShapedAs(const Node& node, const std::string& value, const std::string& like,
                       const std::string& output = "") {
    return Insert(node, "Reshape", {value, Insert(node, "Shape", {like}, "shape")}, "shaped",
                  output);
  }

  // Returns the name of whole numbers, which all weights share.
  std::string Constant(const std::vector<int64_t>& values) {
    const std::string name = fmt::format("block_sums_{}", fmt::join(values, "_"));
    const auto bytes = std::as_bytes(std::span<const int64_t>(values));
    if (model_.IsInitializer(name) && std::ranges::equal(model_.Initializer(name).bytes, bytes)) {
      return name;
    }
    const std::string fresh = model_.FreshName(name);
    const std::vector<int64_t> dims = {static_cast<int64_t>(values.size())};
    model_.SetInitializer(fresh, DataType::kInt64, dims, bytes);
    return fresh;
  }

  // Inserts a node before another, and returns its output, which has a new name if none is given.
  std::string Insert(const Node& before, const std::string& op_type,
                     std::vector<std::string> inputs, const std::string& what,
                     std::string output = "",
                     std::vector<std::pair<std::string, graph::Attribute>> attributes = {}) {
    if (output.empty()) output = model_.FreshName(offsets_ + "_" + what);
    model_.InsertNode({model_.FreshNodeName(before.name() + "_" + what),
                       op_type,
                       "",
                       std::move(inputs),
                       {output},
                       std::move(attributes)},
                      before);
    return output;
  }

  // Inserts the node again with another output, which it returns.
  std::string Copy(const Node& node, std::string output) {
    graph::NodeSpec spec{node.name(), node.op_type(), node.domain(), {}, {output}, {}};
    for (size_t i = 0; i < node.num_inputs(); ++i) spec.inputs.push_back(node.input(i));
    spec.attributes_of = node;
    model_.InsertNode(spec, node);
    model_.SetInfo(output, model_.InfoOf(node.output(0)));
    return output;
  }

  Model& model_;
  int64_t block_size_;
  std::string offsets_;
};

}  // namespace

std::string WhyNoBlockSums(const Model& model, const std::string& value, int64_t block_size) {
  constexpr int64_t kOpset = 13;  // ReduceSum takes its axes as an input
  if (OpsetOf(model) < kOpset) return "offsets of blocks need opset 13";
  for (const Use& use : model.AllUses(value)) {
    const std::string& op_type = use.node.op_type();
    const std::vector<int64_t> dims(model.Initializer(value).dims.begin(),
                                    model.Initializer(value).dims.end());
    const bool is_product = (op_type == "MatMul" || op_type == "Gemm") && use.input_index == 1 &&
                            use.node.GetInt("transA", 0) == 0 && use.node.GetInt("transB", 0) == 0;
    if (!is_product && !(IsTable(use) && use.node.GetInt("axis", 0) == 0)) {
      return fmt::format("{} cannot add the offsets of blocks", op_type);
    }
    if (dims[is_product ? 0 : 1] % block_size != 0) return "its last block is shorter";
  }
  return "";
}

std::string AddBlockSums(Model& model, const std::string& value, int64_t block_size,
                         Tensor offsets) {
  BITPRESS_DCHECK(WhyNoBlockSums(model, value, block_size).empty());
  const std::string name = model.FreshName(value + "_offsets");
  model.SetInitializer(name, std::move(offsets));
  Rewriter rewriter(model, block_size, name);
  for (const Use& use : model.AllUses(value)) rewriter.Rewrite(use);
  return name;
}

}  // namespace bitpress::interop
