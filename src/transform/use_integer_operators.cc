#include "transform/use_integer_operators.h"

#include <algorithm>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string_view>

#include "base/error.h"
#include "formats/reference.h"
#include "graph/clean_up.h"

namespace bitpress::transform {
namespace {

using graph::Model;
using graph::Node;
using graph::NodeSpec;
using graph::Use;

constexpr const char* kMicrosoft = "com.microsoft";

// Elements keep their values on the way from the first input to the output.
constexpr std::string_view kMoving[] = {"MaxPool",  "Reshape",      "Transpose",    "Flatten",
                                        "Squeeze",  "Unsqueeze",    "Slice",        "Gather",
                                        "Identity", "DepthToSpace", "SpaceToDepth", "Expand",
                                        "Tile",     "ReduceMax",    "Resize"};
// Of one input, computed by tables or sums: the operator of ONNX Runtime has the same name behind
// "QLinear".
constexpr std::string_view kUnary[] = {"GlobalAveragePool", "AveragePool", "Sigmoid", "LeakyRelu"};
constexpr std::string_view kBinary[] = {"Add", "Mul"};

template <size_t N>
bool Contains(const std::string_view (&names)[N], const Node& node) {
  return node.domain().empty() &&
         std::find(std::begin(names), std::end(names), node.op_type()) != std::end(names);
}

bool IsStandard(const Node& node, std::string_view op_type) {
  return node.domain().empty() && node.op_type() == op_type;
}

// A value as codes, and the constants that say what they mean.
struct Codes {
  std::string codes;
  std::string scale;
  std::string zero_point;
  DataType type = DataType::kUndefined;
  bool is_per_axis = false;
  int64_t axis = 0;

  std::vector<std::string> triple() const { return {codes, scale, zero_point}; }
};

void Append(std::vector<std::string>& list, std::vector<std::string> more) {
  list.insert(list.end(), more.begin(), more.end());
}

// Why a node stays as it is. Not an error.
using Reason = std::string;

class Rewriter {
 public:
  explicit Rewriter(Model& model) : model_(model) {}

