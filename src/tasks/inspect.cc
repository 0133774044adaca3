// The task `inspect`: lists the contents of a model file.
#include "tasks/inspect.h"

#include <utility>

#include "base/error.h"
#include "graph/stored_bytes.h"
#include "ops/quantizer_nodes.h"

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
  report.saturating_nodes = evaluate::FindSaturatingNodes(model);
  for (const auto& [domain, name] : model.Functions()) {
    report.functions.push_back(domain + "." + name);
  }
  WithContext(fmt::format("model '{}'", path.string()),
              [&] { report.constants = weights::StoredConstants(model); });
  return report;
}

}  // namespace bitpress::tasks
