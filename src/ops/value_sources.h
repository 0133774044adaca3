// The sources of a value: the layers, attentions and residual streams that its content comes from
// without another of them in between. ops/layer_roles.h tells by them which layer projects the
// queries of an attention, or which one closes an MLP. Pure.
//
// Names of nodes and values do not matter, so that the models of all exporters are read alike:
//
//   source      what it is
//   linear      a product of an activation with a constant matrix
//   attention   softmax(Q K') V, as one operator or as the products around a Softmax
//   product     another product of two activations, such as Q K'
//   stream      what layers read and add to: a lookup in a table, a float input of the model, and
//               each sum of a stream with the output of a layer
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "graph/model.h"

namespace bitpress::ops {

enum class SourceKind { kLinear, kAttention, kProduct, kStream };

// Indices of SourceTrace::sources.
using SourceSet = std::set<size_t>;

struct Source {
  SourceKind kind = SourceKind::kStream;
  std::optional<graph::Node> node = {};  // nothing: an input of the model
  SourceSet data = {};                   // of the activation; of an attention's queries
  // The sources of the other operand of a product, and of an attention's keys and values.
  SourceSet keys = {};
  SourceSet values = {};
};

struct SourceTrace {
  std::vector<Source> sources;  // in topological order, those of inputs first
  std::map<std::string, SourceSet, std::less<>> of_value;
  std::set<std::string, std::less<>> constants;  // computed from constants alone
  SourceSet merged;  // the sources that are added to a stream, or are added up to one

  // Returns the sources of a value. It has none if it is computed from constants or integers.
  const SourceSet& Of(const std::string& value) const;
  bool IsConstant(const graph::Model& model, const std::string& value) const {
    return model.IsInitializer(value) || constants.contains(value);
  }
};

SourceTrace TraceSources(const graph::Model& model);

// Returns the input that a product with a constant matrix reads its activation from, and the input
// that the matrix is. Returns nothing for other operators. Products with matrices in codes are
// among them.
struct LinearInputs {
  size_t data = 0;
  size_t weight = 1;
};
std::optional<LinearInputs> LinearInputsOf(const graph::Node& node);

}  // namespace bitpress::ops
