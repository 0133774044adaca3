#include "ops/value_sources.h"

#include <algorithm>

#include "base/text.h"
#include "ops/operator_traits.h"
#include "ops/quantizer_nodes.h"

namespace bitpress::ops {
namespace {

using graph::Node;

class Tracer {
 public:
  explicit Tracer(const graph::Model& model) : model_(model) {}

  SourceTrace Run() {
    for (const std::string& input : model_.InputNames()) {
      const DataType type = model_.InfoOf(input).type;
      if (type == DataType::kFloat || type == DataType::kFloat16 || type == DataType::kBFloat16) {
        trace_.of_value[input] = {Add({.kind = SourceKind::kStream, .node = {}})};
      }
    }
    for (const Node& node : model_.AllNodes()) Visit(node);
    return std::move(trace_);
  }

 private:
  size_t Add(Source source) {
    trace_.sources.push_back(std::move(source));
    return trace_.sources.size() - 1;
  }
  const SourceSet& Of(const Node& node, size_t input) const {
    static const SourceSet kNone;
    return input < node.num_inputs() ? trace_.Of(node.input(input)) : kNone;
  }
  SourceSet OfAll(const Node& node) const {
    SourceSet all;
    for (size_t i = 0; i < node.num_inputs(); ++i)
      all.insert(Of(node, i).begin(), Of(node, i).end());
    return all;
  }
  bool IsConstant(const Node& node, size_t input) const {
    return input < node.num_inputs() && trace_.IsConstant(model_, node.input(input));
  }
  bool HasKind(const SourceSet& set, SourceKind kind) const {
    return std::ranges::any_of(set, [&](size_t i) { return trace_.sources[i].kind == kind; });
  }

  void Give(const Node& node, const SourceSet& set) {
    if (set.empty()) return;
    for (size_t i = 0; i < node.num_outputs(); ++i) {
      if (!node.output(i).empty()) trace_.of_value[node.output(i)] = set;
    }
  }

  void Visit(const Node& node) {
    if (node.num_outputs() == 0) return;
    if (IsOfConstants(node)) {
      for (size_t i = 0; i < node.num_outputs(); ++i) trace_.constants.insert(node.output(i));
      return;
    }
    const OperatorTraits& traits = TraitsOf(node);
    if (traits.Is(kReadsShape)) return;
    const std::string& type = node.op_type();
    if (traits.attention == Attention::kHoldsProjection) return VisitAttentionWithProjection(node);
    if (traits.attention == Attention::kOfInputs) return VisitAttention(node);
    if (traits.norm.adds) return Merge(node, {Of(node, 0), Of(node, 1)});
    if (type == "EmbedLayerNormalization" || IsLookup(node)) {
      return Give(node, {Add({.kind = SourceKind::kStream, .node = node})});
    }
    if (const std::optional<LinearInputs> inputs = LinearInputsOf(node)) {
      if (IsMatrix(node, inputs->weight)) return VisitLinear(node, inputs->data);
      if (!IsConstant(node, 0) && !IsConstant(node, 1)) return VisitProduct(node);
    }
    if (type == "Add" || type == "Sum") return VisitSum(node);
    Give(node, OfAll(node));
    PassOnProbabilities(node);
  }

  bool IsOfConstants(const Node& node) const {
    if (node.num_inputs() == 0) return node.op_type() == "Constant";
    if (node.HasSubgraph()) return false;
    for (size_t i = 0; i < node.num_inputs(); ++i) {
      if (!node.input(i).empty() && !IsConstant(node, i)) return false;
    }
    return true;
  }

  // Returns whether the input is a constant of two dimensions. Those of integer codes in blocks may
  // have three.
  bool IsMatrix(const Node& node, size_t input) const {
    if (!IsConstant(node, input)) return false;
    const graph::ValueInfo info = model_.InfoOf(node.input(input));
    return !info.has_shape || info.shape.size() == 2 || !TraitsOf(node).is_product();
  }

  // Returns whether the node looks up rows of a constant table by numbers that are known only at
  // run time.
  bool IsLookup(const Node& node) const {
    if (!IsConstant(node, 0)) return false;
    if (node.op_type().starts_with("Gather_") && ReadsCodes(node)) return true;
    const bool is_gather = node.op_type() == "Gather" || node.op_type() == "GatherBlockQuantized";
    if (!is_gather || IsConstant(node, 1)) return false;
    const graph::ValueInfo table = model_.InfoOf(node.input(0));
    const int64_t axis = node.GetInt(node.op_type() == "Gather" ? "axis" : "gather_axis", 0);
    return axis == 0 && (!table.has_shape || table.shape.size() >= 2);
  }

  void VisitLinear(const Node& node, size_t data) {
    if (Of(node, data).empty()) return;
    const size_t linear = Add({.kind = SourceKind::kLinear, .node = node, .data = Of(node, data)});
    // A Gemm may have the residual as the matrix that it adds.
    const bool adds_stream = node.op_type() == "Gemm" && HasKind(Of(node, 2), SourceKind::kStream);
    if (adds_stream) return Merge(node, {{linear}, Of(node, 2)});
    Give(node, {linear});
  }

