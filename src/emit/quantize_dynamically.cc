#include "emit/quantize_dynamically.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "base/error.h"
#include "emit/products_of_rows.h"
#include "ops/operator_traits.h"
#include "weights/integer_weight.h"

namespace bitpress::emit {
namespace {

using graph::Node;
using plan::TensorPlan;

// A weight as codes, with its scale and zero point, by name.
struct Codes {
  std::string codes;
  std::string scale;
  std::string zero_point;  // "" if nothing reads it
  // The sums of the decoded columns and rows; "" if nothing reads them.
  std::string column_sums = {};
  std::string row_sums = {};
};

bool HasRows(const TensorPlan& row) {
  return row.is_dynamic() && row.integer->range.kind == plan::RangeMethod::Kind::kDynamicRows;
}

bool IsTransposed(const Node& node) { return node.GetInt("transB", 0) != 0; }

class DynamicQuantizer {
 public:
  DynamicQuantizer(graph::Model& model, const plan::ResolvedPlan& resolved, ThreadPool& pool)
      : model_(model),
        plan_(resolved.plan),
        weight_scales_(resolved.weight_scales),
        index_(model),
        pool_(pool),
        rows_(model) {
    const plan::QuantPlan& plan = resolved.plan;
    // The weights are collected before any node is replaced. Dynamic activations take every code.
    const plan::ChannelCodesTable unknown;
    const weights::PairRules rules(plan, model, unknown);
    for (const TensorPlan& row : plan.tensors) {
      if (row.role != plan::Role::kWeight) continue;
      pairs_[&row] = rules.For(row);
      for (const plan::TensorUse& use : row.uses) weights_[{use.node, use.input}] = &row;
    }
    for (const TensorPlan& row : plan.tensors) {
      if (!row.is_dynamic()) continue;
      for (const plan::TensorUse& use : row.uses) {
        const Node node = index_.Find(use);
        if (HasRows(row)) summed_.emplace(&WeightOf(use, 1), IsTransposed(node) ? 1 : 0);
        const bool is_recurrent = ops::TraitsOf(node).is_recurrent();
        for (const int64_t input :
             is_recurrent ? std::vector<int64_t>{1, 2} : std::vector<int64_t>{1}) {
          const TensorPlan& weight = WeightOf(use, input);
          const bool is_zero = weight.integer->is_symmetric && weight.format != "uint8";
          if (is_recurrent || !HasRows(row) || !is_zero) with_zero_point_.insert(&weight);
        }
      }
    }
  }

  std::vector<std::shared_ptr<const weights::WeightStatistics>> Run() {
    for (const TensorPlan& row : plan_.tensors) {
      if (row.is_dynamic()) Quantize(row);
    }
    for (const std::string& weight : replaced_) {
      if (!model_.IsRead(weight)) model_.RemoveInitializer(weight);
    }
    return std::move(statistics_);
  }

 private:
  // An activation that is quantized in one graph. ONNX Runtime fuses the quantizer with products
  // beside it.
  template <typename CodesOfActivation>
  struct Quantized {
    Node quantizer;  // the reader goes, the quantizer stays
    CodesOfActivation codes;
  };
  template <typename CodesOfActivation>
  using QuantizedGraphs = std::vector<Quantized<CodesOfActivation>>;

  // Quantizes one activation and replaces all operators that read it.
  void Quantize(const TensorPlan& row) {
    QuantizedGraphs<Codes> quantized;
    QuantizedGraphs<RowCodes> quantized_rows;
    std::vector<std::pair<size_t, plan::TensorUse>> uses;
    const std::vector<Node> order = model_.AllNodes();
    for (const plan::TensorUse& use : row.uses) {
      const Node node = index_.Find(use);
      uses.emplace_back(std::ranges::find(order, node) - order.begin(), use);
    }
    // The quantizer stands before the first reader of a graph.
    std::ranges::sort(uses, {}, [](const auto& use) { return use.first; });
    for (const auto& [position, use] : uses) {
      const Node node = order[position];
      if (ops::TraitsOf(node).is_recurrent()) {
        ReplaceLstm(node, use);
      } else if (HasRows(row)) {
        ReplaceProductOfRows(node, use, CodesIn(quantized_rows, row.value, node));
      } else {
        ReplaceProduct(node, use, CodesIn(quantized, row.value, node));
      }
    }
  }

