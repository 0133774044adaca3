// bitpress inspect: what is in a model.
#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "base/text.h"
#include "command.h"
#include "pipeline.h"

namespace bitpress::apps {
namespace {

// "FLOAT [N, 3, 224, 224]"
std::string TypeAndShape(const graph::ValueInfo& info) {
  std::string text(DataTypeName(info.type));
  if (!info.has_shape) return text + " of unknown shape";
  std::vector<std::string> dims;
  for (const graph::Dimension& dim : info.shape) {
    dims.push_back(dim.value >= 0       ? std::to_string(dim.value)
                   : dim.symbol.empty() ? "?"
                                        : dim.symbol);
  }
  return fmt::format("{} [{}]", text, Join(dims, ", "));
}

void AppendCounts(std::string& text, std::string_view title,
                  const std::map<std::string, size_t>& counts) {
  if (counts.empty()) return;
  text += fmt::format("{}:\n", title);
  for (const auto& [name, count] : counts) text += fmt::format("  {:>6} {}\n", count, name);
}

std::string ToText(const std::string& path, const pipeline::InspectReport& report) {
  std::string text = fmt::format("{}: {}, IR version {}\n", path, HumanBytes(report.file_bytes),
                                 report.ir_version);
  text += "operator sets:";
  for (const auto& [domain, version] : report.opset_imports) {
    text += fmt::format(" {} {}", domain.empty() ? "ai.onnx" : domain, version);
  }
  text += "\n";
  for (const pipeline::NamedValue& value : report.inputs) {
    text += fmt::format("input:  {} {}\n", value.name, TypeAndShape(value.info));
  }
  for (const pipeline::NamedValue& value : report.outputs) {
    text += fmt::format("output: {} {}\n", value.name, TypeAndShape(value.info));
  }
  AppendCounts(text, "operators", report.operators);
  AppendCounts(text, "quantizers among them", report.quantizers);
  if (!report.constants.empty()) text += "constants:\n";
  for (const auto& [type, sum] : report.constants) {
    text += fmt::format("  {:>6} tensors of {}: {} elements, {}\n", sum.num_tensors,
                        DataTypeName(type), sum.num_elements, HumanBytes(sum.num_bytes));
  }
  for (const auto& [key, value] : report.metadata) {
    text += fmt::format("metadata: {} = {}\n", key, value);
  }
  return text;
}

}  // namespace

void AddInspectCommand(CLI::App& program) {
  CLI::App* const command =
      program.add_subcommand("inspect", "Show inputs, outputs, operators and constants.");
  const auto model = std::make_shared<std::string>();
  command->add_option("model", *model, "the ONNX model")->required()->type_name("MODEL");
  command->footer("Example:\n  bitpress inspect model.onnx\n");
  command->callback([model] { Print(ToText(*model, pipeline::Inspect(*model))); });
}

}  // namespace bitpress::apps
