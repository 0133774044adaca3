#include "weights/lookup_nodes.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.h"
#include "formats/pack.h"
#include "graph/own_domain.h"
#include "weights/unpack_body.h"
#include "weights/unpack_integers.h"

namespace bitpress::weights {
namespace {

using graph::Attribute;
using graph::Model;
using graph::Node;

constexpr const char* kRowPrefix = "row_";

// Returns the storage of a table of one row that lies as the rows of `weight`; nothing if these
// share bytes or scales.
std::optional<PackedStorage> StorageOfRow(const Model& model, const PackedWeight& weight) {
  if (weight.shape.size() != 2) return std::nullopt;
  const int64_t num_rows = weight.shape[0], num_columns = weight.shape[1];
  const std::vector<int64_t> shape{1, num_columns};
  const BlockView& view = weight.view;
  const bool is_within_rows = view.outer == num_rows && view.axis == num_columns && view.inner == 1;
  PackedStorage storage;
  if (weight.integer) {
    const bool is_scale_per_row = view.outer == 1 && view.axis == num_rows &&
                                  view.inner == num_columns && weight.integer->block_size == 1;
    if (!is_scale_per_row && !(is_within_rows && weight.integer->is_per_column)) {
      return std::nullopt;
    }
    IntegerLayout layout{.view = {1, num_columns, 1},
                         .block_size = is_scale_per_row ? num_columns : weight.integer->block_size,
                         .is_per_column = true,
                         .zero_point = weight.integer->zero_point};
    if (weight.integer->has_zero_points) layout.zero_point = std::nullopt;
    // Zero points of less than 8 bits share bytes, and a row must not begin within one.
    const int64_t bits = weight.spec.element_bits;
    if (!layout.zero_point && layout.num_blocks() * bits % 8 != 0) return std::nullopt;
    storage = StoragePackedInteger(weight.spec, shape, layout);
  } else {
    if (!weight.spec.is_blocked() || !is_within_rows) return std::nullopt;
    storage = StoragePacked(weight.spec, shape, {1, num_columns, 1}, model.OpsetImports().at(""));
  }
  // ONNX has no Gather of FP8 codes.
  const DataType codes = storage.parts.front().type;
  const bool is_float8 = codes == DataType::kFloat8E4M3FN || codes == DataType::kFloat8E5M2;
  if (is_float8 || storage.function.name.ends_with(kPaddedSuffix)) return std::nullopt;
  return storage;
}

// Replaces the first dimension of a shape, which counts rows, by -1: as many as there are.
Attribute OfAnyRows(Attribute attribute) {
  if (auto* const dims = std::get_if<std::vector<int64_t>>(&attribute)) dims->front() = -1;
  return attribute;
}

// Lets the nodes of a body read the attributes with the prefix.
void RenameReferences(std::vector<graph::NodeSpec>& nodes) {
  for (graph::NodeSpec& node : nodes) {
    for (auto& [name, attribute] : node.attributes) {
      if (auto* const reference = std::get_if<graph::AttributeReference>(&attribute)) {
        reference->name = kRowPrefix + reference->name;
      }
    }
  }
}

// Returns whether the rows of a part are not its first dimension: several codes lie in a byte.
bool IsPlane(const PackedStorage::Initializer& part) {
  return part.dims.size() < 2 || part.dims[0] != 1;
}

// Returns the bytes of a group of integers some of which lie in several bytes; 0: none does.
int64_t GroupBytes(const PackedWeight& weight) {
  const int bits = weight.spec.element_bits;
  if (!weight.integer || bits >= 8 || 8 % bits == 0) return 0;
  return static_cast<int64_t>(formats::PackGroupOf(bits).num_bytes);
}

// Returns the function of a lookup whose `attributes` follow from the table and its rows.
graph::FunctionSpec FunctionOf(const PackedStorage& row, const std::string& name,
                               const std::vector<std::pair<std::string, Attribute>>& attributes,
                               int64_t group_bytes, int64_t opset) {
  graph::FunctionSpec function;
  function.domain = graph::kOwnDomain;
  function.name = name;
  function.doc = "Rows of a table, of which only these are decoded. " + row.function.doc +
                 " Attributes that begin with `row_` are about the rows that are looked up.";
  for (const auto& [key, value] : attributes) function.attributes.push_back(key);
  function.outputs = {"rows"};
  UnpackBody body(function);
  const std::string flat =
      body.Add("Reshape", {"indices", body.Int64s("one_row", {-1})}, "flat_indices");
  const std::string rows = body.IntsAttribute("plane_shape");
  for (const PackedStorage::Initializer& part : row.parts) {
    std::string table = "table_" + part.suffix;
    function.inputs.push_back(table);
    if (part.suffix == "scales") {
      table = body.Add("Reshape", {table, body.IntsAttribute("scale_shape")}, "rows_of_scales");
    } else if (IsPlane(part) || part.suffix == "zero_points") {
      table = body.Add("Reshape", {table, rows}, "rows_of_" + part.suffix);
    }
    // Codes of integers that share bytes in groups, [groups, bytes], lie so in the rows, too.
    const bool has_groups = group_bytes > 0 && part.suffix != "scales";
    const std::string found = has_groups ? part.suffix + "_of_rows" : part.suffix;
    body.Add("Gather", {table, flat}, found);
    if (has_groups) {
      body.Add("Reshape", {found, body.Int64s(part.suffix + "_groups", {-1, group_bytes})},
               part.suffix);
    }
  }
  function.inputs.emplace_back("indices");
  std::vector<graph::NodeSpec> decoder = row.function.nodes;
  RenameReferences(decoder);
  function.nodes.insert(function.nodes.end(), decoder.begin(), decoder.end());
  const std::string shape = body.Add(
      "Concat",
      {body.Add("Shape", {"indices"}, "shape_of_indices"), body.IntsAttribute("row_length")},
      "shape_of_rows", {{"axis", int64_t{0}}});
  // A dimension of 0 is none that is copied: there may be no indices.
  UnpackBody::Attributes allow_zero;
  if (opset >= graph::kFirstOpsetWithAllowZero) allow_zero.emplace_back("allowzero", int64_t{1});
  body.Add("Reshape", {"weight", shape}, "rows", allow_zero);
  return function;
}

}  // namespace

std::string WhyNoLookup(const Model& model, const PackedWeight& weight) {
  return StorageOfRow(model, weight) ? "" : "its rows share bytes or scales, or have FP8 codes";
}

void ReplaceByLookup(Model& model, const std::vector<std::string>& parts,
                     const PackedWeight& weight, Node gather) {
  const PackedStorage row = *StorageOfRow(model, weight);
  const PackedStorage whole = StorageOf(model, weight);
  std::vector<std::pair<std::string, Attribute>> attributes = whole.attributes;
  for (const auto& [key, value] : row.attributes) {
    attributes.emplace_back(kRowPrefix + key, OfAnyRows(value));
  }
  const int64_t num_rows = weight.shape[0];
  const auto scales = std::ranges::find(row.parts, "scales", &PackedStorage::Initializer::suffix);
  attributes.emplace_back("row_length", std::vector<int64_t>{weight.shape[1]});
  attributes.emplace_back("plane_shape", std::vector<int64_t>{num_rows, -1});
  attributes.emplace_back("scale_shape",
                          std::vector<int64_t>{num_rows, NumElements(scales->dims), 1});
  const std::string op_type = kLookupPrefix + DecoderOf(whole);
  if (!model.HasFunction(graph::kOwnDomain, op_type)) {
    model.SetFunction(
        FunctionOf(row, op_type, attributes, GroupBytes(weight), model.OpsetImports().at("")));
  }
  graph::NodeSpec spec{gather.name(), op_type, graph::kOwnDomain, parts, {}, attributes};
  spec.inputs.push_back(gather.input(1));
  model.SetOpsetImport(graph::kOwnDomain, 1);
  model.Replace(gather, std::move(spec));
}

void ExpandLookup(Model& model, const Node& node, WeightValues& weights) {
  const PackedWeight weight = *PackedWeightOf(model, node);
  const PackedStorage storage = StorageOf(model, weight);
  if (kLookupPrefix + DecoderOf(storage) != node.op_type() || !StorageOfRow(model, weight)) {
    Fail(ErrorCode::kInvalidModel, "{}: it is no lookup as bitpress writes them", node.Describe());
  }
  const std::string table = weights.ValueOf(node, storage);
  const std::string& indices = node.input(node.num_inputs() - 1);
  model.Replace(node, {node.name(), "Gather", "", {table, indices}, {}, {{"axis", int64_t{0}}}});
}

}  // namespace bitpress::weights
