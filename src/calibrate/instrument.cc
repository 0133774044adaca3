#include "calibrate/instrument.h"

#include <map>
#include <set>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "calibrate/calibrate.h"
#include "runtime/observers.h"

namespace bitpress::calibrate {
namespace {

graph::NodeSpec ObserverNode(const char* op_type, const std::string& value, size_t id) {
  // A value may be observed more than once.
  return {fmt::format("{}_observer_{}", value, id), op_type, runtime::kObserverDomain, {}, {},
          {{"id", static_cast<int64_t>(id)}}};
}

}  // namespace

std::vector<std::string> FloatActivations(const graph::Model& model) {
  std::vector<std::string> values;
  std::set<std::string> seen;
  const auto add = [&](const std::string& name, DataType type) {
    if (name.empty() || !runtime::IsObservable(type) || !seen.insert(name).second) return;
    values.push_back(name);
  };
  for (const graph::Node& node : model.AllNodes()) {
    for (size_t i = 0; i < node.num_inputs(); ++i) {
      const std::string& input = node.input(i);
      if (!model.IsInitializer(input)) add(input, model.InfoOf(input).type);
    }
    for (size_t i = 0; i < node.num_outputs(); ++i) {
      add(node.output(i), model.InfoOf(node.output(i)).type);
    }
  }
  for (const graph::BodyValue& value : model.BodyValues()) add(value.name, value.info.type);
  return values;
}

void InsertObservers(graph::Model& model, std::span<const std::string> values) {
  std::map<std::string, DataType> body_values;
  for (const graph::BodyValue& value : model.BodyValues()) {
    body_values.emplace(value.name, value.info.type);
  }
  model.SetOpsetImport(runtime::kObserverDomain, 1);
  // ONNX Runtime starts from the node of the file that comes last and that nothing reads, and goes
  // on with the one before it. So the observers of values that are computed early come last: each
  // runs as soon as it can, and its tensor is not kept until all others are computed too.
  for (size_t id = values.size(); id-- > 0;) {
    const std::string& value = values[id];
    const auto in_body = body_values.find(value);
    const DataType type = in_body != body_values.end() ? in_body->second : model.InfoOf(value).type;
    if (!runtime::IsObservable(type) || model.IsInitializer(value)) {
      Fail(ErrorCode::kInvalidArgument, "'{}' is no float value of the model{}", value,
           DidYouMean(value, FloatActivations(model)));
    }
    if (in_body != body_values.end()) {
      model.InsertBehindBodyValue(value, ObserverNode(runtime::kObservePass, value, id));
      continue;
    }
    graph::NodeSpec node = ObserverNode(runtime::kObserve, value, id);
    node.inputs = {value};
    node.outputs = {model.FreshName(value + "_token")};
    model.InsertNode(node, std::nullopt);
    model.AddOutput(node.outputs[0]);
  }
}

}  // namespace bitpress::calibrate
