#include "report/overview.h"

#include <algorithm>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "evaluate/other_processor.h"
#include "report/quantizers.h"

namespace bitpress::report {
namespace {

using Json = nlohmann::ordered_json;

// Returns whether the file holds the tensor of a float row as floats.
bool IsFloatInFile(const plan::TensorPlan& row, const KeptFloatSources& sources,
                   const std::map<std::string, ActivationFormat>& activations) {
  if (sources.is_plan_exact) return true;
  if (row.role == plan::Role::kActivation) return !activations.contains(row.value);
  const auto constant =
      std::ranges::find(sources.constants, row.value, &weights::StoredConstant::name);
  return constant != sources.constants.end() && constant->format == "FLOAT";
}

class FloatList {
 public:
  void Add(const std::string& value, plan::Role role, std::string reason) {
    if (!seen_.insert(value).second) return;
    found_.push_back({value, std::string(plan::RoleName(role)), std::move(reason)});
  }
  std::vector<FloatTensor> Take() { return std::move(found_); }

 private:
  std::set<std::string> seen_;
  std::vector<FloatTensor> found_;
};

// Adds the floats that layers read, for a model whose plan is not known.
void AddFloatInputs(const KeptFloatSources& sources, const Report& report, FloatList& list) {
  const std::string reason = "the model does not say why";
  for (size_t i = 0; i < sources.layers.size(); ++i) {
    const LayerReport& layer = report.layers[i];
    if (!layer.input.empty() && layer.input_format == "float") {
      list.Add(layer.input, plan::Role::kActivation, reason);
    }
    for (const WeightReport& weight : layer.weights) {
      const auto tensor = std::ranges::find(report.tensors, weight.tensor, &TensorReport::name);
      if (tensor != report.tensors.end() && tensor->format == "FLOAT") {
        list.Add(weight.tensor, plan::Role::kWeight, reason);
      }
    }
  }
}

}  // namespace

Json ChangedSettings(const plan::QuantConfig& config) {
  const Json defaults = Json::parse(plan::ToJson(plan::QuantConfig()));
  const Json settings = Json::parse(plan::ToJson(config));
  Json changed = Json::object();
  for (const auto& [key, value] : settings.items()) {
    if (!defaults.contains(key) || defaults[key] != value) changed[key] = value;
  }
  return changed;
}

std::vector<FormatSize> SizesOf(const std::vector<weights::StoredConstant>& constants,
                                uint64_t file_bytes) {
  std::map<std::string, FormatSize> of_format;
  uint64_t rest = file_bytes;
  for (const weights::StoredConstant& constant : constants) {
    FormatSize& size = of_format[constant.format];
    size.format = constant.format;
    ++size.num_tensors;
    size.num_elements += static_cast<uint64_t>(constant.num_elements());
    size.num_bytes += constant.num_bytes;
    rest -= std::min(rest, constant.num_bytes);
  }
  std::vector<FormatSize> sizes;
  for (const auto& [format, size] : of_format) sizes.push_back(size);
  sizes.push_back({"graph", 0, 0, rest});
  std::ranges::stable_sort(sizes, std::ranges::greater(), &FormatSize::num_bytes);
  return sizes;
}

void NameStoredFormats(const std::vector<weights::StoredConstant>& constants,
                       std::vector<TensorReport>& tensors) {
  std::map<std::string, std::string> formats;
  for (const weights::StoredConstant& constant : constants) {
    const bool holds_values = !constant.held_format.empty();
    formats[constant.name] = holds_values ? constant.held_format + " as floats" : constant.format;
  }
  for (TensorReport& tensor : tensors) {
    for (const std::string suffix : {"", "_codes", "_quantized"}) {
      const auto found = formats.find(tensor.name + suffix);
      if (found == formats.end()) continue;
      tensor.format = found->second;
      break;
    }
  }
}

std::vector<FloatTensor> ListKeptFloat(const KeptFloatSources& sources, const Report& report) {
  FloatList list;
  if (!sources.plan) {
    AddFloatInputs(sources, report, list);
    return list.Take();
  }
  const std::map<std::string, ActivationFormat> activations = QuantizedActivations(sources.model);
  for (const plan::TensorPlan& row : sources.plan->tensors) {
    if (!row.is_quantized() && IsFloatInFile(row, sources, activations)) {
      list.Add(row.value, row.role, row.reason);
    }
  }
  for (const auto& [value, reason] : sources.left_float) {
    list.Add(value, plan::Role::kActivation, reason);
  }
  return list.Take();
}

std::vector<std::string> NotesOf(const Report& report, const std::vector<MatchedLayer>& layers,
                                 bool is_equalized) {
  std::vector<std::string> notes;
  if (report.config.empty()) {
    notes.push_back(
        "The model does not say how it was made: layers are matched by the "
        "names of their outputs.");
  }
  if (is_equalized) {
    notes.push_back(
        "Layers were equalized before they were quantized; they are compared with the equalized "
        "float model.");
  }
  if (report.evaluation && !report.evaluation->processor.nodes.empty()) {
    notes.push_back(fmt::format("On x86 processors without VNNI {}.",
                                evaluate::DescribeSaturation(report.evaluation->processor)));
  }
  const auto lost =
      std::ranges::count_if(layers, [](const MatchedLayer& layer) { return !layer.quantized; });
  if (lost > 0) {
    notes.push_back(fmt::format("{} of {} layers of the float model were not found in this model.",
                                lost, layers.size()));
  }
  return notes;
}

}  // namespace bitpress::report
