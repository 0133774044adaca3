#include "emit/use_integer_operators.h"

#include <algorithm>
#include <initializer_list>
#include <optional>

#include "base/error.h"
#include "emit/integer_codes.h"
#include "graph/clean_up.h"
#include "ops/integer_operators.h"
#include "ops/operator_traits.h"

namespace bitpress::emit {
namespace {

using graph::Model;
using graph::Node;
using graph::NodeSpec;
using graph::Use;
using ops::OnIntegers;

constexpr const char* kMicrosoft = "com.microsoft";

void Append(std::vector<std::string>& list, std::vector<std::string> more) {
  list.insert(list.end(), more.begin(), more.end());
}

// The reason why a node stays as it is, which is no error. "" if it was rewritten.
using Reason = std::string;

class IntegerRewriter {
 public:
  explicit IntegerRewriter(Model& model) : model_(model) {}

  IntegerOperators Run() {
    // Rewriting removes nodes, but none of these before its turn.
    std::vector<Node> nodes = model_.AllNodes();
    std::erase_if(nodes, [&](const Node& node) {
      return node.num_inputs() == 0 || !IsKnown(node) || !CodesOf(model_, node.input(0));
    });
    for (const Node& node : nodes) {
      const std::string name = node.Describe();
      const Reason reason = Rewrite(node);
      if (reason.empty()) {
        ++result_.num_nodes;
      } else {
        result_.omissions.emplace_back(name, reason);
      }
    }
    if (result_.num_nodes > 0) graph::RemoveUnused(model_);
    return std::move(result_);
  }

 private:
  static bool IsKnown(const Node& node) {
    const ops::OperatorTraits& traits = ops::TraitsOf(node);
    return node.domain().empty() && traits.has_integer_kernel() &&
           (traits.is_product() || traits.on_integers != OnIntegers::kFloats);
  }

  // The nodes behind one whose result is quantized: those that saturation replaces, and the
  // QuantizeLinear.
  struct Result {
    IntegerCodes codes;
    std::vector<Node> nodes;
  };

  // Returns the result of a node; nothing, with a reason, if it is not quantized in this way.
  std::optional<Result> ResultOf(const Node& node, Reason& reason) const {
    std::vector<Node> between;
    std::string value = node.output(0);
    for (;;) {
      const std::optional<Use> use = model_.OnlyUse(value);
      if (!use || use->input_index != 0 || !model_.AreInOneGraph(node, use->node)) {
        reason = "its result is read as floats";
        return std::nullopt;
      }
      const Node reader = use->node;
      if (IsStandardOp(reader, "QuantizeLinear")) {
        std::optional<IntegerCodes> codes = CodesOf(model_, reader, reader.output(0));
        if (!codes || !codes->is_byte() || codes->is_per_axis) {
          reason = "its result is quantized to other codes than 8 bits of one scale";
          return std::nullopt;
        }
        for (const Node& activation : between) {
          if (!IsSaturation(model_, activation, *codes)) {
            reason = fmt::format("{} behind it is more than the saturation of codes",
                                 activation.op_type());
            return std::nullopt;
          }
        }
        between.push_back(reader);
        return Result{*codes, std::move(between)};
      }
      if (ops::TraitsOf(reader).on_integers != OnIntegers::kFuses) {
        reason = "its result is read as floats";
        return std::nullopt;
      }
      between.push_back(reader);
      value = reader.output(0);
    }
  }

  // Rewrites a node. Returns "", or the reason if the node stays.
  Reason Rewrite(const Node& node) {
    const ops::OperatorTraits& traits = ops::TraitsOf(node);
    if (traits.is_convolution()) return RewriteConv(node);
    if (traits.is_matrix_product()) return RewriteProduct(node);
    if (traits.on_integers == OnIntegers::kJoins) return RewriteConcat(node);
    if (traits.on_integers == OnIntegers::kMoves) return RewriteMoving(node);
    return RewriteElementwise(node, traits);
  }

  // Returns whether ONNX Runtime computes this pair of types.
  static bool IsPair(const IntegerCodes& x, const IntegerCodes& w) {
    return x.type == DataType::kUInt8 || w.type == DataType::kInt8;
  }

