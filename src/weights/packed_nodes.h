// Common parts of nodes that compute with a packed weight: matrix products (product_nodes.h),
// convolutions (convolution_nodes.h) and lookups (lookup_nodes.h).
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "graph/model.h"
#include "weights/unpack_functions.h"

namespace bitpress::weights {

// Returns the storage of a packed weight of the model, with its Unpack function.
PackedStorage StorageOf(const graph::Model& model, const PackedWeight& weight);
// Returns what an Unpack function's name has behind its prefix.
std::string DecoderOf(const PackedStorage& storage);

// Numbered operators of one base differ in these, and in the layout of their weights.
struct NumberedKind {
  std::string format;
  std::string input_format = {};  // "" if the operator has none
  bool has_slope = false;         // ends in a LeakyRelu
};

// Returns the name of an operator of this kind: `prefix`, the base of the weight's format, and the
// first number that no node of the model has, or that those have whose function is the same.
// Nothing if all numbers are taken.
std::optional<std::string> NumberedName(const graph::Model& model, std::string_view prefix,
                                        const PackedStorage& storage, const NumberedKind& kind);
// Returns why there is no such operator, as a clause; "" if there is, as the name says.
std::string WhyNoNumber(const formats::FormatSpec& spec, const std::optional<std::string>& name);
// Returns whether a node with the attribute of its format has such a name.
bool HasNumberedName(const graph::Node& node, std::string_view prefix,
                     const formats::FormatSpec& spec);

// Adds the end of a function that limits a value to its attributes `least` and `largest`: a Clip
// with the output y.
void AddLimits(graph::FunctionSpec& function, const std::string& value);
// Inserts a Clip with those limits that are finite.
void InsertLimits(graph::Model& model, const std::string& input, const std::string& output,
                  float least, float largest, const graph::Node& before);

// Returns the name of the weight that such a node reads.
std::string WeightName(const graph::Node& node);

// Inserts Unpack nodes in place of the weights that such nodes read.
class WeightValues {
 public:
  explicit WeightValues(graph::Model& model) : model_(model) {}
  // Returns the value of the weight that a node reads; several nodes may read one.
  std::string ValueOf(const graph::Node& node, const PackedStorage& storage);

 private:
  graph::Model& model_;
  std::map<std::string, std::string> values_;  // of the joined names of the parts
};

// Replaces all nodes that compute with a packed weight by what their functions are made of. Returns
// their number. Throws Error(kInvalidModel) naming a node that is called like ours, but does
// something else.
size_t ExpandPackedNodes(graph::Model& model);

}  // namespace bitpress::weights
