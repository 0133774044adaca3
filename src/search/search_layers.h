// The layers of a model that a search gives formats to. Sensitivity and search begin with them.
// Pure.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "graph/model.h"
#include "plan/resolved_plan.h"

namespace bitpress::search {

// A node whose formats are to be chosen.
struct SearchLayer {
  std::string node;  // key of the node in plans
  std::string op_type;
  std::vector<bool> has_part;  // for each part: it quantizes something of the node
};

struct SearchLayers {
  std::vector<SearchLayer> found;                             // in graph order
  std::vector<std::pair<std::string, std::string>> left_out;  // with the reason
};

// The layers that a user wants to be searched.
struct LayerSelection {
  std::vector<std::string> op_types = {};    // empty: all types
  std::vector<std::string> names = {};       // names of nodes; empty: all nodes
  std::vector<std::string> kept_names = {};  // names of nodes that are not searched

  bool is_all() const { return op_types.empty() && names.empty() && kept_names.empty(); }
};

// Returns the selected operators that multiply and that a part quantizes. Throws
// Error(kInvalidArgument) for a name that no node has.
SearchLayers FindSearchLayers(const graph::Model& model,
                              const std::vector<plan::ResolvedPlan>& parts,
                              const LayerSelection& selection);

}  // namespace bitpress::search
