#include "rewrite/find_origins.h"

#include <algorithm>
#include <utility>

#include "ops/operator_traits.h"
#include "plan/quant_plan.h"

namespace bitpress::rewrite {
namespace {

using graph::Model;
using graph::Node;

bool Has(const Model& model, const std::string& value) {
  return model.IsInput(value) || model.IsInitializer(value) || model.IsBodyInput(value) ||
         model.Producer(value).has_value();
}

std::string FirstOutput(const Node& node) {
  for (size_t i = 0; i < node.num_outputs(); ++i) {
    if (!node.output(i).empty()) return node.output(i);
  }
  return "";
}

void AddNew(std::vector<std::string>& words, const std::string& word) {
  if (std::ranges::find(words, word) == words.end()) words.push_back(word);
}

}  // namespace

OriginFinder::OriginFinder(const Model& given) {
  const plan::NodeIndex index(given);
  for (const Node& node : given.AllNodes()) {
    GivenNode& known = nodes_.emplace_back();
    known.key = index.KeyOf(node);
    known.op_type = node.op_type();
    known.multiplies = ops::TraitsOf(node).sums_products();
    for (size_t i = 0; i < node.num_inputs(); ++i) {
      known.inputs.push_back(node.input(i));
      if (node.input(i).empty()) continue;
      readers_[node.input(i)].push_back({nodes_.size() - 1, i});
      values_.insert(node.input(i));
    }
    for (size_t i = 0; i < node.num_outputs(); ++i) {
      known.outputs.push_back(node.output(i));
      if (!node.output(i).empty()) values_.insert(node.output(i));
    }
  }
}

std::vector<OriginFinder::Home> OriginFinder::HomesIn(const Model& prepared) const {
  std::vector<Home> homes(nodes_.size());
  // Readers come behind the nodes whose results they read.
  for (size_t i = nodes_.size(); i-- > 0;) {
    for (const std::string& output : nodes_[i].outputs) {
      if (output.empty() || !homes[i].value.empty()) continue;
      if (prepared.Producer(output)) {
        homes[i] = {output, false};
      } else if (prepared.IsInitializer(output)) {
        homes[i] = {output, true};
      }
    }
    for (const std::string& output : nodes_[i].outputs) {
      const auto readers = readers_.find(output);
      if (readers == readers_.end()) continue;
      for (const Reader& reader : readers->second) {
        if (homes[i].value.empty()) homes[i] = homes[reader.node];
      }
    }
  }
  return homes;
}

OriginFinder::Regions OriginFinder::RegionsOf(const Model& prepared) const {
  Regions regions;
  std::map<std::string, std::string> region_of;  // by the first output of a node
  const std::vector<Node> nodes = prepared.AllNodes();
  for (auto node = nodes.rbegin(); node != nodes.rend(); ++node) {
    std::string region;
    for (size_t i = 0; i < node->num_outputs() && region.empty(); ++i) {
      if (values_.contains(node->output(i))) region = node->output(i);
    }
    for (size_t i = 0; i < node->num_outputs() && region.empty(); ++i) {
      if (node->output(i).empty()) continue;
      for (const graph::Use& use : prepared.AllUses(node->output(i))) {
        if (region.empty()) region = region_of[FirstOutput(use.node)];
      }
    }
    region_of[FirstOutput(*node)] = region;
    if (!region.empty()) regions[region].push_back(*node);
  }
  return regions;
}

std::string OriginFinder::ValueFor(const std::string& value, const Model& prepared,
                                   const std::vector<Home>& homes, const Regions& regions) const {
  const auto readers = readers_.find(value);
  if (readers == readers_.end()) return "";
  for (const Reader& reader : readers->second) {
    const Home& home = homes[reader.node];
    if (home.is_constant) return home.value;
    const auto region = regions.find(home.value);
    if (region == regions.end()) continue;
    // The reader is still there and reads something else at this place.
    for (const Node& node : region->second) {
      const GivenNode& given = nodes_[reader.node];
      const bool is_reader =
          node.op_type() == given.op_type || (given.multiplies && ops::TraitsOf(node).is_product());
      if (is_reader && reader.input < node.num_inputs() && !node.input(reader.input).empty() &&
          Has(prepared, node.input(reader.input))) {
        return node.input(reader.input);
      }
    }
  }
  return homes[readers->second.front().node].value;
}

graph::Origins OriginFinder::Find(const Model& prepared) const {
  graph::Origins origins;
  const std::vector<Home> homes = HomesIn(prepared);
  const Regions regions = RegionsOf(prepared);
  const plan::NodeIndex index(prepared);
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const GivenNode& given = nodes_[i];
    origins.op_types.insert(given.op_type);
    const auto region = regions.find(homes[i].value);
    if (homes[i].value.empty() || homes[i].is_constant || region == regions.end()) {
      origins.gone[given.key] = homes[i].is_constant ? "preparation made a constant of its result"
                                                     : "preparation needed no result of it";
      continue;
    }
    for (const Node& node : region->second) {
      graph::Origins::Node& origin = origins.nodes[FirstOutput(node)];
      if (index.KeyOf(node) != given.key) AddNew(origin.names, given.key);
      if (given.multiplies && ops::TraitsOf(node).is_product() && node.op_type() != given.op_type) {
        AddNew(origin.op_types, given.op_type);
      }
    }
  }
  std::erase_if(origins.nodes, [](const auto& entry) {
    return entry.second.names.empty() && entry.second.op_types.empty();
  });
  for (const std::string& value : values_) {
    if (Has(prepared, value)) continue;
    const std::string now = ValueFor(value, prepared, homes, regions);
    if (now.empty()) {
      origins.gone.emplace(value, "preparation needed no such value");
    } else {
      AddNew(origins.values[now], value);
    }
  }
  return origins;
}

}  // namespace bitpress::rewrite
