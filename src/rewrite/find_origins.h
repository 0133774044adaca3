// Finds what became of the nodes and values of a model when ONNX Runtime prepared it, so that rules
// may use the names of the given file (graph/origins.h). ONNX Runtime does not tell; it is found by
// comparing both graphs. Pure.
//
// A value that both graphs have is the same value. Nodes between two such values were made of the
// nodes that stood between them before: MatMul -> Add became Gemm, Conv -> BatchNormalization one
// Conv with other constants.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "graph/model.h"
#include "graph/origins.h"

namespace bitpress::rewrite {

class OriginFinder {
 public:
  // Remembers the names of the given model, and nothing else of it.
  explicit OriginFinder(const graph::Model& given);
  // Returns the origins of the nodes and values of the prepared model.
  graph::Origins Find(const graph::Model& prepared) const;

 private:
  struct Reader {
    size_t node;
    size_t input;
  };
  struct GivenNode {
    std::string key;
    std::string op_type;
    bool multiplies = false;
    std::vector<std::string> inputs;
    std::vector<std::string> outputs;
  };
  // The rest of a given node: the first value behind it that the prepared model has.
  struct Home {
    std::string value;  // "": nothing is left
    bool is_constant = false;
  };
  // The prepared nodes up to a value that the given model has, too.
  using Regions = std::map<std::string, std::vector<graph::Node>>;

  std::vector<Home> HomesIn(const graph::Model& prepared) const;
  Regions RegionsOf(const graph::Model& prepared) const;
  // Returns the value of the prepared model that stands for a given one it does not have, or "".
  std::string ValueFor(const std::string& value, const graph::Model& prepared,
                       const std::vector<Home>& homes, const Regions& regions) const;

  std::vector<GivenNode> nodes_;
  std::map<std::string, std::vector<Reader>> readers_;
  std::set<std::string> values_;
};

}  // namespace bitpress::rewrite