  // Returns the codes in the graph of `reader`. Quantizes the activation there if no other reader
  // has.
  template <typename CodesOfActivation>
  CodesOfActivation CodesIn(QuantizedGraphs<CodesOfActivation>& graphs, const std::string& value,
                            const Node& reader) {
    for (const auto& known : graphs) {
      if (model_.AreInOneGraph(known.quantizer, reader)) return known.codes;
    }
    graphs.push_back({reader, {}});
    MakeCodes(value, reader, graphs.back());
    return graphs.back().codes;
  }

  void MakeCodes(const std::string& value, const Node& reader, Quantized<Codes>& made) {
    made.codes = {model_.FreshName(value + "_dynamic"), model_.FreshName(value + "_dynamic_scale"),
                  model_.FreshName(value + "_dynamic_zero_point")};
    made.quantizer = model_.InsertNode({model_.FreshNodeName(made.codes.codes + "_quantize"),
                                        "DynamicQuantizeLinear",
                                        "",
                                        {value},
                                        {made.codes.codes, made.codes.scale, made.codes.zero_point},
                                        {}},
                                       reader);
  }

  void MakeCodes(const std::string& value, const Node& reader, Quantized<RowCodes>& made) {
    made.codes = rows_.Quantize(value, reader, made.quantizer);
  }

  void ReplaceProductOfRows(const Node& node, const plan::TensorUse& use, const RowCodes& input) {
    const TensorPlan& row = WeightOf(use, 1);
    const Codes weight = Store(row, node, /*is_conv=*/false);
    const bool is_transposed = IsTransposed(node);
    const MatrixCodes matrix{is_transposed ? Transpose(weight.codes, {1, 0}) : weight.codes,
                             weight.scale, weight.zero_point,
                             is_transposed ? weight.row_sums : weight.column_sums};
    const std::string bias = node.num_inputs() > 2 ? node.input(2) : "";
    model_.Replace({node}, [&] { rows_.Multiply(input, matrix, bias, node.output(0), node); });
  }

  const TensorPlan& WeightOf(const plan::TensorUse& use, int64_t input) const {
    const auto found = weights_.find({use.node, input});
    if (found == weights_.end()) {
      Fail(ErrorCode::kInvalidArgument,
           "plan: input 0 of '{}' has range dynamic, so input {} must be an int8 or uint8 weight",
           use.node, input);
    }
    return *found->second;
  }

  void ReplaceProduct(const Node& node, const plan::TensorUse& use, const Codes& input) {
    Codes weight = Store(WeightOf(use, 1), node, ops::TraitsOf(node).is_convolution());
    model_.Replace({node}, [&] { MultiplyIntegers(node, input, weight); });
  }

  // Cast(XInteger(x, w)) * (x_scale * w_scale) + bias
  void MultiplyIntegers(const Node& node, const Codes& input, Codes& weight) {
    const ops::OperatorTraits& traits = ops::TraitsOf(node);
    const bool is_conv = traits.is_convolution();
    const std::string& output = node.output(0);
    if (IsTransposed(node)) weight.codes = Transpose(weight.codes, {1, 0});
    const std::string integers = model_.FreshName(output + "_integers");
    const std::string floats = model_.FreshName(output + "_unscaled");
    const std::string scale = model_.FreshName(output + "_dynamic_scale");
    graph::NodeSpec product{Name(output, "integers"),
                            std::string(traits.dynamic),
                            "",
                            {input.codes, weight.codes, input.zero_point, weight.zero_point},
                            {integers},
                            {}};
    if (is_conv) product.attributes_of = node;
    model_.InsertNode(product, node);
    model_.InsertNode({Name(output, "cast"),
                       "Cast",
                       "",
                       {integers},
                       {floats},
                       {{"to", static_cast<int64_t>(DataType::kFloat)}}},
                      node);
    model_.InsertNode({Name(output, "scales"), "Mul", "", {input.scale, weight.scale}, {scale}, {}},
                      node);
    const bool has_bias = node.num_inputs() > 2 && !node.input(2).empty();
    const std::string scaled = has_bias ? model_.FreshName(output + "_scaled") : output;
    model_.InsertNode({Name(output, "scale"), "Mul", "", {floats, scale}, {scaled}, {}}, node);
    if (has_bias) {
      const std::string bias = is_conv ? SpreadBias(node) : node.input(2);
      model_.InsertNode({Name(output, "bias"), "Add", "", {scaled, bias}, {output}, {}}, node);
    }
  }

