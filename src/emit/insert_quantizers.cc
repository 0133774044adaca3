#include "emit/insert_quantizers.h"

#include <algorithm>
#include <array>
#include <bit>
#include <deque>
#include <map>

#include "base/error.h"
#include "ops/quantizer_nodes.h"
#include "plan/quantizer_spelling.h"
#include "weights/unpack_functions.h"

namespace bitpress::emit {
namespace {

using graph::Model;
using graph::Node;
using plan::QuantPlan;
using plan::TensorPlan;

using WeightScales = std::map<const TensorPlan*, std::optional<float>>;

class Inserter {
 public:
  Inserter(Model& model, const plan::ResolvedPlan& resolved, const WeightScales& weights)
      : model_(model), plan_(resolved.plan), scales_(resolved.scales), index_(model) {
    const QuantPlan& plan = resolved.plan;
    // Nodes are looked up before any is inserted or changes its name.
    for (size_t i = 0; i < plan.tensors.size(); ++i) {
      const auto weight = weights.find(&plan.tensors[i]);
      const TensorPlan& row = weight == weights.end()
                                  ? plan.tensors[i]
                                  : weights_.emplace_back(Scaled(*weight->first, weight->second));
      const bool is_wanted = weight != weights.end() || row.role == plan::Role::kActivation;
      if (!is_wanted || !row.is_quantized()) continue;
      if (row.integer && !scales_.contains(plan::ScaleKeyOf(row))) continue;
      if (row.scaled && !row.scaled->scale) continue;
      Job job{&row, {}};
      for (const plan::TensorUse& use : row.uses) {
        job.uses.push_back({index_.Find(use), static_cast<size_t>(use.input)});
      }
      if (!IsDone(job)) jobs_of_value_[row.value].push_back(std::move(job));
      values_.push_back(row.value);
      places_.try_emplace(row.value, Place{model.NodeBehind(row.value), model.Producer(row.value)});
    }
  }

  bool Run() {
    bool is_modified = false;
    for (const std::string& value : values_) {
      const auto found = jobs_of_value_.find(value);
      if (found == jobs_of_value_.end()) continue;
      InsertAll(value, found->second);
      jobs_of_value_.erase(found);
      is_modified = true;
    }
    return is_modified;
  }

 private:
  static TensorPlan Scaled(TensorPlan row, std::optional<float> scale) {
    if (row.scaled) row.scaled->scale = scale;
    return row;
  }

  struct Job {
    const TensorPlan* row;
    std::vector<graph::Use> uses;
  };
  // The place of a value's quantizers: before the node that followed the producer at first, or last
  // in the graph if there was none.
  struct Place {
    std::optional<Node> before;
    std::optional<Node> beside;
  };

  // Returns whether an earlier run inserted this row's quantizer.
  bool IsDone(const Job& job) const {
    const std::string& value = job.row->value;
    if (job.row->is_graph_output) return ops::QuantizedFrom(model_, value).has_value();
    return std::all_of(job.uses.begin(), job.uses.end(), [&](const graph::Use& use) {
      return use.node.input(use.input_index) != value;
    });
  }

  // Inserts all quantizers of one value.
  void InsertAll(const std::string& value, std::vector<Job>& jobs) {
    std::string source = value;
    // The quantizer at a graph output comes first, because it takes over the value's name.
    const auto last = std::find_if(jobs.begin(), jobs.end(),
                                   [](const Job& job) { return job.row->is_graph_output; });
    if (last != jobs.end()) {
      std::rotate(jobs.begin(), last, last + 1);
      source = RenameOutput(value, jobs.front());
    }
    // By the format that rows go through, and its axis.
    std::map<std::pair<std::string, std::optional<int64_t>>, std::string> rounded;
    for (const Job& job : jobs) {
      const std::string& through = job.row->through;
      const auto [before, is_new] = rounded.try_emplace({through, job.row->through_axis}, source);
      const plan::ScaleKey key{value, through};
      // Nothing was seen that an integer could have a scale from.
      const bool has_scale = !job.row->through_integer || scales_.contains(key);
      if (is_new && !through.empty() && has_scale) {
        before->second = model_.FreshName(value + "_" + formats::FindFormat(through).name);
        Insert(job.row->ThroughRow(), source, before->second);
      }
      const std::string target =
          job.row->is_graph_output ? value : model_.FreshName(value + "_quantized");
      Insert(*job.row, before->second, target);
      for (graph::Use use : job.uses) use.node.set_input(use.input_index, target);
    }
  }

