#include "emit/use_product_operators.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "emit/integer_codes.h"
#include "emit/matrix_products.h"
#include "emit/packed_convolutions.h"
#include "emit/portable_functions.h"
#include "emit/tied_tables.h"
#include "formats/block_products.h"
#include "graph/clean_up.h"
#include "kernels/block_products.h"
#include "ops/following_limits.h"
#include "ops/operator_traits.h"
#include "ops/quantizer_nodes.h"
#include "weights/product_nodes.h"
#include "weights/unpack_functions.h"

namespace bitpress::emit {
namespace {

using graph::Model;
using graph::Node;
using graph::Use;

class ProductRewriter {
 public:
  ProductRewriter(Model& model, plan::CodeReaders readers, formats::SumOrder order)
      : model_(model), readers_(readers), order_(order) {}

  NativeOperators Run() {
    // Handles of nodes that are replaced become invalid; these are none of them.
    std::vector<Node> unpackers = model_.AllNodes();
    std::erase_if(unpackers, [](const Node& node) { return !ops::IsUnpack(node); });
    for (const Node& node : unpackers) {
      const auto weight = weights::PackedWeightOf(model_, node);
      if (weight) Replace(node, *weight);
    }
    if (result_.num_nodes > 0) {
      RemoveUnusedDecoders(model_);
      RemoveUnusedQuantizers();
      graph::RemoveUnusedButNodes(model_);  // unused nodes of the given model stay
    }
    return std::move(result_);
  }

 private:
  // Returns a weight as its reader sees it: one without blocks has its elements along the sums.
  static weights::PackedWeight ReadBy(const Node& node, weights::PackedWeight weight) {
    const std::vector<int64_t>& shape = weight.shape;
    const bool is_empty = weight.view.num_elements() == 0;
    if (weight.spec.is_blocked() || weight.integer || shape.size() < 2 || is_empty) return weight;
    weight.view = weights::ViewAlongSums(shape, node.GetInt("transB", 0) != 0);
    return weight;
  }

  // Convolutions quantize their inputs themselves.
  void RemoveUnusedQuantizers() {
    std::vector<Node> nodes = model_.AllNodes();
    std::ranges::reverse(nodes);
    for (const Node& node : nodes) {
      if (node.domain() != "bitpress" || !ops::IsQuantizer(node)) continue;
      if (!model_.IsRead(node.output(0))) model_.RemoveNode(node);
    }
  }

  void Replace(const Node& unpack, const weights::PackedWeight& weight) {
    const std::string value = unpack.output(0);
    std::string why;
    for (const Use& use : model_.AllUses(value)) {
      if (ReplaceTransposed(unpack, weight, use)) continue;
      if (IsStandardOp(use.node, "Cast") && !model_.IsOutput(use.node.output(0))) {
        if (const std::string why_not = ReplaceHalf(unpack, weight, use.node); !why_not.empty()) {
          why = why_not;
        }
        continue;
      }
      const weights::PackedWeight read = ReadBy(use.node, weight);
      const std::string why_not = WhyNot(use, read);
      if (why_not.empty() && IsStandardOp(use.node, "Conv")) {
        ReplaceConvolution(model_, unpack, read, use.node,
                           [this](int64_t count) { return Zeros(count); });
        ++result_.num_nodes;
      } else if (why_not.empty()) {
        Replace(unpack, read, use.node);
        ++result_.num_nodes;
      } else {
        why = why_not;
      }
    }
    if (model_.IsOutput(value)) why = "it is an output";
    if (why.empty()) {
      model_.RemoveNode(unpack);
    } else {
      result_.omissions.emplace_back(value, why);
    }
  }

  // Replaces the products behind the Transpose of a table that is a head, too. Returns whether
  // nothing else reads it.
  bool ReplaceTransposed(const Node& unpack, const weights::PackedWeight& weight, const Use& use) {
    const std::vector<Node> products = ProductsBehindTranspose(model_, use);
    if (products.empty() || !weights::WhyNoPackedProduct(model_, weight).empty() ||
        weights::BlockedAxis(weight) != 1) {
      return false;
    }
    for (const Node& product : products) {
      Replace(unpack, weight, product);
      ++result_.num_nodes;
    }
    model_.RemoveNode(use.node);
    return true;
  }

