// Pass use-native-operators: matrix products and table lookups that read a packed integer weight
// become com.microsoft MatMulNBits and GatherBlockQuantized, which ONNX Runtime computes from codes
// without ever decoding the weight as a whole.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/thread_pool.h"
#include "emit/quantize_weights.h"
#include "graph/model.h"

namespace bitpress::emit {

// How exact MatMulNBits computes (its attribute `accuracy_level`).
enum class AccuracyLevel : int64_t {
  kFloat = 1,  // products of floats, as a MatMul; ONNX Runtime is fast with it at 4 bits only
  kInt8 = 4,   // activations are rounded to 8 bits in blocks at run time: fast at 2, 4 and 8 bits
};
inline constexpr std::array<std::pair<std::string_view, AccuracyLevel>, 2> kAccuracyLevelWords{
    {{"1", AccuracyLevel::kFloat}, {"4", AccuracyLevel::kInt8}}};

struct NativeOperators {
  size_t num_nodes = 0;
  // Packed integer weights that are decoded as ever: name and reason.
  std::vector<std::pair<std::string, std::string>> omissions;
};

// Of the weights that QuantizeWeights packed: a weight in blocks of 16 to 256 along the sums of
// MatMul (or Gemm: alpha and beta 1, A not transposed, a vector added or none), or along the rows
// of a table that Gather reads; all of its readers must be of one of these kinds. Weights are
// written in the layout of their operator; Unpack functions that nobody uses any more go. REQUIRES:
// nothing was changed between the two passes that removes `weights` or their Unpack nodes.
NativeOperators UseNativeOperators(graph::Model& model, const QuantizedWeights& weights,
                                   AccuracyLevel level, ThreadPool& pool);

}  // namespace bitpress::emit
