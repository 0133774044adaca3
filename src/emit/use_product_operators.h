// Replaces matrix products and convolutions with packed weights by our operators that compute
// straight from the codes (pass use-product-operators). ApplyPlan runs it for Target::kBitpress.
// Each is a node bitpress.MatMul_<format> or bitpress.Conv_<format>_by_<input format>, or has a
// number in place of the sizes of a format, with a model-local function (weights/product_nodes.h,
// convolution_nodes.h), so that the model still runs without our library: then it decodes the
// weight when it is loaded.
#pragma once

#include "emit/use_native_operators.h"
#include "formats/block_products.h"
#include "graph/model.h"
#include "plan/target_profile.h"

namespace bitpress::emit {

// Replaces the readers of weights behind Unpack nodes: each MatMul, or Gemm with alpha and beta 1,
// A not transposed, and a vector or nothing added, whose weight has its blocks along the sums. An
// Add of one number a column behind a MatMul becomes the bias, and a Relu or Clip the limits. If
// one of our quantizers gives the left matrix, with blocks along the sums, too, the product
// multiplies its elements as integers. Products of FLOAT16 models are those of floats between
// Casts: they are rounded once, at the end. Convolutions: packed_convolutions.h. The functions of
// convolutions call those of our quantizers, which AddPortableFunctions adds before. `omissions`
// has the weights that other nodes read. If `readers` is kQuick rather than kAll, FLOAT16 products
// stay, so that other processors than CPUs multiply FLOAT16 numbers, and so do convolutions that
// are faster as floats (packed_convolutions.h). `order`: of the sums of products.
NativeOperators UseProductOperators(graph::Model& model,
                                    plan::CodeReaders readers = plan::CodeReaders::kAll,
                                    formats::SumOrder order = formats::SumOrder::kFixed);

}  // namespace bitpress::emit
