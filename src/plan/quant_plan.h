// The resolved decision for every tensor: format, axis, scale choice and where it is read, or the
// reason why it stays float. Plain data, JSON both ways, editable by hand; nothing after planning
// decides formats again. All functions are pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/format_spec.h"
#include "graph/model.h"
#include "plan/integer_treatment.h"
#include "plan/quant_config.h"

namespace bitpress::plan {

// One place where a tensor is read.
struct TensorUse {
  std::string node;  // see NodeIndex::KeyOf
  std::string op_type;
  int64_t input = 0;  // which input of the node
  bool operator==(const TensorUse&) const = default;
};

// A tensor in bf16, fp16 or fp8 that is divided by a scale before it is rounded, and multiplied by
// it after that: against overflow, and to use the values that the format has.
struct ScaledTreatment {
  RangeMethod range;           // of activations: which magnitude is the largest
  std::optional<float> scale;  // given in the plan: no statistics are asked
  bool operator==(const ScaledTreatment&) const = default;
};

// The magnitude that the largest value of a scaled tensor gets: 2 in bf16, whose exponents reach
// far enough anyway (AMD Quark's choice), else the largest of the format. REQUIRES: fp8, fp16 or
// bf16.
double ScaledMaximum(const formats::FormatSpec& spec);

// One row: a tensor in one treatment. A tensor read in different ways has one row for each.
struct TensorPlan {
  std::string value;
  Role role = Role::kActivation;
  std::string format = "none";
  // Blocks run along it, or scales differ along it: >= 0, or counted from the end where the rank is
  // not known. Only blocked formats and integers that are not per tensor have it.
  std::optional<int64_t> axis;
  // The axis and all dimensions after it are read as one row. Weights only.
  bool flatten = false;
  // Only blocked formats have it.
  std::optional<formats::ScaleChoice> scale_choice;
  formats::RoundingMode rounding = formats::RoundingMode::kHalfToEven;
  // Exactly the integer formats have it; their axis is that of `granularity`.
  std::optional<IntegerTreatment> integer;
  // Only formats of single floats may have it.
  std::optional<ScaledTreatment> scaled;
  // A format that the value is rounded to before it is rounded to `format`: activations whose
  // producer has another precision than their readers. No integer format; "": none.
  std::string through;
  std::vector<TensorUse> uses;
  // The quantized value is a graph output: its quantizer sits last and keeps the name.
  bool is_graph_output = false;
  // Why it stays float; empty exactly where format is not "none".
  std::string reason;

  bool is_quantized() const { return format != "none"; }
  // Its scale is computed at every inference.
  bool is_dynamic() const {
    return role == Role::kActivation && integer && !integer->params && integer->range.is_dynamic();
  }
  // An int32 that ONNX Runtime adds to the products of integers: it has their scale, input times
  // weight. Biases of other integer formats have one of their own.
  bool has_scale_of_products() const { return role == Role::kBias && integer && format == "int32"; }
  // The format with this row's scale choice and rounding. REQUIRES: is_quantized().
  formats::FormatSpec Spec() const;
  // The row of the quantizer before it. REQUIRES: `through` is there.
  TensorPlan ThroughRow() const;
  // REQUIRES: `integer` is there.
  formats::IntegerSpec IntegerSpec() const;
  bool operator==(const TensorPlan&) const = default;
};

struct QuantPlan {
  static constexpr int64_t kVersion = 1;  // of the file format

  std::string model_name;  // for people; not compared
  int64_t opset = 0;       // of the standard operators
  // What was asked: a record, of which only `finetune` is read by what follows.
  QuantConfig config;
  OperatorSet operators = OperatorSet::kBitpress;
  // The rows are about the model after it was equalized so; nothing: as it is.
  std::optional<EqualizeOptions> equalization;
  std::vector<TensorPlan> tensors;  // in graph order

  bool operator==(const QuantPlan&) const = default;
};

// JSON, one tensor a line, ending in a newline. The same plan gives the same bytes.
std::string ToJson(const QuantPlan& plan);

// Reads what ToJson wrote or a person edited. Throws Error(kInvalidArgument) on broken JSON,
// unknown or repeated keys (with the nearest), wrong types, unknown formats and values out of their
// range, naming the row.
QuantPlan FromJson(std::string_view json);

// How plans name a node: its name if no other node has it, otherwise its first output.
class NodeIndex {
 public:
  explicit NodeIndex(const graph::Model& model);
  std::string KeyOf(const graph::Node& node) const;
  // The node a use means: the one of that key and operator type. Throws Error(kInvalidArgument)
  // with the nearest key.
  graph::Node Find(const TensorUse& use) const;

 private:
  std::map<std::string, int, std::less<>> name_counts_;
  std::multimap<std::string, graph::Node, std::less<>> nodes_;
};

// Throws Error(kInvalidArgument) naming the first row that does not fit the model: a value or node
// that is not there, a node that does not read the value, an axis out of range, a weight that is
// not a float constant, an operator that the operator set does not have. Uses that already read the
// quantized value count as fitting.
void CheckFits(const QuantPlan& plan, const graph::Model& model);

// For messages: "tensors[3] (weight 'conv1.weight')".
std::string DescribeRow(const QuantPlan& plan, size_t row);

}  // namespace bitpress::plan
