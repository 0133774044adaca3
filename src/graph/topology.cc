// The order of nodes, and the values that the bodies of If, Loop and Scan read from outside.
#include <algorithm>
#include <functional>
#include <queue>
#include <string>
#include <unordered_map>

#include "base/error.h"
#include "base/text.h"
#include "graph/model_impl.h"

namespace bitpress::graph {
namespace {

using NameViews = std::unordered_set<std::string_view>;

void CollectCaptures(const onnx::GraphProto& body, std::vector<NameViews>& scopes,
                     NameViews& captures) {
  NameViews& defined = scopes.emplace_back();
  ForEachDefinition(body, [&](const std::string& name) { defined.insert(name); });
  const auto read = [&](const std::string& name) {
    const bool is_inner = std::ranges::any_of(
        scopes, [&](const NameViews& scope) { return scope.contains(std::string_view(name)); });
    if (!name.empty() && !is_inner) captures.insert(name);
  };
  for (const auto& node : body.node()) {
    for (const auto& input : node.input()) read(input);
    ForEachOwnBody(
        node, [&](const onnx::GraphProto& inner) { CollectCaptures(inner, scopes, captures); });
  }
  for (const auto& output : body.output()) read(output.name());
  scopes.pop_back();
}

using Producers = std::unordered_map<std::string_view, size_t>;

// Returns the node that produces each value. Throws if a value has two sources, because the order
// would be a guess.
Producers FindProducers(const onnx::GraphProto& graph) {
  NameViews others;
  for (const auto& input : graph.input()) others.insert(input.name());
  for (const auto& tensor : graph.initializer()) others.insert(tensor.name());
  Producers producers;
  size_t position = 0;
  for (const auto& node : graph.node()) {
    for (const auto& output : node.output()) {
      if (output.empty()) continue;
      const auto [found, is_new] = producers.emplace(output, position);
      if (is_new && !others.contains(output)) continue;
      Fail(ErrorCode::kInvalidModel, "{} produces '{}', which {}", DescribeNode(node), output,
           is_new ? "is an input or initializer of the graph"
                  : fmt::format("{} produces already",
                                DescribeNode(graph.node(static_cast<int>(found->second)))));
    }
    ++position;
  }
  return producers;
}

// Returns for each node the positions of the nodes whose outputs it reads.
std::vector<std::vector<size_t>> Dependencies(const onnx::GraphProto& graph) {
  const Producers producers = FindProducers(graph);
  std::vector<std::vector<size_t>> dependencies(static_cast<size_t>(graph.node_size()));
  size_t position = 0;
  for (const auto& node : graph.node()) {
    const auto add = [&](std::string_view value) {
      const auto found = producers.find(value);
      if (found != producers.end()) dependencies[position].push_back(found->second);
    };
    for (const auto& input : node.input()) add(input);
    for (const std::string_view value : CapturedValues(node)) add(value);
    ++position;
  }
  return dependencies;
}

// Throws the error with the nodes of a cycle. It walks from an unplaced node to one that this waits
// for, until a node comes up again.
[[noreturn]] void FailCycle(const onnx::GraphProto& graph,
                            const std::vector<std::vector<size_t>>& dependencies,
                            const std::vector<bool>& placed) {
  const auto is_unplaced = [&](size_t node) { return !placed[node]; };
  auto node = static_cast<size_t>(std::ranges::find(placed, false) - placed.begin());
  std::vector<size_t> path;
  while (std::ranges::find(path, node) == path.end()) {
    path.push_back(node);
    node = *std::ranges::find_if(dependencies[node], is_unplaced);
  }
  path.erase(path.begin(), std::ranges::find(path, node));
  if (path.size() == 1) {
    Fail(ErrorCode::kInvalidModel, "{} reads its own output",
         DescribeNode(graph.node(static_cast<int>(node))));
  }
  constexpr size_t kMostNames = 5;
  std::vector<std::string> names;
  for (const size_t i : path) {
    if (names.size() == kMostNames) break;
    names.push_back(DescribeNode(graph.node(static_cast<int>(i))));
  }
  Fail(ErrorCode::kInvalidModel, "{} nodes read each other's outputs in a cycle: {}{}", path.size(),
       Join(names, ", "), path.size() > kMostNames ? ", ..." : "");
}

}  // namespace

std::vector<std::string_view> CapturedValues(const onnx::NodeProto& node) {
  NameViews captures;
  std::vector<NameViews> scopes;
  ForEachOwnBody(node,
                 [&](const onnx::GraphProto& body) { CollectCaptures(body, scopes, captures); });
  return {captures.begin(), captures.end()};
}

void SortNodes(onnx::GraphProto& graph) {
  const std::vector<std::vector<size_t>> dependencies = Dependencies(graph);
  const size_t num_nodes = dependencies.size();
  std::vector<size_t> num_missing(num_nodes);
  std::vector<std::vector<size_t>> readers(num_nodes);
  bool is_sorted = true;
  for (size_t node = 0; node < num_nodes; ++node) {
    num_missing[node] = dependencies[node].size();
    for (const size_t dependency : dependencies[node]) {
      readers[dependency].push_back(node);
      is_sorted = is_sorted && dependency < node;
    }
  }
  if (is_sorted) return;

  // The next node is the first of the file that could come next, so that little moves.
  std::priority_queue<size_t, std::vector<size_t>, std::greater<>> ready;
  for (size_t node = 0; node < num_nodes; ++node) {
    if (num_missing[node] == 0) ready.push(node);
  }
  std::vector<bool> placed(num_nodes);
  std::vector<onnx::NodeProto*> order;
  const auto nodes = graph.mutable_node()->pointer_begin();
  while (!ready.empty()) {
    const size_t node = ready.top();
    ready.pop();
    placed[node] = true;
    order.push_back(nodes[static_cast<std::ptrdiff_t>(node)]);
    for (const size_t reader : readers[node]) {
      if (--num_missing[reader] == 0) ready.push(reader);
    }
  }
  if (order.size() < num_nodes) FailCycle(graph, dependencies, placed);
  std::ranges::copy(order, nodes);
}

}  // namespace bitpress::graph