  void ReplaceLstm(const Node& node, const plan::TensorUse& use) {
    std::vector<std::string> inputs;
    for (size_t i = 0; i < 8; ++i) {
      inputs.push_back(i < node.num_inputs() ? node.input(i) : std::string());
    }
    for (const size_t input : {size_t{1}, size_t{2}}) {
      const Codes weight = Store(WeightOf(use, static_cast<int64_t>(input)), node, false);
      // The operator wants [directions, input, 4 * hidden].
      inputs[input] = Transpose(weight.codes, {0, 2, 1});
      inputs.push_back(weight.scale);
      inputs.push_back(weight.zero_point);
    }
    model_.SetOpsetImport("com.microsoft", 1);
    graph::NodeSpec lstm{
        node.name(), std::string(ops::TraitsOf(node).dynamic), "com.microsoft", inputs, {}, {}};
    lstm.attributes_of = node;
    lstm.dropped_attributes = {"layout"};  // 0, see plan/dynamic_rows.h
    model_.Replace(node, std::move(lstm));
  }

  std::string Name(const std::string& output, std::string_view what) const {
    return model_.FreshNodeName(fmt::format("{}_{}", output, what));
  }

  // Transposes codes. ONNX Runtime folds the node when the model is loaded.
  std::string Transpose(const std::string& codes, const std::vector<int64_t>& perm) {
    const auto [found, is_new] = transposed_.try_emplace(codes);
    if (is_new) {
      found->second = model_.FreshName(codes + "_transposed");
      model_.InsertNode({model_.FreshNodeName(codes + "_transpose"),
                         "Transpose",
                         "",
                         {codes},
                         {found->second},
                         {{"perm", perm}}},
                        model_.Nodes().front());
    }
    return found->second;
  }

  // Reshapes a bias from [C] to [C, 1, 1], so that it can be added to an image.
  std::string SpreadBias(const Node& node) {
    const std::string& bias = node.input(2);
    const graph::HeldInitializer source = model_.HoldInitializer(bias);
    std::vector<int64_t> dims = source.dims;
    dims.resize(model_.Initializer(node.input(1)).dims.size() - 1, 1);
    const auto [found, is_new] = spread_.try_emplace({bias, dims.size()});
    if (is_new) {
      found->second = model_.FreshName(bias + "_spread");
      model_.SetInitializer(found->second, source.type, dims, source.bytes);
    }
    replaced_.insert(bias);
    return found->second;
  }

  Codes Store(const TensorPlan& row, const Node& reader, bool is_conv) {
    const auto found = stored_.find(&row);
    if (found != stored_.end()) return found->second;
    const graph::HeldInitializer source = model_.HoldInitializer(row.value);
    const auto given = weight_scales_.find(plan::ScaleKeyOf(row));
    const auto weight = std::make_shared<const weights::IntegerWeight>(
        source, row, reader.Describe(), std::vector<weights::Int32Bias>(),
        given == weight_scales_.end() ? std::vector<formats::QParams>() : given->second,
        pairs_.at(&row));
    const auto statistics = std::make_shared<weights::WeightStatistics>();
    const DataType type = weight->code_type();
    statistics->value = statistics->quantized = row.value;
    statistics->format = row.format;
    statistics->num_elements = NumElements(source.dims);
    // The scales of channels are multiplied with images, so they get the rank of an image. The
    // operator takes one zero point.
    std::vector<int64_t> scale_dims = weight->scale_dims();
    std::vector<int64_t> zero_point_dims = scale_dims;
    if (is_conv && !scale_dims.empty()) {
      scale_dims.resize(source.dims.size() - 1, 1);
      zero_point_dims.clear();
    } else if (row.integer->granularity == plan::Granularity::kPerBlock &&
               ops::TraitsOf(reader).is_recurrent()) {
      // A recurrent weight has one block for each row: [directions, 4 * hidden, 1]. Stacked
      // matrices have one for each column, [matrices, 1, columns], as MatMulInteger takes them.
      scale_dims.pop_back();
      zero_point_dims = scale_dims;
    }
    const bool has_zero_point = with_zero_point_.contains(&row);
    const int64_t num_zero_points = NumElements(zero_point_dims);
    statistics->stored_bytes = NumBytes(type, statistics->num_elements) +
                               NumBytes(DataType::kFloat, NumElements(scale_dims)) +
                               (has_zero_point ? NumBytes(type, num_zero_points) : 0);
    Codes names{model_.FreshName(row.value + "_codes"), model_.FreshName(row.value + "_scale"), ""};
    std::vector<graph::DeferredTensor> stored = {{names.codes, type, source.dims},
                                                 {names.scale, DataType::kFloat, scale_dims}};
    if (has_zero_point) {
      names.zero_point = model_.FreshName(row.value + "_zero_point");
      stored.push_back({names.zero_point, type, zero_point_dims});
    }
    std::vector<size_t> summed_axes;  // axes whose sums are stored; 0: sums of columns
    for (const size_t axis : {size_t{0}, size_t{1}}) {
      if (!summed_.contains({&row, axis})) continue;
      std::string& name = axis == 0 ? names.column_sums : names.row_sums;
      name = model_.FreshName(row.value + (axis == 0 ? "_column_sums" : "_row_sums"));
      stored.push_back({name, DataType::kFloat, {source.dims[1 - axis]}});
      summed_axes.push_back(axis);
    }
    model_.DeferInitializers(stored, [weight, statistics, scale_dims, zero_point_dims, type,
                                      has_zero_point, num_zero_points, summed_axes, &pool = pool_] {
      weights::IntegerWeight::Result result = weight->Quantize(pool, *statistics);
      std::vector<Tensor> sums;
      for (const size_t axis : summed_axes) {
        sums.push_back(SumsAlong(axis, *weight, result, pool));
      }
      result.scales.dims = scale_dims;
      result.zero_points.dims = zero_point_dims;
      result.zero_points.bytes.resize(NumBytes(type, num_zero_points));
      std::vector<Tensor> tensors;
      tensors.push_back(std::move(result.codes));
      tensors.push_back(std::move(result.scales));
      if (has_zero_point) tensors.push_back(std::move(result.zero_points));
      std::ranges::move(sums, std::back_inserter(tensors));
      return tensors;
    });
    replaced_.insert(row.value);
    statistics_.push_back(statistics);
    stored_[&row] = names;
    return names;
  }