  Reason RewriteConv(const Node& node) {
    const std::optional<IntegerCodes> x = ActivationCodes(model_, node.input(0));
    const std::optional<IntegerCodes> w = WeightCodes(model_, node.input(1), 0);
    if (!x || !w || !IsPair(*x, *w)) return "its data or weight are other codes than 8 bits";
    const std::optional<std::string> bias = BiasCodes(model_, node, *x, *w);
    if (!bias) return "its bias is no int32 of the scale of its products";
    Reason reason;
    const std::optional<Result> y = ResultOf(node, reason);
    if (!y) return reason;
    if (y->codes.type != x->type) return "its result has another type than its data";
    NodeSpec spec{node.name(), "QLinearConv", "", x->triple(), {}, {}};
    Append(spec.inputs, w->triple());
    Append(spec.inputs, {y->codes.scale, y->codes.zero_point});
    if (!bias->empty()) spec.inputs.push_back(*bias);
    CopyAttributes(node, {"auto_pad"}, {"dilations", "kernel_shape", "pads", "strides"}, {"group"},
                   spec);
    Replace(node, *y, std::move(spec));
    return "";
  }

  Reason RewriteProduct(const Node& node) {
    const bool is_gemm = ops::TraitsOf(node).product == ops::Product::kGemm;
    const graph::ValueInfo info = model_.InfoOf(node.input(1));
    if (!info.has_shape || info.shape.size() < 2) return "the rank of its second matrix is unknown";
    const auto rank = static_cast<int64_t>(info.shape.size());
    const bool is_transposed = is_gemm && node.GetInt("transB", 0) != 0;
    const std::optional<IntegerCodes> a = ActivationCodes(model_, node.input(0));
    const std::optional<IntegerCodes> b =
        WeightCodes(model_, node.input(1), is_transposed ? 0 : rank - 1);
    if (!a || !b || !IsPair(*a, *b)) return "its matrices are other codes than 8 bits";
    if (b->is_per_axis && !ops::TakesChannelScales(node, 1, rank)) {
      return "a scale for each column needs a matrix of rank 2";
    }
    const std::optional<std::string> bias = is_gemm ? BiasCodes(model_, node, *a, *b) : "";
    if (!bias) return "its bias is no int32 of the scale of its products";
    const bool is_scaled = is_gemm && node.GetFloat("alpha", 1) != 1;
    if (!bias->empty() && (is_scaled || node.GetFloat("beta", 1) != 1)) {
      return "alpha or beta is not 1";
    }
    Reason reason;
    const std::optional<Result> y = ResultOf(node, reason);
    if (y && y->codes.type != a->type) return "its result has another type than its data";
    if (is_gemm) {
      NodeSpec spec{node.name(), "QGemm", kMicrosoft, a->triple(), {}, {}};
      Append(spec.inputs, b->triple());
      spec.inputs.push_back(*bias);
      if (y) Append(spec.inputs, {y->codes.scale, y->codes.zero_point});
      if (!y && bias->empty()) spec.inputs.pop_back();
      spec.attributes = {{"alpha", node.GetFloat("alpha", 1)},
                         {"transA", node.GetInt("transA", 0)},
                         {"transB", node.GetInt("transB", 0)}};
      Replace(node, y, std::move(spec));
    } else if (y) {
      NodeSpec spec{node.name(), "QLinearMatMul", "", a->triple(), {}, {}};
      Append(spec.inputs, b->triple());
      Append(spec.inputs, {y->codes.scale, y->codes.zero_point});
      Replace(node, y, std::move(spec));
    } else {
      Replace(node, y,
              {node.name(),
               "MatMulIntegerToFloat",
               kMicrosoft,
               {a->codes, b->codes, a->scale, b->scale, a->zero_point, b->zero_point},
               {},
               {}});
    }
    return "";
  }

