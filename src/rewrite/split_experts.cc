// Pass split-experts, on request: writes each mixture of experts (com.microsoft MoE) as standard
// operators, with two Gemm for each expert, or three. Plans then treat the weights of an expert as
// any other layer's: they take every format, activations are quantized, too, and products compute
// from codes, where a MoE takes floats and a QMoE integers of equal blocks.
//
// Rows are sorted by their experts once, so that each expert multiplies only its own. With E
// experts, R rows and k experts for a row:
//
//   weights, chosen = TopK(...)  [R, k]      which = NonZero(chosen == expert)  [2, R * k], sorted
//   Gather(x, which / k) -> Split by expert -> Gemm ... -> Concat -> activation -> Split -> Gemm
//   ...
//   -> Concat -> ScatterND to [R, k, outputs] -> times weights, summed over k
//
// A third weight makes it act(x fc1) * (x fc3) in front of fc2.
#include <algorithm>
#include <limits>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ops/expert_inputs.h"
#include "ops/operator_traits.h"
#include "rewrite/passes.h"

namespace bitpress::rewrite {
namespace {

using graph::Attribute;
using graph::Model;
using graph::Node;

// The first operator set in which Split and ReduceSum take their sizes and axes as inputs.
constexpr int64_t kOpset = 13;
constexpr size_t kRows = 0, kRouter = 1;
constexpr size_t kFirst = 0, kSecond = 1, kThird = 2;  // the weights

std::string WeightOf(const Node& node, size_t number) {
  return ops::InputOrNone(node, ops::InputsOfMoe(number).weight);
}
std::string BiasOf(const Node& node, size_t number) {
  return ops::InputOrNone(node, ops::InputsOfMoe(number).bias);
}

// Returns why a constant is no stack of floats of these sizes, or "". -1 is any size.
std::string WhyNoStack(const Model& model, const std::string& name,
                       const std::vector<int64_t>& sizes) {
  if (name.empty()) return "a weight is left out";
  if (!model.IsInitializer(name) || model.IsInput(name) || model.IsDeferred(name)) {
    return fmt::format("'{}' is no constant", name);
  }
  const graph::InitializerView view = model.Initializer(name);
  if (view.type != DataType::kFloat) {
    return fmt::format("'{}' is {}, and only FLOAT is split", name, DataTypeName(view.type));
  }
  if (view.dims.size() != sizes.size() || NumElements(view.dims) == 0) {
    return fmt::format("'{}' is no stack", name);
  }
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] >= 0 && view.dims[i] != sizes[i]) {
      return fmt::format("'{}' has other sizes than the weights", name);
    }
  }
  return "";
}

// Returns why the weights and biases of a mixture of experts are not taken apart, or "".
std::string WhyNotWeights(const Model& model, const Node& node) {
  std::vector<int64_t> first = {-1, -1, -1};
  for (const size_t number : {kFirst, kSecond, kThird}) {
    const std::string weight = WeightOf(node, number), bias = BiasOf(node, number);
    if (weight.empty() && number == kThird) continue;
    const std::vector<int64_t> wanted =
        number == kSecond ? std::vector<int64_t>{first[0], -1, -1} : first;
    std::string why = WhyNoStack(model, weight, wanted);
    if (!why.empty()) return why;
    const std::span<const int64_t> dims = model.Initializer(weight).dims;
    if (number == kFirst) first.assign(dims.begin(), dims.end());
    if (!bias.empty()) why = WhyNoStack(model, bias, {dims[0], dims[1]});
    if (!why.empty()) return why;
  }
  return "";
}