  graph::Model& model_;
  const plan::QuantPlan& plan_;
  const plan::WeightScaleTable& weight_scales_;
  plan::NodeIndex index_;
  ThreadPool& pool_;
  std::map<std::pair<std::string, int64_t>, const TensorPlan*> weights_;  // by node and input
  std::map<const TensorPlan*, std::vector<weights::PairRule>> pairs_;
  std::map<const TensorPlan*, Codes> stored_;
  std::set<std::pair<const TensorPlan*, size_t>> summed_;  // weights and the axes to sum along
  std::set<const TensorPlan*> with_zero_point_;            // weights whose zero point is read
  ProductsOfRows rows_;
  std::map<std::string, std::string> transposed_;
  std::map<std::pair<std::string, size_t>, std::string> spread_;
  std::set<std::string> replaced_;
  std::vector<std::shared_ptr<const weights::WeightStatistics>> statistics_;
};

}  // namespace

std::optional<SplitPlan> SplitDynamic(const plan::ResolvedPlan& resolved) {
  const plan::QuantPlan& plan = resolved.plan;
  if (std::ranges::none_of(plan.tensors, &TensorPlan::is_dynamic)) return std::nullopt;
  std::set<std::string> nodes;
  for (const TensorPlan& row : plan.tensors) {
    if (!row.is_dynamic()) continue;
    for (const plan::TensorUse& use : row.uses) nodes.insert(use.node);
  }
  SplitPlan split{resolved, resolved};
  std::vector<TensorPlan>& dynamic_rows = split.dynamic.plan.tensors;
  std::vector<TensorPlan>& other_rows = split.rest.plan.tensors;
  dynamic_rows.clear();
  other_rows.clear();
  for (const TensorPlan& row : plan.tensors) {
    // Only dynamic activations move; other activations of such a node are quantized as always.
    const bool may_split = row.role != plan::Role::kActivation && !nodes.empty();
    TensorPlan dynamic = row;
    TensorPlan rest = row;
    if (may_split) {
      std::erase_if(dynamic.uses, [&](const auto& use) { return !nodes.contains(use.node); });
      std::erase_if(rest.uses, [&](const auto& use) { return nodes.contains(use.node); });
    }
    const bool is_dynamic = may_split ? !dynamic.uses.empty() : row.is_dynamic();
    if (is_dynamic) dynamic_rows.push_back(std::move(dynamic));
    if (!is_dynamic || (may_split && !rest.uses.empty())) other_rows.push_back(std::move(rest));
  }
  return split;
}

std::vector<std::shared_ptr<const weights::WeightStatistics>> QuantizeDynamically(
    graph::Model& model, const plan::ResolvedPlan& dynamic, ThreadPool& pool) {
  plan::CheckFits(dynamic.plan, model);
  return DynamicQuantizer(model, dynamic, pool).Run();
}

}  // namespace bitpress::emit
