// The plan: for every tensor of a model its format, axis, scale choice and readers, or the reason
// why it stays float. MakePlan makes it, people may edit its JSON, and everything after planning
// reads it; nothing decides formats again. Plain data; all functions are pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/format_spec.h"
#include "graph/model.h"
#include "plan/cache_plan.h"
#include "plan/integer_treatment.h"
#include "plan/quant_config.h"

namespace bitpress::plan {

// A place where a tensor is read.
struct TensorUse {
  std::string node;  // the key of the node, see NodeIndex::KeyOf
  std::string op_type;
  int64_t input = 0;  // index of the node's input
  // The node's role and layer in a transformer (ops/layer_roles.h), for people; "" and nothing if
  // it has none. No step reads them, and uses that differ in them are equal.
  std::string role = {};
  std::optional<int64_t> layer = {};

  bool operator==(const TensorUse& other) const {
    return node == other.node && op_type == other.op_type && input == other.input;
  }
};

// The scale of a tensor that is divided by it before it is rounded, and
// multiplied by it after that (FormatSpec::scaled_maximum). It prevents overflow, and uses all
// values that the format has.
struct ScaledTreatment {
  RangeMethod range;           // the choice of an activation's largest magnitude
  std::optional<float> scale;  // the scale if the plan gives it; statistics do not count then
  bool operator==(const ScaledTreatment&) const = default;
};

// A row of the plan: a tensor in one treatment. A tensor that is read in different ways has one row
// for each of them.
struct TensorPlan {
  std::string value;
  Role role = Role::kActivation;
  std::string format = "none";
  // The axis along which blocks run, or scales differ. It is counted from the end (negative) if the
  // rank is not known. Only blocked formats and integers that are not per tensor have it.
  std::optional<int64_t> axis;
  // The axis and all dimensions after it are read as one row. Only weights have it.
  bool flatten = false;
  // The choice of shared exponents. Only blocked formats have it.
  std::optional<formats::ScaleChoice> scale_choice;
  formats::RoundingMode rounding = formats::RoundingMode::kHalfToEven;
  // The scales of integers. Exactly the integer formats have it. Their axis is that of
  // `granularity`.
  std::optional<IntegerTreatment> integer;
  // The scale of a tensor. Only formats with a scaled_maximum may have it.
  std::optional<ScaledTreatment> scaled;
  // The format that an activation is rounded to before it is rounded to `format`, because its
  // producer has another precision than its readers. "": none.
  std::string through;
  // The axis that blocks of `through` run along, the choice of their exponents and the rounding.
  // Nothing: the axis of the row, and the default of the format.
  std::optional<int64_t> through_axis;
  std::optional<formats::ScaleChoice> through_scale_choice;
  formats::RoundingMode through_rounding = formats::RoundingMode::kHalfToEven;
  // The scale of `through`. Exactly the rows that go through an integer format have it.
  std::optional<IntegerTreatment> through_integer;
  std::vector<TensorUse> uses;
  // The quantized value is a graph output: its quantizer is the last node and keeps the name.
  bool is_graph_output = false;
  // The reason why it stays float; empty exactly if format is not "none".
  std::string reason;

  bool is_quantized() const { return format != "none"; }
  // Returns whether the scale is computed at every inference.
  bool is_dynamic() const {
    return role == Role::kActivation && integer && !integer->params && integer->range.is_dynamic();
  }
  // Returns whether it is an int32 bias that ONNX Runtime adds to the products of integers. Such a
  // bias has their scale, input scale times weight scale. Biases of other integer formats have
  // scales of their own.
  bool has_scale_of_products() const { return role == Role::kBias && integer && format == "int32"; }
  // Returns the format with this row's scale choice and rounding. REQUIRES: is_quantized().
  formats::FormatSpec Spec() const;
  // Returns the row of the quantizer to `through`. REQUIRES: `through` is there.
  TensorPlan ThroughRow() const;
  // Returns the codes that an integer row may use, and the kind of its scales. REQUIRES: `integer`
  // is there.
  formats::IntegerSpec IntegerSpec() const;
  bool operator==(const TensorPlan&) const = default;
};

// The decision for a whole model.
struct QuantPlan {
  static constexpr int64_t kVersion = 1;  // version of the file format (docs/versions.md)

  std::string model_name;  // for people; no model is refused because of it
  int64_t opset = 0;       // version of the standard operators
  // The request, for the record. Later steps read only its `finetune` settings.
  QuantConfig config;
  OperatorSet operators = OperatorSet::kBitpress;
  Rewrites rewrites;                // of the model that the rows are about
  std::vector<TensorPlan> tensors;  // in graph order
  std::vector<CachePlan> caches;    // of decoders, in graph order

  bool operator==(const QuantPlan&) const = default;
};

// Returns JSON with one tensor a line, ending in a newline. The same plan gives the same bytes.
std::string ToJson(const QuantPlan& plan);

// Reads the JSON of ToJson, of this or an older version, or of a person. Throws
// Error(kInvalidArgument) on newer versions, broken JSON, unknown or repeated keys (with the
// nearest), wrong types, unknown formats and values out of their range, naming the row.
QuantPlan FromJson(std::string_view json);

// The names that plans have for nodes: a node's key is its name if no other node has it, otherwise
// its first output.
class NodeIndex {
 public:
  explicit NodeIndex(const graph::Model& model);
  std::string KeyOf(const graph::Node& node) const;
  // Returns the node that a use means: the one of that key and operator type. Throws
  // Error(kInvalidArgument) with the nearest key.
  graph::Node Find(const TensorUse& use) const;
  // Returns the node of a key, if there is one such node only.
  std::optional<graph::Node> Only(std::string_view key) const;

 private:
  std::map<std::string, int, std::less<>> name_counts_;
  std::multimap<std::string, graph::Node, std::less<>> nodes_;
};

// Throws Error(kInvalidArgument) naming the first row that does not fit the model: a value or node
// that is not there, a node that does not read the value, an axis out of range, a weight that is
// not a float constant, an operator that the operator set does not have. A use that already reads
// the quantized value fits.
void CheckFits(const QuantPlan& plan, const graph::Model& model);

// Returns a row's description for messages: "plan, tensors[3] (weight 'conv1.weight')".
std::string DescribeRow(const QuantPlan& plan, size_t row);

}  // namespace bitpress::plan