// Returns why a mixture of experts stays as it is, or "".
std::string WhyNot(const Model& model, const Node& node) {
  const std::string why = WhyNotWeights(model, node);
  if (!why.empty()) return why;
  const int64_t num_experts = model.Initializer(WeightOf(node, kFirst)).dims[0];
  if (const int64_t k = node.GetInt("k", 4); k < 1 || k > num_experts) {
    return fmt::format("it chooses {} of {} experts", k, num_experts);
  }
  if (node.GetInt("use_sparse_mixer", 0) != 0) return "it has a sparse mixer";
  const std::string activation = node.GetString("activation_type", "relu");
  if (activation == "swiglu") {
    if (!WeightOf(node, kThird).empty()) return "it has swiglu and a third weight";
    return node.GetInt("swiglu_fusion", 0) == 1 ? "" : "its gates are not interleaved";
  }
  constexpr std::string_view kKnown[] = {"relu", "gelu", "silu", "identity"};
  const bool is_known = std::ranges::find(kKnown, activation) != std::end(kKnown);
  return is_known ? "" : fmt::format("its activation is {}", activation);
}

class Splitter {
 public:
  Splitter(Model& model, Node node) : model_(model), node_(std::move(node)) {}

  void Run() {
    std::vector<std::string> weights;
    for (const size_t number : {kFirst, kSecond, kThird}) {
      weights.push_back(WeightOf(node_, number));
      weights.push_back(BiasOf(node_, number));
    }
    prefix_ = node_.name().empty() ? node_.output(0) : node_.name();
    num_experts_ = model_.Initializer(weights[0]).dims[0];
    k_ = node_.GetInt("k", 4);
    model_.Replace({node_}, [&] { Insert(); });
    for (const std::string& name : weights) {
      if (!name.empty() && !model_.IsRead(name)) model_.RemoveInitializer(name);
    }
  }

 private:
  void Insert() {
    const int64_t num_inputs = model_.Initializer(WeightOf(node_, kFirst)).dims[2];
    const int64_t num_outputs = model_.Initializer(WeightOf(node_, kSecond)).dims[1];
    const graph::ValueInfo info = model_.InfoOf(node_.input(kRows));
    const bool is_matrix = info.has_shape && info.shape.size() == 2;
    const std::string rows =
        is_matrix ? node_.input(kRows)
                  : Op("Reshape", {node_.input(kRows), Integers({-1, num_inputs})}, "rows");
    const auto [shares, chosen] = Route();

    const std::string flat = Op("Reshape", {chosen, Integers({1, -1})}, "flat");
    std::vector<int64_t> experts(static_cast<size_t>(num_experts_));
    std::iota(experts.begin(), experts.end(), 0);
    const std::string is_of = Op("Equal", {flat, Integers(experts, {num_experts_, 1})}, "is_of");
    const std::string counts =
        Op("ReduceSum",
           {Op("Cast", {is_of}, "ones", {{"to", static_cast<int64_t>(DataType::kInt64)}}),
            Integers({1})},
           "counts", {{"keepdims", int64_t{0}}});
    const std::string places =
        Op("Gather", {Op("NonZero", {is_of}, "sorted"), Integers({1}, {})}, "places");
    const std::string of_rows =
        k_ == 1 ? places : Op("Div", {places, Integers({k_}, {})}, "of_rows");

    const std::string sorted = Op("Gather", {rows, of_rows}, "sorted_rows");
    std::string inner = Activate(Products(sorted, counts, kFirst, "fc1"));
    if (!WeightOf(node_, kThird).empty()) {
      inner = Op("Mul", {inner, Products(sorted, counts, kThird, "fc3")}, "gated");
    }
    const std::string outer = Products(inner, counts, kSecond, "fc2");

    const std::string num_places = Op("Shape", {places}, "num_places");
    const std::string zeros =
        Op("ConstantOfShape",
           {Op("Concat", {num_places, Integers({num_outputs})}, "shape", {{"axis", int64_t{0}}})},
           "zeros");
    const std::string indices = Op("Reshape", {places, Integers({-1, 1})}, "indices");
    const std::string unsorted = Op("ScatterND", {zeros, indices, outer}, "unsorted");
    const std::string of_row = Op("Reshape", {unsorted, Integers({-1, k_, num_outputs})}, "of_row");
    const std::string shared =
        Op("Mul", {of_row, Op("Reshape", {shares, Integers({-1, k_, 1})}, "shares")}, "shared");
    const std::string& y = node_.output(0);
    const std::string sum = Op("ReduceSum", {shared, Integers({1})}, "sum",
                               {{"keepdims", int64_t{0}}}, is_matrix ? y : "");
    if (is_matrix) return;
    Op("Reshape", {sum, Op("Shape", {node_.input(kRows)}, "given_shape")}, "shaped", {}, y);
  }

