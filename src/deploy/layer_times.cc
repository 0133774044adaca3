#include "deploy/layer_times.h"

#include <algorithm>
#include <string_view>

#include "ops/operator_traits.h"

namespace bitpress::deploy {
namespace {

using graph::Node;

constexpr int kNone = -1;

// Returns the seconds of each node in its shortest run.
std::map<std::string, double> ShortestRuns(const std::vector<std::vector<OperatorRun>>& runs) {
  std::map<std::string, double> shortest;
  for (const std::vector<OperatorRun>& run : runs) {
    std::map<std::string, double> seconds;
    for (const OperatorRun& ran : run) seconds[ran.node] += ran.seconds;
    for (const auto& [node, sum] : seconds) {
      const auto [found, is_new] = shortest.emplace(node, sum);
      found->second = std::min(found->second, sum);
    }
  }
  return shortest;
}

// Takes away what ONNX Runtime puts around names: the layout of a node, numbers, and a FLOAT16
// value that it computes in FLOAT.
std::string_view GivenName(std::string_view name) {
  constexpr std::string_view kNumber = "_token_", kLayout = "_nchwc";
  constexpr std::string_view kFloat = "InsertedPrecisionFreeCast_";
  if (name.starts_with(kFloat)) name.remove_prefix(kFloat.size());
  const size_t digits = name.find_last_not_of("0123456789");
  if (digits != std::string_view::npos && name.substr(0, digits + 1).ends_with(kNumber)) {
    name.remove_suffix(name.size() - (digits + 1 - kNumber.size()));
  }
  if (name.ends_with(kLayout)) name.remove_suffix(kLayout.size());
  return name;
}

// Return the values that a node reads and gives, without those that it leaves out.
std::vector<std::string> InputsOf(const Node& node) {
  std::vector<std::string> values;
  for (size_t i = 0; i < node.num_inputs(); ++i) {
    if (!node.input(i).empty()) values.push_back(node.input(i));
  }
  return values;
}
std::vector<std::string> OutputsOf(const Node& node) {
  std::vector<std::string> values;
  for (size_t i = 0; i < node.num_outputs(); ++i) {
    if (!node.output(i).empty()) values.push_back(node.output(i));
  }
  return values;
}

using LayersByValue = std::map<std::string, int, std::less<>>;

// Returns the layer of the first value that has one, or kNone.
int FirstLayer(const LayersByValue& layers, const std::vector<std::string>& values) {
  for (const std::string& value : values) {
    if (const auto found = layers.find(value); found != layers.end()) return found->second;
  }
  return kNone;
}

}  // namespace

LayerMap::LayerMap(const graph::Model& given) {
  for (const Node& node : given.AllNodes()) {
    int layer = kNone;
    if (ops::TraitsOf(node).takes_most_time() && !node.HasSubgraph()) {
      layer = static_cast<int>(layers_.size());
      layers_.push_back({node.name(), node.op_type()});
    } else {
      // A node that joins branches follows the layer that comes last.
      for (const std::string& value : InputsOf(node)) {
        const auto found = values_.find(value);
        if (found != values_.end()) layer = std::max(layer, found->second);
      }
    }
    if (layer == kNone) continue;
    nodes_.emplace(node.name(), layer);
    for (const std::string& value : OutputsOf(node)) values_.emplace(value, layer);
  }
}

int LayerMap::Find(const Node& node) const {
  for (const std::string_view name : {std::string_view(node.name()), GivenName(node.name())}) {
    if (const auto found = nodes_.find(name); found != nodes_.end()) return found->second;
    if (const auto found = values_.find(name); found != values_.end()) return found->second;
  }
  for (const std::string& value : OutputsOf(node)) {
    const auto found = values_.find(GivenName(value));
    if (found != values_.end()) return found->second;
  }
  return kNone;
}

std::vector<double> LayerMap::SecondsOf(const graph::Model& ran,
                                        const std::vector<std::vector<OperatorRun>>& runs) const {
  const std::map<std::string, double> shortest = ShortestRuns(runs);
  const std::vector<Node> nodes = ran.AllNodes();
  std::vector<int> layers;
  for (const Node& node : nodes) layers.push_back(Find(node));
  // Others, such as quantizers, belong to the first layer that reads them, else to the one before.
  LayersByValue readers, producers;
  for (size_t n = nodes.size(); n-- > 0;) {
    if (layers[n] == kNone) layers[n] = FirstLayer(readers, OutputsOf(nodes[n]));
    if (layers[n] == kNone) continue;
    for (const std::string& value : InputsOf(nodes[n])) readers[value] = layers[n];
  }
  std::vector<double> seconds(layers_.size());
  for (size_t n = 0; n < nodes.size(); ++n) {
    if (layers[n] == kNone) layers[n] = FirstLayer(producers, InputsOf(nodes[n]));
    if (layers[n] == kNone) continue;
    for (const std::string& value : OutputsOf(nodes[n])) producers[value] = layers[n];
    const auto time = shortest.find(nodes[n].name());
    if (time == shortest.end() || nodes[n].HasSubgraph()) continue;
    seconds[static_cast<size_t>(layers[n])] += time->second;
  }
  return seconds;
}

std::vector<LayerTime> LayerMap::Compare(const std::vector<double>& seconds,
                                         const std::vector<double>& given_seconds) const {
  std::vector<LayerTime> found;
  for (size_t i = 0; i < layers_.size(); ++i) {
    if (seconds[i] == 0 || given_seconds[i] == 0) continue;
    found.push_back({layers_[i].name, layers_[i].op_type, seconds[i], given_seconds[i]});
  }
  std::ranges::stable_sort(found, std::ranges::greater(), [](const LayerTime& layer) {
    return layer.seconds - layer.given_seconds;
  });
  return found;
}

}  // namespace bitpress::deploy
