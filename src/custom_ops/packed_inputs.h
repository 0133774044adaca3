// The parts of a packed weight among the inputs of an operator that computes with it.
#pragma once

#include <onnxruntime_cxx_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "custom_ops/attributes.h"
#include "custom_ops/shared_weights.h"
#include "formats/format_spec.h"
#include "formats/packed_tensor.h"

namespace bitpress::custom_ops {

// Returns the number of such inputs: codes, scales and, in some formats, shifts.
size_t NumParts(const formats::FormatSpec& spec);
// Returns the types of codes, which are bytes, in models of old and of new operator sets.
std::vector<ONNXTensorElementDataType> CodeTypes(const formats::FormatSpec& spec);

// The numbers of operators whose nodes say sizes of formats: MatMul_bfp_1 to MatMul_bfp_4. A
// model's functions stand for one format each, and a number tells them apart.
inline constexpr int kMostNumbers = 4;
std::vector<std::string> NumberedNames(const formats::FormatSpec& spec);
// Returns a format of each base that takes parameters, with the parts that such formats have.
std::vector<formats::FormatSpec> ParametricFormats();
// Returns the format that an attribute names, a row of the table or one with parameters. Throws
// Error(kInvalidArgument) naming the attribute.
formats::FormatSpec FormatAttribute(const NodeInfo& node, const char* attribute);
// Returns the weight's format, attribute `format` of an operator that is called after `base`.
// Throws Error(kInvalidModel) if it is another one, and as FormatAttribute.
formats::FormatSpec WeightFormat(const NodeInfo& node, const formats::FormatSpec& base);

// The weight of a node, whose parts are constants from input 1 on.
struct PackedInputs {
  // Throws Error(kInvalidModel) if a part is no constant, or the attributes do not fit.
  PackedInputs(const NodeInfo& node, const formats::FormatSpec& spec);
  // Returns the number of threads to arrange it with.
  size_t num_threads() const;
  // Takes the parts out of this process's memory, if ONNX Runtime has mapped them from the file of
  // the weights: the kernels read the arranged weight only.
  void Release() const;

  std::vector<Ort::ConstValue> parts;
  formats::PackedView view;
  std::vector<int64_t> shape;  // attribute `shape`, or that of the codes without blocks
  // Attribute `blocks` as [outer, axis, inner], the tensor with its blocks along the axis. Weights
  // without blocks have their elements along the sums there.
  int64_t outer = 1, axis = 1, inner = 1;
};

// Returns the arranged weight of this key, which make(pool) returns if no node holds one. What is
// read of the weight from then on is that, so its parts are released.
template <class Weight, class Make>
std::shared_ptr<const Weight> Arranged(SharedWeights<Weight>& shared, const WeightKey& key,
                                       const PackedInputs& weight, const Make& make) {
  auto arranged = shared.Get(key, [&] {
    // The threads end here, as ONNX Runtime unloads this library with its last session.
    ThreadPool pool(weight.num_threads());
    return make(pool);
  });
  weight.Release();
  return arranged;
}

}  // namespace bitpress::custom_ops