  // Replaces the products of FLOAT16 models, whose weight is decoded as floats and cast. Returns
  // why something still reads the weight.
  std::string ReplaceHalf(const Node& unpack, const weights::PackedWeight& weight,
                          const Node& cast) {
    if (readers_ != plan::CodeReaders::kAll) {
      return "its product is FLOAT16 (--target bitpress multiplies floats between Casts)";
    }
    std::string why;
    for (const Use& use : model_.AllUses(cast.output(0))) {
      const bool is_convolution = IsStandardOp(use.node, "Conv");
      const std::string why_not = is_convolution ? "its Conv is not float32" : WhyNot(use, weight);
      if (why_not.empty()) {
        Replace(unpack, weight, use.node);
        ++result_.num_nodes;
      } else {
        why = why_not;
      }
    }
    if (why.empty()) model_.RemoveNode(cast);
    return why;
  }

  std::string WhyNot(const Use& use, const weights::PackedWeight& weight) const {
    if (IsStandardOp(use.node, "Conv")) {
      return WhyNoPackedConvolution(model_, use, weight, readers_);
    }
    if (ops::TraitsOf(use.node).has_experts()) {
      return "MoE reads it (--set passes=split-experts=all multiplies from the codes)";
    }
    if (!IsStandardOp(use.node, "MatMul") && !IsStandardOp(use.node, "Gemm")) {
      return fmt::format("{} reads it", use.node.op_type());
    }
    if (std::string why = weights::WhyNoPackedProduct(model_, weight); !why.empty()) return why;
    const auto axis = static_cast<int64_t>(*weights::BlockedAxis(weight));
    return WhyNoMatrixProduct(model_, use, axis, weight.shape);
  }

  void Replace(const Node& unpack, const weights::PackedWeight& weight, const Node& node) {
    const size_t axis = *weights::BlockedAxis(weight);
    const int64_t num_columns = weight.shape[1 - axis];
    weights::PackedProduct product{unpack, weight, node.input(0), "", "", "", node.name()};
    product.rows = RowsOf(node, weight);
    if (formats::HasTerms(weight.spec)) {
      product.order = order_;
      if (order_ == formats::SumOrder::kFastest) {
        result_.num_fastest_sums = result_.num_fastest_sums.value_or(0) + 1;
      } else if (HasManyRows(node.output(0)) && !IsInParts(product.rows, weight.spec)) {
        ++result_.num_slower_sums;
      }
    }
    std::optional<Node> add;
    if (IsStandardOp(node, "Gemm")) {
      if (node.num_inputs() > 2) product.bias = node.input(2);
    } else if ((add = BiasOf(node, num_columns))) {
      product.bias = add->input(add->input(0) == node.output(0) ? 1 : 0);
    }
    if (product.bias.empty()) product.bias = Zeros(num_columns);
    std::vector<Node> old{node};
    if (add) old.push_back(*add);
    std::optional<ops::FollowingLimits> limits = ops::LimitsBehind(model_, old.back().output(0));
    if (!weights::WhyNoPackedProduct(model_, weight, /*is_limited=*/true).empty()) limits.reset();
    if (limits) {
      product.least = limits->least;
      product.largest = limits->largest;
      old.push_back(limits->node);
    }
    product.output = old.back().output(0);
    const bool is_half = model_.InfoOf(product.output).type == DataType::kFloat16;
    model_.Replace(old, [&] {
      is_half ? InsertHalf(product, old.back())
              : weights::InsertProduct(model_, product, old.back());
    });
  }

  // Inserts a product of floats between Casts.
  void InsertHalf(weights::PackedProduct product, const Node& before) {
    const auto cast = [&](const std::string& from, const std::string& to, DataType type) {
      model_.InsertNode({model_.FreshNodeName(to),
                         "Cast",
                         "",
                         {from},
                         {to},
                         {{"to", static_cast<int64_t>(type)}}},
                        before);
    };
    for (std::string* const value : {&product.input, &product.bias}) {
      // Zeros are floats already. The output of a quantizer may have no known type.
      if (model_.InfoOf(*value).type == DataType::kFloat) continue;
      const std::string floats = model_.FreshName(*value + "_float");
      cast(*value, floats, DataType::kFloat);
      *value = floats;
    }
    const std::string output = product.output;
    product.output = model_.FreshName(output + "_float");
    weights::InsertProduct(model_, product, before);
    cast(product.output, output, DataType::kFloat16);
  }