  IntegerOperators Run() {
    // Rewriting removes nodes, but none of these before its turn.
    std::vector<Node> nodes = model_.Nodes();
    std::erase_if(nodes, [&](const Node& node) {
      return node.num_inputs() == 0 || !IsKnown(node) || !CodesOf(node.input(0));
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
    return IsStandard(node, "Conv") || IsStandard(node, "MatMul") || IsStandard(node, "Gemm") ||
           IsStandard(node, "Concat") || Contains(kMoving, node) || Contains(kUnary, node) ||
           Contains(kBinary, node);
  }

  // What a DequantizeLinear makes floats of.
  std::optional<Codes> CodesOf(const std::string& value) const {
    const std::optional<Node> dequantize = model_.Producer(value);
    if (!dequantize || !IsStandard(*dequantize, "DequantizeLinear")) return std::nullopt;
    return CodesOf(*dequantize, dequantize->input(0));
  }

  std::optional<Codes> CodesOf(const Node& quantizer, const std::string& codes) const {
    if (quantizer.num_inputs() != 3 || quantizer.GetInt("block_size", 0) != 0) return std::nullopt;
    Codes found{codes, quantizer.input(1), quantizer.input(2), DataType::kUndefined, false, 0};
    if (!model_.IsInitializer(found.scale) || !model_.IsInitializer(found.zero_point)) {
      return std::nullopt;
    }
    found.type = model_.InfoOf(found.zero_point).type;
    found.is_per_axis = !model_.InfoOf(found.scale).shape.empty();
    found.axis = quantizer.GetInt("axis", 1);
    return found;
  }

  static bool IsByte(const Codes& codes) {
    return codes.type == DataType::kUInt8 || codes.type == DataType::kInt8;
  }

  // The operator's data: a value with one scale, in 8 bits.
  std::optional<Codes> Activation(const std::string& value) const {
    std::optional<Codes> codes = CodesOf(value);
    return codes && IsByte(*codes) && !codes->is_per_axis ? codes : std::nullopt;
  }

  // The QuantizeLinear behind a node, and the nodes between the two, whose work saturation does.
  struct Result {
    Codes codes;
    Node quantize;
    std::vector<Node> between;
  };

  // Nothing, with a reason, if the result is not quantized in this way.
  std::optional<Result> ResultOf(const Node& node, Reason& reason) const {
    std::vector<Node> between;
    std::string value = node.output(0);
    for (;;) {
      const std::vector<Use> uses = model_.Uses(value);
      const bool is_read_once = uses.size() == 1 && uses.front().input_index == 0 &&
                                !model_.IsOutput(value) && !model_.IsUsedInSubgraph(value);
      if (!is_read_once) {
        reason = "its result is read as floats";
        return std::nullopt;
      }
      const Node& reader = uses.front().node;
      if (IsStandard(reader, "QuantizeLinear")) {
        std::optional<Codes> codes = CodesOf(reader, reader.output(0));
        if (!codes || !IsByte(*codes) || codes->is_per_axis) {
          reason = "its result is quantized to other codes than 8 bits of one scale";
          return std::nullopt;
        }
        for (const Node& activation : between) {
          if (!IsSaturation(activation, *codes)) {
            reason = fmt::format("{} behind it is more than the saturation of codes",
                                 activation.op_type());
            return std::nullopt;
          }
        }
        return Result{*codes, reader, between};
      }
      const bool is_clamp = IsStandard(reader, "Relu") || IsStandard(reader, "Clip");
      if (!is_clamp) {
        reason = "its result is read as floats";
        return std::nullopt;
      }
      between.push_back(reader);
      value = reader.output(0);
    }
  }

  float FloatConstant(const std::string& name, float fallback) const {
    if (name.empty()) return fallback;
    if (!model_.IsInitializer(name) || model_.IsDeferred(name)) {
      return std::numeric_limits<float>::quiet_NaN();
    }
    const graph::InitializerView constant = model_.Initializer(name);
    if (constant.type != DataType::kFloat || constant.bytes.size() != sizeof(float)) {
      return std::numeric_limits<float>::quiet_NaN();
    }
    return constant.values<float>()[0];
  }

  int64_t ZeroPoint(const Codes& codes) const {
    const auto byte = model_.Initializer(codes.zero_point).bytes[0];
    return codes.type == DataType::kInt8 ? static_cast<int8_t>(byte) : static_cast<uint8_t>(byte);
  }

  // Whether Relu or Clip change nothing because its limits have the outermost codes: quantizing
  // keeps the order.
  bool IsSaturation(const Node& node, const Codes& codes) const {
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    const auto limit = [&](size_t input, float fallback) {
      const bool is_given = node.num_inputs() > input;
      return FloatConstant(is_given ? node.input(input) : "", fallback);
    };
    const bool is_relu = node.op_type() == "Relu";
    const float least = is_relu ? 0 : limit(1, node.GetFloat("min", -kInfinity));
    const float largest = is_relu ? kInfinity : limit(2, node.GetFloat("max", kInfinity));
    const float scale = FloatConstant(codes.scale, 0);
    if (!(least <= largest) || !(scale > 0)) return false;
    const formats::CodeRange range = formats::IntegerRange(
        codes.type == DataType::kInt8 ? formats::ElementType::kInt8 : formats::ElementType::kUInt8);
    const auto quantize = [&](float value) {
      return formats::ref::QuantizeInteger(value, scale, ZeroPoint(codes), range);
    };
    return quantize(least) == range.quant_min && quantize(largest) == range.quant_max;
  }

  bool HasSameMeaning(const Codes& x, const Codes& y) const {
    return x.type == y.type && FloatConstant(x.scale, 0) == FloatConstant(y.scale, 1) &&
           ZeroPoint(x) == ZeroPoint(y);
  }

  // The reason why not, or "".
  Reason Rewrite(const Node& node) {
    if (IsStandard(node, "Conv")) return RewriteConv(node);
    if (IsStandard(node, "MatMul") || IsStandard(node, "Gemm")) return RewriteProduct(node);
    if (IsStandard(node, "Concat")) return RewriteConcat(node);
    if (Contains(kMoving, node)) return RewriteMoving(node);
    return RewriteElementwise(node);
  }

  // A constant weight with one scale, or one for each index of `channel_axis`.
  std::optional<Codes> Weight(const std::string& value, int64_t channel_axis) const {
    std::optional<Codes> codes = CodesOf(value);
    if (!codes || !IsByte(*codes)) return std::nullopt;
    if (codes->is_per_axis && codes->axis != channel_axis) return std::nullopt;
    return codes;
  }

  // Pairs of types that ONNX Runtime computes.
  static bool IsPair(const Codes& x, const Codes& w) {
    return x.type == DataType::kUInt8 || w.type == DataType::kInt8;
  }

  // The codes of a bias: "" if there is none; nothing if it is a float.
  std::optional<std::string> Bias(const Node& node) const {
    if (node.num_inputs() < 3 || node.input(2).empty()) return "";
    const std::optional<Codes> bias = CodesOf(node.input(2));
    if (!bias || bias->type != DataType::kInt32) return std::nullopt;
    return bias->codes;
  }

  Reason RewriteConv(const Node& node) {
    const std::optional<Codes> x = Activation(node.input(0));
    const std::optional<Codes> w = Weight(node.input(1), 0);
    const std::optional<std::string> bias = Bias(node);
    if (!x || !w || !IsPair(*x, *w)) return "its data or weight are other codes than 8 bits";
    if (!bias) return "its bias is a float";
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
    const bool is_gemm = node.op_type() == "Gemm";
    const graph::ValueInfo info = model_.InfoOf(node.input(1));
    if (!info.has_shape || info.shape.size() < 2) return "the rank of its second matrix is unknown";
    const auto rank = static_cast<int64_t>(info.shape.size());
    const bool is_transposed = is_gemm && node.GetInt("transB", 0) != 0;
    const std::optional<Codes> a = Activation(node.input(0));
    const std::optional<Codes> b = Weight(node.input(1), is_transposed ? 0 : rank - 1);
    if (!a || !b || !IsPair(*a, *b)) return "its matrices are other codes than 8 bits";
    if (b->is_per_axis && rank > 2) return "a scale for each column needs a matrix of rank 2";
    const std::optional<std::string> bias = is_gemm ? Bias(node) : "";
    if (!bias) return "its bias is a float";
    if (is_gemm && node.GetFloat("beta", 1) != 1) return "beta is not 1";
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

  Reason RewriteElementwise(const Node& node) {
    NodeSpec spec{node.name(), "QLinear" + node.op_type(), kMicrosoft, {}, {}, {}};
    DataType type = DataType::kUndefined;
    for (size_t i = 0; i < (Contains(kBinary, node) ? 2 : 1); ++i) {
      const std::optional<Codes> x = Activation(node.input(i));
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
    if (node.op_type() == "AveragePool" && node.HasAttribute("dilations"))
      return "it has dilations";
    if (node.op_type() == "LeakyRelu") {
      spec.attributes.emplace_back("alpha", node.GetFloat("alpha", 0.01F));
    }
    Replace(node, *y, std::move(spec));
    return "";
  }

  // Codes of one scale are joined by ONNX's own Concat.
  Reason RewriteConcat(const Node& node) {
    Reason reason;
    const std::optional<Result> y = ResultOf(node, reason);
    if (!y) return reason;
    bool is_plain = true;
    std::vector<Codes> parts;
    for (size_t i = 0; i < node.num_inputs(); ++i) {
      const std::optional<Codes> x = Activation(node.input(i));
      if (!x || x->type != y->codes.type) return "its data are not codes of one type of 8 bits";
      is_plain = is_plain && HasSameMeaning(*x, y->codes);
      parts.push_back(*x);
    }
    NodeSpec spec{node.name(), "Concat", "", {}, {}, {{"axis", node.GetInt("axis", 0)}}};
    if (!is_plain) {
      spec.op_type = "QLinearConcat";
      spec.domain = kMicrosoft;
      spec.inputs = {y->codes.scale, y->codes.zero_point};
    }
    for (const Codes& part : parts) {
      Append(spec.inputs, is_plain ? std::vector<std::string>{part.codes} : part.triple());
    }
    Replace(node, *y, std::move(spec));
    return "";
  }

  // The node stays, but reads and gives codes.
  Reason RewriteMoving(Node node) {
    const std::optional<Codes> x = Activation(node.input(0));
    if (!x) return "its data are other codes than 8 bits";
    if (node.num_outputs() > 1) return "it has further results";
    if (node.op_type() == "Resize" && node.GetString("mode", "nearest") != "nearest") {
      return "it interpolates";
    }
    Reason reason;
    std::optional<Result> y = ResultOf(node, reason);
    if (!y) return reason;
    if (!HasSameMeaning(*x, y->codes)) return "its data and its result have different scales";
    node.set_input(0, x->codes);
    const std::string codes = y->codes.codes;
    RemoveChain(*y);
    node.set_output(0, codes);
    return "";
  }

  // What quantized the result of a node, and what stands between; their readers are left to what
  // gives the codes now.
  void RemoveChain(Result& y) {
    y.quantize.set_output(0, model_.FreshName(y.codes.codes + "_replaced"));
    model_.RemoveNode(y.quantize);
    for (auto activation = y.between.rbegin(); activation != y.between.rend(); ++activation) {
      model_.RemoveNode(*activation);
    }
  }

  // Puts a node in the place of another and of what quantizes its result; without `y` it gives the
  // same floats.
  void Replace(Node node, std::optional<Result> y, NodeSpec spec) {
    spec.outputs = {y ? y->codes.codes : node.output(0)};
    if (!spec.domain.empty()) model_.SetOpsetImport(spec.domain, 1);
    if (y) {
      RemoveChain(*y);
      model_.InsertNode(spec, node);
      model_.RemoveNode(node);
      return;
    }
    node.set_output(0, model_.FreshName(spec.outputs[0] + "_replaced"));
    model_.InsertNode(spec, node);
    model_.RemoveNode(node);
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

IntegerOperators UseIntegerOperators(Model& model) { return Rewriter(model).Run(); }

}  // namespace bitpress::transform