  Reason RewriteElementwise(const Node& node, const ops::OperatorTraits& traits) {
    if (std::string why = ops::WhyNoIntegerForm(node); !why.empty()) return why;
    NodeSpec spec{node.name(), std::string(traits.qoperator), kMicrosoft, {}, {}, {}};
    DataType type = DataType::kUndefined;
    for (size_t i = 0; i < std::min(traits.num_operands, node.num_inputs()); ++i) {
      const std::optional<IntegerCodes> x = ActivationCodes(model_, node.input(i));
      if (!x || (i > 0 && x->type != type)) return "its data are not codes of one type of 8 bits";
      type = x->type;
      Append(spec.inputs, x->triple());
    }
    Reason reason;
    const std::optional<Result> y = ResultOf(node, reason);
    if (!y) return reason;
    if (y->codes.type != type) return "its result has another type than its data";
    Append(spec.inputs, {y->codes.scale, y->codes.zero_point});
    CopyAttributes(node, {"auto_pad"}, {"kernel_shape", "pads", "strides"},
                   {"ceil_mode", "count_include_pad"}, spec);
    if (node.HasAttribute("alpha"))
      spec.attributes.emplace_back("alpha", node.GetFloat("alpha", 0));
    Replace(node, *y, std::move(spec));
    return "";
  }

  // Codes of one scale are joined by ONNX's own Concat.
  Reason RewriteConcat(const Node& node) {
    Reason reason;
    const std::optional<Result> y = ResultOf(node, reason);
    if (!y) return reason;
    bool is_plain = true;
    std::vector<IntegerCodes> parts;
    for (size_t i = 0; i < node.num_inputs(); ++i) {
      const std::optional<IntegerCodes> x = ActivationCodes(model_, node.input(i));
      if (!x || x->type != y->codes.type) return "its data are not codes of one type of 8 bits";
      is_plain = is_plain && HasSameMeaning(model_, *x, y->codes);
      parts.push_back(*x);
    }
    NodeSpec spec{node.name(), "Concat", "", {}, {}, {{"axis", node.GetInt("axis", 0)}}};
    if (!is_plain) {
      spec.op_type = "QLinearConcat";
      spec.domain = kMicrosoft;
      spec.inputs = {y->codes.scale, y->codes.zero_point};
    }
    for (const IntegerCodes& part : parts) {
      Append(spec.inputs, is_plain ? std::vector<std::string>{part.codes} : part.triple());
    }
    Replace(node, *y, std::move(spec));
    return "";
  }

  // Connects a node that only moves elements to codes on both sides. The node itself stays.
  Reason RewriteMoving(Node node) {
    const std::optional<IntegerCodes> x = ActivationCodes(model_, node.input(0));
    if (!x) return "its data are other codes than 8 bits";
    if (node.num_outputs() > 1) return "it has further results";
    if (!ops::MovesElements(node)) return "it interpolates";
    Reason reason;
    const std::optional<Result> y = ResultOf(node, reason);
    if (!y) return reason;
    if (!HasSameMeaning(model_, *x, y->codes)) return "its result has another scale than its data";
    node.set_input(0, x->codes);
    model_.Replace(y->nodes, [&] { node.set_output(0, y->codes.codes); });
    return "";
  }

  // Replaces a node, and the quantizer of its result, by a new node. Without `y` the new node gives
  // the same floats.
  void Replace(const Node& node, const std::optional<Result>& y, NodeSpec spec) {
    spec.outputs = {y ? y->codes.codes : node.output(0)};
    if (!spec.domain.empty()) model_.SetOpsetImport(spec.domain, 1);
    std::vector<Node> old{node};
    if (y) old.insert(old.end(), y->nodes.begin(), y->nodes.end());
    model_.Replace(old, [&] { model_.InsertNode(spec, node); });
  }

  using Names = std::initializer_list<const char*>;
  static void CopyAttributes(const Node& node, Names words, Names lists, Names numbers,
                             NodeSpec& spec) {
    for (const char* name : words) {
      if (node.HasAttribute(name)) spec.attributes.emplace_back(name, node.GetString(name, ""));
    }
    for (const char* name : lists) {
      if (node.HasAttribute(name)) spec.attributes.emplace_back(name, node.GetInts(name));
    }
    for (const char* name : numbers) {
      if (node.HasAttribute(name)) spec.attributes.emplace_back(name, node.GetInt(name, 0));
    }
  }

  Model& model_;
  IntegerOperators result_;
};

}  // namespace

IntegerOperators UseIntegerOperators(Model& model) { return IntegerRewriter(model).Run(); }

}  // namespace bitpress::emit
