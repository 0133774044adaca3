// The parts of a packed weight among the inputs of an operator that computes with it.
#pragma once

#include <onnxruntime_cxx_api.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/thread_pool.h"
#include "custom_ops/attributes.h"
#include "formats/format_spec.h"
#include "formats/packed_tensor.h"

namespace bitpress::custom_ops {

// Returns the number of such inputs: codes, scales and, in some formats, shifts.
size_t NumParts(const formats::FormatSpec& spec);
// Returns the types of codes, which are bytes, in models of old and of new operator sets.
std::vector<ONNXTensorElementDataType> CodeTypes(const formats::FormatSpec& spec);

// The weight of a node, whose parts are constants from input 1 on.
struct PackedInputs {
  // Throws Error(kInvalidModel) if a part is no constant.
  PackedInputs(const NodeInfo& node, const formats::FormatSpec& spec);
  // Returns the number of threads to arrange it with.
  size_t num_threads() const;

  std::vector<Ort::ConstValue> parts;
  formats::PackedView view;
  // Attribute `blocks` as [outer, axis, inner], the tensor with its blocks along the axis.
  int64_t outer = 1, axis = 1, inner = 1;
};

}  // namespace bitpress::custom_ops