  // Returns the shares [R, k] of the experts of each row, and their numbers.
  std::pair<std::string, std::string> Route() {
    const bool is_normalized = node_.GetInt("normalize_routing_weights", 0) != 0;
    const std::vector<std::pair<std::string, Attribute>> last = {{"axis", int64_t{-1}}};
    std::string logits = node_.input(kRouter);
    if (!is_normalized) logits = Op("Softmax", {logits}, "probabilities", last);
    std::string shares = model_.FreshName(prefix_ + "_top");
    const std::string chosen = model_.FreshName(prefix_ + "_chosen");
    model_.InsertNode({model_.FreshNodeName(prefix_ + "_topk"),
                       "TopK",
                       "",
                       {logits, Integers({k_})},
                       {shares, chosen},
                       last},
                      node_);
    if (is_normalized) shares = Op("Softmax", {shares}, "normalized", last);
    return {shares, chosen};
  }

  // Returns the products of sorted rows with the weights of their experts, in the same order.
  std::string Products(const std::string& sorted, const std::string& counts, size_t number,
                       const std::string& what) {
    std::vector<std::string> parts;
    for (int64_t expert = 0; expert < num_experts_; ++expert) {
      parts.push_back(model_.FreshName(fmt::format("{}_{}_rows_{}", prefix_, what, expert)));
    }
    model_.InsertNode({model_.FreshNodeName(fmt::format("{}_{}_split", prefix_, what)),
                       "Split",
                       "",
                       {sorted, counts},
                       parts,
                       {{"axis", int64_t{0}}}},
                      node_);
    std::vector<std::string> products;
    for (int64_t expert = 0; expert < num_experts_; ++expert) {
      std::vector<std::string> inputs = {parts[static_cast<size_t>(expert)],
                                         Slice(WeightOf(node_, number), expert)};
      const std::string bias = BiasOf(node_, number);
      if (!bias.empty()) inputs.push_back(Slice(bias, expert));
      products.push_back(
          Op("Gemm", inputs, fmt::format("{}_{}", what, expert), {{"transB", int64_t{1}}}));
    }
    return Op("Concat", products, what, {{"axis", int64_t{0}}});
  }

  std::string Activate(const std::string& h) {
    const std::string activation = node_.GetString("activation_type", "relu");
    if (activation == "identity") return h;
    if (activation == "relu") return Op("Relu", {h}, "relu");
    if (activation == "silu") return Op("Mul", {h, Op("Sigmoid", {h}, "gate")}, "silu");
    if (activation == "gelu") return Op("FastGelu", {h}, "gelu", {}, "", "com.microsoft");
    // Gates and linear parts lie in turns.
    constexpr int64_t kEnd = std::numeric_limits<int64_t>::max();
    const auto every_second = [&](int64_t first, const char* name) {
      return Op("Slice", {h, Integers({first}), Integers({kEnd}), Integers({-1}), Integers({2})},
                name);
    };
    std::string gate = every_second(0, "gates");
    std::string linear = every_second(1, "linear");
    if (node_.HasAttribute("swiglu_limit")) {
      const float limit = node_.GetFloat("swiglu_limit", 0);
      gate = Op("Clip", {gate, "", Float(limit)}, "gates_limited");
      linear = Op("Clip", {linear, Float(-limit), Float(limit)}, "linear_limited");
    }
    std::string scaled = gate;
    if (const float alpha = node_.GetFloat("activation_alpha", 1); alpha != 1) {
      scaled = Op("Mul", {gate, Float(alpha)}, "gates_scaled");
    }
    if (const float beta = node_.GetFloat("activation_beta", 0); beta != 0) {
      linear = Op("Add", {linear, Float(beta)}, "linear_moved");
    }
    const std::string swish =
        Op("Mul", {gate, Op("Sigmoid", {scaled}, "gates_open")}, "gates_swish");
    return Op("Mul", {swish, linear}, "swiglu");
  }

