// The task `inspect`: lists the contents of a model file.
#include "tasks/inspect.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/fields_json.h"
#include "base/paths.h"
#include "graph/stored_bytes.h"
#include "ops/quantizer_nodes.h"
#include "weights/packed_nodes.h"

namespace bitpress::tasks {
namespace {

std::vector<NamedValue> Describe(const graph::Model& model, std::vector<std::string> names) {
  std::vector<NamedValue> values;
  for (std::string& name : names) {
    graph::ValueInfo info = model.InfoOf(name);
    values.push_back({std::move(name), std::move(info)});
  }
  return values;
}

// Returns the roles of the nodes that read constants, also through nodes of constants such as
// Transpose and DequantizeLinear.
std::map<std::string, std::vector<ops::LayerPlace>> PlacesOf(const graph::Model& model) {
  std::map<std::string, std::vector<ops::LayerPlace>> places;
  const ops::LayerRoles roles(model);
  const auto add = [&](const std::string& constant, const ops::LayerPlace& place) {
    std::vector<ops::LayerPlace>& known = places[constant];
    if (std::ranges::find(known, place) == known.end()) known.push_back(place);
  };
  for (const graph::Node& node : model.AllNodes()) {
    const std::optional<ops::LayerPlace> place = roles.Of(node);
    if (!place) continue;
    if (weights::PackedReaderOf(node)) add(weights::WeightName(node), *place);
    std::vector<graph::Node> to_visit{node};
    while (!to_visit.empty()) {
      const graph::Node reader = to_visit.back();
      to_visit.pop_back();
      for (size_t i = 0; i < reader.num_inputs(); ++i) {
        const std::string& value = reader.input(i);
        const std::optional<graph::Node> producer = model.Producer(value);
        const bool is_weight = producer ? roles.IsConstant(value) : model.IsInitializer(value);
        if (!is_weight) continue;
        add(value, *place);
        // Constants in codes have the name of the weight.
        constexpr std::string_view kSuffix = "_codes";
        if (value.ends_with(kSuffix)) add(value.substr(0, value.size() - kSuffix.size()), *place);
        if (producer) to_visit.push_back(*producer);
      }
    }
  }
  return places;
}

}  // namespace

InspectReport Inspect(const std::filesystem::path& path) {
  const graph::Model model = graph::Model::Load(path);
  InspectReport report;
  report.file_bytes = graph::StoredBytes(path);
  report.ir_version = model.ir_version();
  report.opset_imports = model.OpsetImports();
  report.metadata = model.Metadata();
  report.inputs = Describe(model, model.InputNames());
  report.outputs = Describe(model, model.OutputNames());
  for (const graph::Node& node : model.AllNodes()) {
    const std::string& domain = node.domain();
    const std::string name = domain.empty() ? node.op_type() : domain + "::" + node.op_type();
    ++report.operators[name];
    if (ops::IsQuantizer(node)) ++report.quantizers[name];
  }
  report.places = PlacesOf(model);
  report.saturating_nodes = processors::FindSaturatingNodes(model);
  for (const auto& [domain, name] : model.Functions()) {
    report.functions.push_back(domain + "." + name);
  }
  WithContext(fmt::format("model '{}'", PathText(path)),
              [&] { report.constants = weights::StoredConstants(model); });
  return report;
}

nlohmann::ordered_json ToJson(const InspectReport& report) {
  using Json = nlohmann::ordered_json;
  const auto values = [](const std::vector<NamedValue>& of) {
    Json list = Json::array();
    for (const NamedValue& value : of) {
      Json dims;  // null: the shape is not known
      if (value.info.has_shape) {
        dims = Json::array();
        for (const graph::Dimension& dim : value.info.shape) {
          dims.push_back(dim.value >= 0       ? Json(dim.value)
                         : dim.symbol.empty() ? Json()
                                              : Json(dim.symbol));
        }
      }
      list.push_back({{"name", value.name},
                      {"element_type", DataTypeName(value.info.type)},
                      {"shape", std::move(dims)}});
    }
    return list;
  };
  Json json = {{"bitpress_inspection", 1},
               {"inputs", values(report.inputs)},
               {"outputs", values(report.outputs)}};
  json.update(FieldsToJson(report));
  for (Json& constant : json["constants"]) {
    Json& places = constant["places"] = Json::array();
    const auto found = report.places.find(constant["name"].get<std::string>());
    if (found == report.places.end()) continue;
    for (const ops::LayerPlace& place : found->second) {
      places.push_back({{"role", ops::LayerRoleName(place.role)},
                        {"layer", place.layer ? Json(*place.layer) : Json()}});
    }
  }
  return json;
}

}  // namespace bitpress::tasks
