#include "weights/stored_constants.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "ops/quantizer_nodes.h"
#include "weights/native_form.h"
#include "weights/packed_nodes.h"
#include "weights/unpack_functions.h"

namespace bitpress::weights {
namespace {

// Returns the reasons in our metadata why constants are stored as floats. Others may have changed
// the metadata since.
std::map<std::string, std::string> Reasons(const std::map<std::string, std::string>& metadata) {
  std::map<std::string, std::string> reasons;
  const auto found = metadata.find(ops::kUnpackedMetadata);
  if (found == metadata.end()) return reasons;
  const nlohmann::json json = nlohmann::json::parse(found->second, nullptr, false);
  if (!json.is_object()) return reasons;
  for (const auto& [name, reason] : json.items()) {
    if (reason.is_string()) reasons[name] = reason.get<std::string>();
  }
  return reasons;
}

// The format in a reason as plan::kUnpackedMetadata has it, "mx6 as floats: ..."; "" in others.
std::string HeldFormat(const std::string& reason) {
  const size_t end = reason.find(" as floats: ");
  return end == std::string::npos ? "" : reason.substr(0, end);
}

}  // namespace

std::vector<StoredConstant> StoredConstants(const graph::Model& model) {
  const std::map<std::string, std::string> reasons = Reasons(model.Metadata());
  std::vector<StoredConstant> constants;
  std::set<std::string> parts;
  const auto add_part = [&](StoredConstant& constant, const std::string& part) {
    if (!model.IsInitializer(part) || !parts.insert(part).second) return;
    constant.num_bytes += model.Initializer(part).bytes.size();
  };
  const auto add_parts = [&](StoredConstant& constant, const graph::Node& node, size_t begin,
                             size_t end) {
    for (size_t i = begin; i < std::min(end, node.num_inputs()); ++i) {
      add_part(constant, node.input(i));
    }
  };
  for (const graph::Node& node : model.AllNodes()) {
    if (const auto weight = PackedWeightOf(model, node)) {
      const PackedReader reader = *PackedReaderOf(node);
      const bool is_unpack = reader.kind == PackedReader::Kind::kUnpack;
      // Several nodes may read a weight.
      if (parts.contains(node.input(reader.first_part))) continue;
      constants.push_back({is_unpack ? node.output(0) : WeightName(node), weight->spec.name,
                           weight->shape, 0, "", ""});
      add_parts(constants.back(), node, reader.first_part, reader.parts_end);
    } else if (const auto form = NativeFormOf(model, node)) {
      const NativeParts found = NativePartsOf(model, node);
      if (parts.contains(found.codes)) continue;  // another node reads it, too
      constants.push_back(
          {found.codes, form->format(), {form->num_rows, form->row_length}, 0, "", ""});
      if (form->is_matmul) std::ranges::reverse(constants.back().dims);
      for (const std::string& part : found.names()) add_part(constants.back(), part);
    }
    for (const ExpertsForm& found : ExpertsFormsOf(model, node)) {
      const NativeForm& form = found.form;
      if (parts.contains(node.input(found.inputs.weight))) continue;
      const int64_t num_rows = form.num_rows / form.num_stacked;
      constants.push_back({node.input(found.inputs.weight),
                           form.format(),
                           {form.num_stacked, num_rows, form.row_length},
                           0,
                           "",
                           ""});
      add_parts(constants.back(), node, found.inputs.weight, found.inputs.scales + 1);
      if (form.has_zero_points) {
        add_parts(constants.back(), node, found.inputs.zero_points, found.inputs.zero_points + 1);
      }
    }
  }
  for (const std::string& name : model.InitializerNames()) {
    if (parts.contains(name)) continue;
    const graph::InitializerView view = model.Initializer(name);
    StoredConstant constant{name,
                            std::string(DataTypeName(view.type)),
                            {view.dims.begin(), view.dims.end()},
                            view.bytes.size(),
                            "",
                            ""};
    if (const auto reason = reasons.find(name); reason != reasons.end()) {
      constant.reason = reason->second;
      constant.held_format = HeldFormat(constant.reason);
    }
    constants.push_back(std::move(constant));
  }
  return constants;
}

}  // namespace bitpress::weights
