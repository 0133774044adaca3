// The part of the pass use-product-operators (use_product_operators.h) that replaces convolutions.
#pragma once

#include <functional>
#include <string>

#include "emit/use_product_operators.h"
#include "graph/model.h"
#include "weights/unpack_functions.h"

namespace bitpress::emit {

// Returns why a reader of a weight is no convolution that our operator library computes, "" if it
// is one: a Conv over one or two dimensions whose weight is in blocks that run along its channels,
// or along all that it sums, and whose input comes from one of our quantizers with blocks of as
// many elements along the channels. Convolutions that sum chains of floats qualify only if they are
// grouped, or sum few products, as those of the first layer do. CodeReaders::kQuick also leaves
// those to ONNX Runtime of which its own is probably faster: larger products of floats, unless this
// processor has tiles for them, and outputs with few positions. REQUIRES: the reader is a standard
// Conv.
std::string WhyNoPackedConvolution(const graph::Model& model, const graph::Use& use,
                                   const weights::PackedWeight& weight, plan::CodeReaders readers);

// Replaces the convolution, and a following Add of a tensor of the same shape, and Relu, Clip or
// LeakyRelu, which alone read its result. zeros(count) returns a vector of zeros. REQUIRES: there
// is no reason not to.
void ReplaceConvolution(graph::Model& model, const graph::Node& unpack,
                        const weights::PackedWeight& weight, const graph::Node& convolution,
                        const std::function<std::string(int64_t)>& zeros);

}  // namespace bitpress::emit