  // Returns the name of an element of a stack, which is a constant of its own. No data are copied.
  std::string Slice(const std::string& stack, int64_t index) {
    graph::HeldInitializer part = model_.HoldInitializer(stack);
    const auto num = static_cast<size_t>(part.dims[0]);
    const size_t length = part.bytes.size() / num;
    part.bytes = part.bytes.subspan(static_cast<size_t>(index) * length, length);
    part.dims.erase(part.dims.begin());
    const std::string name = model_.FreshName(fmt::format("{}_{}", stack, index));
    model_.SetHeldInitializer(name, part);
    return name;
  }

  std::string Integers(const std::vector<int64_t>& values) {
    return Integers(values, {static_cast<int64_t>(values.size())});
  }

  std::string Integers(const std::vector<int64_t>& values, const std::vector<int64_t>& dims) {
    const std::string name = model_.FreshName(prefix_ + "_numbers");
    model_.SetInitializer(name, DataType::kInt64, dims,
                          std::as_bytes(std::span<const int64_t>(values)));
    return name;
  }

  std::string Float(float value) {
    const std::string name = model_.FreshName(prefix_ + "_number");
    model_.SetInitializer(name, DataType::kFloat, {}, std::as_bytes(std::span(&value, 1)));
    return name;
  }

  // Inserts a node and returns its output, which has a new name if none is given.
  std::string Op(const std::string& op_type, std::vector<std::string> inputs,
                 const std::string& what,
                 std::vector<std::pair<std::string, Attribute>> attributes = {},
                 std::string output = "", std::string_view domain = "") {
    const std::string name = fmt::format("{}_{}", prefix_, what);
    if (output.empty()) output = model_.FreshName(name);
    model_.InsertNode({model_.FreshNodeName(name),
                       op_type,
                       std::string(domain),
                       std::move(inputs),
                       {output},
                       std::move(attributes)},
                      node_);
    return output;
  }

  Model& model_;
  Node node_;
  std::string prefix_;
  int64_t num_experts_ = 0;
  int64_t k_ = 0;
};

std::vector<Node> Mixtures(const Model& model) {
  std::vector<Node> nodes = model.AllNodes();
  std::erase_if(nodes, [](const Node& node) { return !ops::TraitsOf(node).has_experts(); });
  return nodes;
}

graph::PassResult SplitAll(Model& model) {
  graph::PassResult result = false;
  result.label = "experts";
  int64_t num_split = 0;
  std::string why_no_opset;
  if (!Mixtures(model).empty()) why_no_opset = model.RaiseOpset(kOpset);
  for (const Node& node : Mixtures(model)) {
    const std::string why = why_no_opset.empty() ? WhyNot(model, node) : why_no_opset;
    if (!why.empty()) {
      result.left_alone.emplace_back(node.Describe(), why);
      continue;
    }
    Splitter(model, node).Run();
    ++num_split;
  }
  result.is_modified = num_split > 0;
  result.counts.emplace_back("MoE", num_split);
  result.text = fmt::format("{} MoE with a product for each expert", num_split);
  if (result.is_modified) model.InferShapes();
  return result;
}

}  // namespace

const PreparePass kSplitExperts{
    .name = "split-experts",
    .run = [](Model& model, PrepareState&) { return SplitAll(model); },
    .is_wanted = [](const Model&,
                    const PrepareState& state) { return !SettingOf(state, kSplitExperts).empty(); },
    .setting = "all"};

}  // namespace bitpress::rewrite