  // Renames the producer's output; all uses but those of `job` read the new name. Returns that
  // name.
  std::string RenameOutput(const std::string& value, const Job& job) {
    std::optional<Node> producer = model_.Producer(value);
    const std::string renamed = model_.FreshName(value + "_float");
    for (graph::Use use : model_.AllUses(value)) {
      const bool is_covered =
          std::any_of(job.uses.begin(), job.uses.end(), [&](const graph::Use& covered) {
            return covered.node == use.node && covered.input_index == use.input_index;
          });
      if (!is_covered) use.node.set_input(use.input_index, renamed);
    }
    for (size_t i = 0; i < producer->num_outputs(); ++i) {
      if (producer->output(i) == value) producer->set_output(i, renamed);
    }
    return renamed;
  }

  Node InsertNode(const TensorPlan& row, const graph::NodeSpec& spec) {
    const Place& place = places_.at(row.value);
    return model_.InsertNode(spec, place.before, place.beside);
  }

  void Insert(const TensorPlan& row, const std::string& source, const std::string& target) {
    if (row.integer) {
      const DataType type = row.Spec().onnx_type;
      plan::QuantizerSpelling pair;
      pair.op_type = "QuantizeLinear";
      pair.dequantize_op_type = "DequantizeLinear";
      pair.zero_point_type = type;
      // QuantizeLinear gives at most 16 bits; AMD Quark's operator goes further.
      if (ElementBits(type) == 32) {
        pair.domain = "com.amd.quark";
        pair.op_type = "ExtendedQuantizeLinear";
        pair.dequantize_op_type = "ExtendedDequantizeLinear";
        model_.SetOpsetImport(pair.domain, 1);
      }
      InsertPair(row, pair, scales_.at(plan::ScaleKeyOf(row)), source, target);
      return;
    }
    if (plan::WritesCasts(plan_.operators, row.Spec()) && !row.scaled) {
      return InsertCasts(row, source, target);
    }
    if (row.scaled && CanScaleInPair(row)) {
      plan::QuantizerSpelling pair;
      pair.op_type = "QuantizeLinear";
      pair.dequantize_op_type = "DequantizeLinear";
      pair.zero_point_type = row.Spec().onnx_type;
      return InsertPair(row, pair, {*row.scaled->scale, 0}, source, target);
    }
    // AMD Quark's pair knows the scale of bf16, and ignores that of fp16.
    const bool is_half = row.Spec().element_type == formats::ElementType::kFloat16;
    if (row.scaled && (!plan::IsQuark(plan_.operators) || is_half ||
                       plan::WritesCasts(plan_.operators, row.Spec()))) {
      return InsertScaled(row, source, target);
    }
    const plan::QuantizerSpelling spelling =
        plan::SpellQuantizer(plan_.operators, row.Spec(), row.axis);
    model_.SetOpsetImport(spelling.domain, 1);
    if (spelling.dequantize_op_type.empty()) {
      InsertNode(row, {model_.FreshNodeName(row.value + "_quantized"),
                       spelling.op_type,
                       spelling.domain,
                       {source},
                       {target},
                       spelling.attributes});
      return;
    }
    const formats::QParams params{row.scaled ? *row.scaled->scale : 1.0F, 0};
    InsertPair(row, spelling, params, source, target);
  }

  // QuantizeLinear takes fp8, but is used only if ONNX's operators were asked for. ONNX Runtime
  // 1.31 does not load such pairs behind a Clip or beside a Transpose, because its optimizer takes
  // them for integers.
  bool CanScaleInPair(const TensorPlan& row) const {
    return plan_.operators == plan::OperatorSet::kCast && row.Spec().element_bits == 8 &&
           model_.OpsetImports()[""] >= weights::kFirstFloat8Opset;
  }

