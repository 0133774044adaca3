// Matrix products with a packed weight as one node, `bitpress.MatMul_<format>`, which our operator
// library computes straight from the codes (kernels/block_products.h). Its model-local function
// decodes the weight as its Unpack function does, so that the model runs without the library. A
// format with sizes of its own is an attribute, and a number takes the place of the sizes in the
// name: MatMul_bfp_1.
//
// `bitpress.MatMulClip_<format>` has limits, too.
//
//   inputs      A [..., K], the parts of the weight as its Unpack node has them, bias [N]
//   attributes  shape, blocks: of the Unpack node; perm: what brings the weight into [K, N];
//               rows: the format whose values A has along its last dimension, "" for any floats;
//               sums: "fastest" for formats::SumOrder::kFastest; there is none for kFixed;
//               format: of the weight, if the name has a number; least, largest: limits, of
//               MatMulClip
//   output      A x weight + bias, limited, [..., N]
//
// Rows of another format than `rows` says are rounded to elements of it as they are.
#pragma once

#include <cmath>
#include <cstddef>
#include <limits>
#include <optional>
#include <string>

#include "formats/block_products.h"
#include "formats/format_spec.h"
#include "graph/model.h"
#include "weights/packed_nodes.h"
#include "weights/unpack_functions.h"

namespace bitpress::weights {

// The product of a matrix with a packed weight.
struct PackedProduct {
  graph::Node unpack;   // gives the weight
  PackedWeight weight;  // two-dimensional
  std::string input;    // the left matrix
  std::string rows;     // the format of its values, or ""
  std::string bias;     // a vector of floats for each column
  std::string output;
  std::string name;  // of the node
  float least = -std::numeric_limits<float>::infinity();
  float largest = std::numeric_limits<float>::infinity();
  formats::SumOrder order = formats::SumOrder::kFixed;

  bool is_limited() const { return std::isfinite(least) || std::isfinite(largest); }
};

// Returns why the weight has no such product, as a clause; "" if it has one. That needs a format
// that the operator library knows, blocks that run along the sums, and a free number if the format
// has sizes of its own.
std::string WhyNoPackedProduct(const graph::Model& model, const PackedWeight& weight,
                               bool is_limited = false);
// Returns the axis of a two-dimensional weight along which its blocks run; nothing if they run over
// rows. REQUIRES: weight.shape has two dimensions.
std::optional<size_t> BlockedAxis(const PackedWeight& weight);

// Adds the function of a product, if the model has none, and inserts the node. The order stays
// topological if the inputs come before `before`.
void InsertProduct(graph::Model& model, const PackedProduct& product, const graph::Node& before);

// Replaces a node by what its function is made of: one Unpack node for each weight, Transpose,
// MatMul, Add, Clip. Throws Error(kInvalidModel) naming a node that is called like ours, but does
// something else.
void ExpandProduct(graph::Model& model, const graph::Node& node, WeightValues& weights);

}  // namespace bitpress::weights