  void VisitProduct(const Node& node) {
    if (Of(node, 0).empty() || Of(node, 1).empty()) return;
    const auto scores = scores_.find(node.input(0));
    if (scores == scores_.end()) {
      return Give(node, {Add({.kind = SourceKind::kProduct,
                              .node = node,
                              .data = Of(node, 0),
                              .keys = Of(node, 1)})});
    }
    const Source product = trace_.sources[scores->second];
    Give(node, {Add({.kind = SourceKind::kAttention,
                     .node = node,
                     .data = product.data,
                     .keys = product.keys,
                     .values = Of(node, 1)})});
  }

  void VisitAttention(const Node& node) {
    const bool is_packed = node.num_inputs() < 2 || node.input(1).empty();
    const SourceSet& keys = is_packed ? Of(node, 0) : Of(node, 1);
    const bool has_values = node.num_inputs() > 2 && !node.input(2).empty();
    Give(node, {Add({.kind = SourceKind::kAttention,
                     .node = node,
                     .data = Of(node, 0),
                     .keys = keys,
                     .values = has_values ? Of(node, 2) : keys})});
  }

  void VisitAttentionWithProjection(const Node& node) {
    const SourceSet linear{Add({.kind = SourceKind::kLinear, .node = node, .data = Of(node, 0)})};
    Give(node, {Add({.kind = SourceKind::kAttention,
                     .node = node,
                     .data = linear,
                     .keys = linear,
                     .values = linear})});
  }

  // A sum is a new state of the stream if one of the summands holds the stream and the other a
  // layer that is not in both. Both summands of an activation function, x + 0.04 x^3, and of a
  // rotation, q cos + q' sin, have the same layer.
  void VisitSum(const Node& node) {
    std::vector<SourceSet> summands;
    for (size_t i = 0; i < node.num_inputs(); ++i) {
      if (!Of(node, i).empty()) summands.push_back(Of(node, i));
    }
    if (summands.size() < 2) return Give(node, OfAll(node));
    bool has_stream = false, has_layer = false, are_streams = true;
    SourceSet common = summands[0];
    for (const SourceSet& summand : summands) {
      std::erase_if(common, [&](size_t i) { return !summand.contains(i); });
    }
    for (const SourceSet& summand : summands) {
      for (const size_t i : summand) {
        const SourceKind kind = trace_.sources[i].kind;
        has_stream = has_stream || kind == SourceKind::kStream;
        are_streams = are_streams && kind == SourceKind::kStream;
        has_layer = has_layer || (!common.contains(i) &&
                                  (kind == SourceKind::kLinear || kind == SourceKind::kAttention));
      }
    }
    if (has_stream && (has_layer || (are_streams && common.empty()))) return Merge(node, summands);
    Give(node, OfAll(node));
  }

  void Merge(const Node& node, const std::vector<SourceSet>& summands) {
    SourceSet all;
    for (const SourceSet& summand : summands) all.insert(summand.begin(), summand.end());
    trace_.merged.insert(all.begin(), all.end());
    Give(node, {Add({.kind = SourceKind::kStream, .node = node, .data = all})});
  }

  // Remembers which product the probabilities behind a Softmax come from.
  void PassOnProbabilities(const Node& node) {
    if (node.op_type() == "Softmax" || node.op_type() == "BiasSoftmax") {
      const SourceSet& set = Of(node, 0);
      const auto product = std::ranges::find_if(
          set, [&](size_t i) { return trace_.sources[i].kind == SourceKind::kProduct; });
      if (product != set.end()) scores_[node.output(0)] = *product;
      return;
    }
    // A Where takes those of masked positions away.
    if (!PassesElementsOn(node) && node.op_type() != "Where" && !IsQuantizer(node)) return;
    for (size_t i = 0; i < node.num_inputs(); ++i) {
      const auto scores = scores_.find(node.input(i));
      if (scores != scores_.end()) scores_[node.output(0)] = scores->second;
    }
  }

  const graph::Model& model_;
  SourceTrace trace_;
  std::map<std::string, size_t> scores_;  // probabilities -> the product before their Softmax
};

}  // namespace

const SourceSet& SourceTrace::Of(const std::string& value) const {
  static const SourceSet kNone;
  const auto found = of_value.find(value);
  return found == of_value.end() ? kNone : found->second;
}

std::optional<LinearInputs> LinearInputsOf(const Node& node) {
  const OperatorTraits& traits = TraitsOf(node);
  if (traits.is_convolution()) return std::nullopt;
  if (traits.sums_products() || node.op_type() == "MatMulNBits" ||
      (ReadsCodes(node) && node.op_type().starts_with("MatMul"))) {
    return LinearInputs{};
  }
  const CodeInputs& codes = TraitsNamed(node.op_type()).codes;
  if (codes.product != Product::kMatMul && codes.product != Product::kGemm) return std::nullopt;
  return LinearInputs{static_cast<size_t>(codes.activations), static_cast<size_t>(codes.weight)};
}

SourceTrace TraceSources(const graph::Model& model) { return Tracer(model).Run(); }

}  // namespace bitpress::ops