  void InsertCasts(const TensorPlan& row, const std::string& source, const std::string& target) {
    const DataType type =
        model_.InfoOf(row.value).type == DataType::kFloat16 ? DataType::kFloat16 : DataType::kFloat;
    const std::string codes = model_.FreshName(row.value + "_codes");
    const auto cast = [&](const char* suffix, const std::string& from, const std::string& to,
                          DataType wanted) {
      InsertNode(row, {model_.FreshNodeName(row.value + suffix),
                       "Cast",
                       "",
                       {from},
                       {to},
                       {{"to", static_cast<int64_t>(wanted)}}});
    };
    cast("_quantize", source, codes, row.Spec().onnx_type);
    cast("_dequantize", codes, target, type);
  }

  // Div -> quantizer -> Mul
  void InsertScaled(const TensorPlan& row, const std::string& source, const std::string& target) {
    const std::string scale = model_.FreshName(row.value + "_scale");
    SetScalar(scale, *row.scaled->scale);
    const std::string scaled = model_.FreshName(row.value + "_scaled");
    const std::string rounded = model_.FreshName(row.value + "_scaled_quantized");
    InsertNode(row, {model_.FreshNodeName(row.value + "_scale_down"),
                     "Div",
                     "",
                     {source, scale},
                     {scaled},
                     {}});
    TensorPlan inner = row;
    inner.scaled.reset();
    Insert(inner, Limited(row, scaled), rounded);
    InsertNode(
        row,
        {model_.FreshNodeName(row.value + "_scale_up"), "Mul", "", {rounded, scale}, {target}, {}});
  }

  // Limits values before a Cast to fp16. The Cast gives infinity beyond the largest value that was
  // seen, but the format saturates.
  std::string Limited(const TensorPlan& row, const std::string& scaled) {
    const formats::FormatSpec spec = row.Spec();
    const bool overflows = plan_.operators == plan::OperatorSet::kCast &&
                           spec.element_type == formats::ElementType::kFloat16;
    if (!overflows) return scaled;
    const auto most = static_cast<float>(spec.scaled_maximum);
    const std::string min = model_.FreshName(row.value + "_scaled_min");
    const std::string max = model_.FreshName(row.value + "_scaled_max");
    SetScalar(min, -most);
    SetScalar(max, most);
    const std::string limited = model_.FreshName(row.value + "_scaled_limited");
    InsertNode(row, {model_.FreshNodeName(row.value + "_limit"),
                     "Clip",
                     "",
                     {scaled, min, max},
                     {limited},
                     {}});
    return limited;
  }

  void SetScalar(const std::string& name, float value) {
    model_.SetInitializer(name, DataType::kFloat, {},
                          std::bit_cast<std::array<std::byte, sizeof(float)>>(value));
  }

  void InsertPair(const TensorPlan& row, const plan::QuantizerSpelling& spelling,
                  const formats::QParams& params, const std::string& source,
                  const std::string& target) {
    const std::string scale = model_.FreshName(row.value + "_scale");
    SetScalar(scale, params.scale);
    const std::string zero_point = model_.FreshName(row.value + "_zero_point");
    // The low bytes of the number are those of the type (little-endian).
    const auto number = std::bit_cast<std::array<std::byte, sizeof(int64_t)>>(params.zero_point);
    model_.SetInitializer(zero_point, spelling.zero_point_type, {},
                          std::span(number).first(NumBytes(spelling.zero_point_type, 1)));
    const std::string codes = model_.FreshName(row.value + "_codes");
    InsertNode(row, {model_.FreshNodeName(row.value + "_quantize"),
                     spelling.op_type,
                     spelling.domain,
                     {source, scale, zero_point},
                     {codes},
                     spelling.attributes});
    InsertNode(row, {model_.FreshNodeName(row.value + "_dequantize"),
                     spelling.dequantize_op_type,
                     spelling.domain,
                     {codes, scale, zero_point},
                     {target},
                     spelling.attributes});
  }

  Model& model_;
  const QuantPlan& plan_;
  const plan::ScaleTable& scales_;
  std::deque<TensorPlan> weights_;  // their rows, with scales
  plan::NodeIndex index_;
  std::map<std::string, Place> places_;
  std::map<std::string, std::vector<Job>> jobs_of_value_;
  std::vector<std::string> values_;  // in the plan's order
};

}  // namespace

bool InsertQuantizers(Model& model, const plan::ResolvedPlan& resolved,
                      const WeightScales& weights) {
  plan::CheckFits(resolved.plan, model);
  return Inserter(model, resolved, weights).Run();
}

}  // namespace bitpress::emit
