#include "weights/product_nodes.h"

#include <vector>

#include "base/error.h"
#include "formats/block_products.h"
#include "formats/parameters.h"
#include "graph/own_domain.h"

namespace bitpress::weights {
namespace {

using graph::Model;
using graph::Node;

// Returns the function of a product: the nodes of the Unpack function, and the product. (It does
// not call that function: ONNX Runtime lets no FP8 codes through to a function in a function.)
// Only weights that lie as [N, K] need a Transpose, which would copy the others at every load.
graph::FunctionSpec FunctionOf(graph::FunctionSpec unpack, const std::string& name,
                               bool is_numbered, bool is_limited, bool is_transposed) {
  graph::FunctionSpec function = std::move(unpack);
  function.name = name;
  function.doc =
      "A matrix times a packed weight, plus a bias" +
      std::string(is_limited ? ", limited to [least, largest]" : "") +
      ". `perm` brings the weight into [K, "
      "N]. "
      "`rows` is the format whose values the matrix has along its last dimension, or empty. " +
      std::string(is_numbered ? "`format` is that of the weight. " : "") + function.doc;
  if (is_numbered) function.attributes.push_back(kFormatAttribute);
  function.inputs.insert(function.inputs.begin(), "a");
  function.inputs.push_back("bias");
  std::string weight = function.outputs.front();
  function.outputs = {"y"};
  function.attributes.insert(function.attributes.end(), {"perm", "rows"});
  using Reference = graph::AttributeReference;
  if (is_transposed) {
    function.nodes.push_back({"",
                              "Transpose",
                              "",
                              {weight},
                              {"weight_columns"},
                              {{"perm", Reference{"perm", Reference::Type::kInts}}}});
    weight = "weight_columns";
  }
  function.nodes.push_back({"", "MatMul", "", {"a", weight}, {"product"}, {}});
  const char* const sum = is_limited ? "sum" : "y";
  function.nodes.push_back({"", "Add", "", {"product", "bias"}, {sum}, {}});
  if (is_limited) AddLimits(function, sum);
  return function;
}

// Returns a decoder's name without the ending of those that cut off padding.
std::string_view WithoutPadding(std::string_view decoder) {
  const std::string_view suffix = kPaddedSuffix;
  return decoder.ends_with(suffix) ? decoder.substr(0, decoder.size() - suffix.size()) : decoder;
}

std::string PrefixOf(bool is_limited) { return is_limited ? kProductClipPrefix : kProductPrefix; }

// Returns the name of the operator; nothing if all numbers are taken.
std::optional<std::string> NameOf(const Model& model, const PackedStorage& storage,
                                  const formats::FormatSpec& spec, bool is_limited) {
  if (!formats::HasParameters(spec)) return PrefixOf(is_limited) + DecoderOf(storage);
  return NumberedName(model, PrefixOf(is_limited), storage, {spec.name});
}

bool IsLimited(const Node& node) { return node.op_type().starts_with(kProductClipPrefix); }

bool IsNamed(const Node& node, const PackedStorage& storage, const formats::FormatSpec& spec) {
  if (node.HasAttribute(kFormatAttribute)) {
    return HasNumberedName(node, PrefixOf(IsLimited(node)), spec);
  }
  // Older files have the same products under the other of two names, with or without padding.
  return WithoutPadding(DecoderOf(storage)) == WithoutPadding(PackedReaderOf(node)->decoder);
}

}  // namespace

void ExpandProduct(Model& model, const Node& node, WeightValues& weights) {
  const size_t num_inputs = node.num_inputs();
  const std::vector<int64_t> perm = node.GetInts("perm");
  const PackedWeight weight = *PackedWeightOf(model, node);
  const PackedStorage storage = StorageOf(model, weight);
  using Ints = std::vector<int64_t>;
  const bool is_matrix =
      weight.shape.size() == 2 && ((perm == Ints{0, 1} && BlockedAxis(weight) == 0) ||
                                   (perm == Ints{1, 0} && BlockedAxis(weight) == 1));
  if (!is_matrix || !IsNamed(node, storage, weight.spec)) {
    Fail(ErrorCode::kInvalidModel, "{}: it is no product as bitpress writes them", node.Describe());
  }
  const std::string value = weights.ValueOf(node, storage);
  model.Replace({node}, [&] {
    const std::string &input = node.input(0), &bias = node.input(num_inputs - 1);
    const std::string& output = node.output(0);
    std::string columns = value;
    if (perm == Ints{1, 0}) {
      columns = model.FreshName(output + "_columns");
      model.InsertNode(
          {model.FreshNodeName(columns), "Transpose", "", {value}, {columns}, {{"perm", perm}}},
          node);
    }
    const std::string product = model.FreshName(output + "_product");
    model.InsertNode({node.name(), "MatMul", "", {input, columns}, {product}, {}}, node);
    const std::string sum = IsLimited(node) ? model.FreshName(output + "_sum") : output;
    model.InsertNode({model.FreshNodeName(output + "_add"), "Add", "", {product, bias}, {sum}, {}},
                     node);
    if (IsLimited(node)) {
      InsertLimits(model, sum, output, node.GetFloat("least", 0), node.GetFloat("largest", 0),
                   node);
    }
  });
}

std::string WhyNoPackedProduct(const Model& model, const PackedWeight& weight, bool is_limited) {
  if (weight.integer) return "it has integers";  // use_native_operators.h has those that qualify
  const std::string why = formats::WhyNoProduct({weight.spec, std::nullopt});
  if (!why.empty()) return why;
  if (weight.shape.size() != 2) return "it is no matrix";
  if (!BlockedAxis(weight)) return "its blocks run over rows";
  if (!formats::HasParameters(weight.spec)) return "";
  return WhyNoNumber(weight.spec, NameOf(model, StorageOf(model, weight), weight.spec, is_limited));
}

std::optional<size_t> BlockedAxis(const PackedWeight& weight) {
  const BlockView& view = weight.view;
  if (view.outer == 1 && view.axis == weight.shape[0] && view.inner == weight.shape[1]) return 0;
  if (view.outer == weight.shape[0] && view.axis == weight.shape[1] && view.inner == 1) return 1;
  return std::nullopt;
}

void InsertProduct(Model& model, const PackedProduct& product, const Node& before) {
  PackedStorage storage = StorageOf(model, product.weight);
  const formats::FormatSpec& format = product.weight.spec;
  const bool is_numbered = formats::HasParameters(format);
  const std::string op_type = *NameOf(model, storage, format, product.is_limited());
  const bool is_transposed = BlockedAxis(product.weight) == 1;
  // The function with a Transpose serves both kinds of weights.
  if (is_transposed || !model.HasFunction(graph::kOwnDomain, op_type)) {
    model.SetFunction(FunctionOf(std::move(storage.function), op_type, is_numbered,
                                 product.is_limited(), is_transposed));
  }
  graph::NodeSpec spec{product.name,    op_type,          graph::kOwnDomain,
                       {product.input}, {product.output}, storage.attributes};
  for (size_t i = 0; i < product.unpack.num_inputs(); ++i) {
    spec.inputs.push_back(product.unpack.input(i));
  }
  spec.inputs.push_back(product.bias);
  spec.attributes.emplace_back(
      "perm", is_transposed ? std::vector<int64_t>{1, 0} : std::vector<int64_t>{0, 1});
  spec.attributes.emplace_back("rows", product.rows);
  if (product.order == formats::SumOrder::kFastest) {
    spec.attributes.emplace_back("sums", formats::kFastestSums);
  }
  if (is_numbered) spec.attributes.emplace_back(kFormatAttribute, format.name);
  if (product.is_limited()) {
    spec.attributes.emplace_back("least", product.least);
    spec.attributes.emplace_back("largest", product.largest);
  }
  model.InsertNode(spec, before);
}

}  // namespace bitpress::weights
