// Lookups in a packed table as one node, `bitpress.Gather_<format>`, which takes rows of codes and
// decodes these only. A Gather behind an Unpack node would have the whole table decoded when the
// model is loaded: four bytes for each element, whatever the format.
//
//   inputs      the parts of the table as its Unpack node has them, the numbers of the rows
//   attributes  those of the Unpack node; the same of a table with any number of rows, as
//               row_shape, row_blocks, ...; plane_shape and scale_shape: shapes of planes of codes
//               and of scales with the rows of the table as the first dimension
//   output      the rows, [..., columns]
//
// Its model-local function is made of standard operators and runs at every inference.
#pragma once

#include <string>
#include <vector>

#include "graph/model.h"
#include "weights/packed_nodes.h"
#include "weights/unpack_functions.h"

namespace bitpress::weights {

// Returns why rows of the weight cannot be decoded alone, as a clause; "" if they can: it is a
// matrix, and each row has whole bytes and scales of its own, and its codes are no FP8 tensor,
// which no Gather takes.
std::string WhyNoLookup(const graph::Model& model, const PackedWeight& weight);

// Replaces a Gather along axis 0 from the weight by such a node, with its function. `parts` are the
// names of the weight's initializers, in the order of its Unpack node, in any dimensions. REQUIRES:
// WhyNoLookup is empty.
void ReplaceByLookup(graph::Model& model, const std::vector<std::string>& parts,
                     const PackedWeight& weight, graph::Node gather);

// Replaces such a node by a Gather from the decoded table. Throws Error(kInvalidModel) naming a
// node that is called like ours, but does something else.
void ExpandLookup(graph::Model& model, const graph::Node& node, WeightValues& weights);

}  // namespace bitpress::weights