  // Returns the format in which the left matrix arrives, if products with it are no mere chains.
  std::string RowsOf(const Node& node, const weights::PackedWeight& weight) const {
    const std::optional<Node> producer = model_.Producer(node.input(0));
    if (!producer || producer->domain() != "bitpress" || !ops::IsQuantizer(*producer)) return "";
    const formats::FormatSpec rows = FormatOfQuantizer(*producer);
    const formats::ProductFormats formats{weight.spec, rows};
    if (formats::SumsOf(formats) == formats::ProductSums::kChain ||
        !formats::WhyNoProduct(formats).empty()) {
      return "";
    }
    // With floats one chain is faster than the two of a part.
    const bool is_quick = readers_ == plan::CodeReaders::kAll || kernels::HasQuickParts();
    if (!rows.is_blocked()) return is_quick ? rows.name : "";
    const int64_t axis = producer->GetInt("axis", 1);
    const graph::ValueInfo info = model_.InfoOf(producer->input(0));
    const bool is_last =
        axis == -1 || (info.has_shape && axis == static_cast<int64_t>(info.shape.size()) - 1);
    return is_last ? rows.name : "";
  }

  // Returns whether a product is summed in parts, which is the same in each order.
  static bool IsInParts(const std::string& rows, const formats::FormatSpec& columns) {
    return !rows.empty() &&
           formats::SumsOf({columns, formats::FindFormat(rows)}) == formats::ProductSums::kParts;
  }

  // Returns whether one sample brings rows enough for tiles. Lengths that are not known count as
  // many, but for the batch.
  bool HasManyRows(const std::string& value) const {
    constexpr int64_t kMany = 16;
    const graph::ValueInfo info = model_.InfoOf(value);
    if (!info.has_shape || info.shape.size() < 2) return false;
    int64_t num_rows = std::max<int64_t>(info.shape[0].value, 1);
    for (size_t i = 1; i + 1 < info.shape.size(); ++i) {
      num_rows *= info.shape[i].value > 0 ? info.shape[i].value : kMany;
    }
    return num_rows >= kMany;
  }

  // Returns the Add of a bias that alone reads a product.
  std::optional<Node> BiasOf(const Node& node, int64_t num_columns) const {
    const std::optional<Use> use = model_.OnlyUse(node.output(0));
    if (!use || !IsStandardOp(use->node, "Add")) return std::nullopt;
    const std::string& other = use->node.input(1 - use->input_index);
    if (!model_.IsInitializer(other)) return std::nullopt;
    const graph::ValueInfo info = model_.InfoOf(other);
    const bool is_float = info.type == DataType::kFloat || info.type == DataType::kFloat16;
    const bool is_vector = is_float && info.shape.size() == 1 && info.shape[0].value == num_columns;
    return is_vector ? std::optional(use->node) : std::nullopt;
  }

  const std::string& Zeros(int64_t count) {
    auto [known, is_new] = zeros_.try_emplace(count);
    if (is_new) {
      known->second = model_.FreshName(fmt::format("zeros_{}", count));
      const auto bytes = static_cast<size_t>(count) * sizeof(float);
      model_.SetInitializer(known->second,
                            {DataType::kFloat, {count}, std::vector<std::byte>(bytes)});
    }
    return known->second;
  }

  Model& model_;
  plan::CodeReaders readers_;
  formats::SumOrder order_;
  std::map<int64_t, std::string> zeros_;
  NativeOperators result_;
};

}  // namespace

NativeOperators UseProductOperators(Model& model, plan::CodeReaders readers,
                                    formats::SumOrder order) {
  return ProductRewriter(model, readers, order).Run();
}

}  // namespace bitpress::emit
