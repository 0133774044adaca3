// Convolutions with a packed weight as one node, `bitpress.Conv_<format>_by_<input format>`, which
// our operator library computes straight from the codes (kernels/block_convolutions.h). The node
// quantizes its input itself. Its model-local function calls the function of the input's quantizer
// and decodes the weight as its Unpack function does, so that the model runs without the library.
// If a format has sizes of its own, or the input another block length, or the output is that of a
// LeakyRelu, the formats are attributes, and a number takes their place in the name: Conv_bfp_1.
//
//   inputs      X [N, C, H, W] or [N, C, L], the parts of the weight as its Unpack node has them,
//               bias [M]; `bitpress.ConvAdd_<format>_by_<input format>` also Z, shaped like Y
//   attributes  shape, blocks: of the Unpack node; strides, pads, dilations, group: of the Conv;
//               scale_choice, rounding_mode: of the input's quantizer, along axis 1; least,
//               largest: the limits of the output, or slope: what multiplies negative numbers;
//               format, input_format: of the weight and of the input, if the name has a number
//   output      Y = min(max(Conv(X quantized, weight) + bias [+ Z], least), largest), or LeakyRelu
//               of these sums
#pragma once

#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "formats/format_spec.h"
#include "graph/model.h"
#include "weights/packed_nodes.h"
#include "weights/unpack_functions.h"

namespace bitpress::weights {

// A convolution with a packed weight.
struct PackedConvolution {
  graph::Node unpack;         // gives the weight
  PackedWeight weight;        // of three or four dimensions
  std::string x;              // the input as it is before its quantizer
  formats::FormatSpec input;  // what that quantizes it to
  std::vector<int64_t> strides = {}, pads = {}, dilations = {};
  int64_t group = 1;
  std::string bias = {};   // a vector of floats for each output channel
  std::string other = {};  // Z, or ""
  float least = -std::numeric_limits<float>::infinity();
  float largest = std::numeric_limits<float>::infinity();
  std::optional<float> slope = {};  // of a LeakyRelu, in place of limits
  std::string output = {};
  std::string name = {};  // of the node
};

// Returns why there is no operator for these formats, as a clause; "" if there is one.
std::string WhyNoConvolutionName(const graph::Model& model, const PackedWeight& weight,
                                 const formats::FormatSpec& input);

// Returns whether the operator of a convolution has a name: numbers may be taken.
bool HasConvolutionName(const graph::Model& model, const PackedConvolution& convolution);

// Adds the function of a convolution, if the model has none, and inserts the node. The order stays
// topological if the inputs come before `before`.
void InsertConvolution(graph::Model& model, const PackedConvolution& convolution,
                       const graph::Node& before);

// Replaces a node by what its function is made of: one Unpack node for each weight, the quantizer,
// Conv, Add, Clip or LeakyRelu. Throws Error(kInvalidModel) naming a node that is called like ours,
// but does something else.
void ExpandConvolution(graph::Model& model, const graph::Node& node, WeightValues& weights);

}  // namespace bitpress::weights
