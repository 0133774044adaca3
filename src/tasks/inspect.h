// The task `inspect`: lists the contents of a model file. Use it to see how a model was quantized,
// by whatever tool. The model is read as it is.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <tuple>
#include <vector>

#include "base/fields.h"
#include "graph/model.h"
#include "ops/layer_roles.h"
#include "processors/integer_products.h"
#include "weights/stored_constants.h"

namespace bitpress::tasks {

struct NamedValue {
  std::string name;
  graph::ValueInfo info;
};

struct InspectReport {
  uint64_t file_bytes = 0;  // external data included
  int64_t ir_version = 0;
  std::map<std::string, int64_t> opset_imports;
  std::map<std::string, std::string> metadata;
  std::vector<NamedValue> inputs;
  std::vector<NamedValue> outputs;
  std::map<std::string, size_t> operators;         // "Conv" or "domain::Op" -> number of nodes
  std::map<std::string, size_t> quantizers;        // the operators that quantize a value
  std::vector<weights::StoredConstant> constants;  // in the file's order
  // The roles in a transformer of the nodes that read a constant, by its name.
  std::map<std::string, std::vector<ops::LayerPlace>> places;
  std::vector<std::string> functions;  // "bitpress.Unpack_mx6"
  // The nodes whose sums saturate for some activations on x86 without VNNI.
  std::vector<processors::SaturatingNode> saturating_nodes;
};
constexpr auto FieldsOf(const InspectReport*) {
  using Report = InspectReport;
  return std::tuple(Field{"file_bytes", &Report::file_bytes, "External data included."},
                    Field{"ir_version", &Report::ir_version},
                    Field{"opset_imports", &Report::opset_imports},
                    Field{"operators", &Report::operators,
                          "Number of operators by type, 'Conv' or 'domain::Op'."},
                    Field{"quantizers", &Report::quantizers, "Of those that quantize a value."},
                    Field{"functions", &Report::functions}, Field{"constants", &Report::constants},
                    Field{"saturating_nodes", &Report::saturating_nodes,
                          "Nodes whose sums saturate for some activations on x86 without VNNI."},
                    Field{"metadata", &Report::metadata});
}

// Returns the contents of a model file. Throws Error naming the file.
InspectReport Inspect(const std::filesystem::path& model);

// Returns the report as `inspect --json` writes it.
nlohmann::ordered_json ToJson(const InspectReport& report);

}  // namespace bitpress::tasks
