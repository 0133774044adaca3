// The names that nodes and values had in the file that a model was prepared from. Rules of a
// configuration name what their writer sees in that file, and preparation folds and joins nodes.
// Plain data that a model carries along; nothing of it is written to a file.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "graph/model.h"

namespace bitpress::graph {

struct Origins {
  // The nodes that one node was made of, without its own name and type.
  struct Node {
    std::vector<std::string> names;     // a node without a name has that of its first output
    std::vector<std::string> op_types;  // types of those that multiply, if this one does
  };
  std::map<std::string, Node> nodes;                       // by the first output of the node
  std::map<std::string, std::vector<std::string>> values;  // by value: other names of it
  // Nodes and values of the file of which nothing is left, with the reason.
  std::map<std::string, std::string> gone;
  std::set<std::string> op_types;  // all types of operators in the file
};

// Sets the origins of a model's nodes and values. Copies of the model have them, too.
void SetOrigins(Model& model, Origins origins);
// Returns them; empty if none were set.
const Origins& OriginsOf(const Model& model);

}  // namespace bitpress::graph
