// The decisions of tensors by the operators that read them, for files that speak of layers.
#pragma once

#include <string>
#include <vector>

#include "interop/decisions.h"

namespace bitpress::interop {

// An operator and what was decided for the tensors that it reads, null where that is nothing. Of
// several activations it is the first one that is quantized.
struct LayerDecision {
  std::string node;
  std::string op_type;
  const Decision* activation = nullptr;
  const Decision* weight = nullptr;
  const Decision* bias = nullptr;
};

// Returns whether all readers of the tensor add it to their products.
bool IsBias(const Decision& decision);

// Returns the operators that read quantized tensors, in the order of these. They point into
// `decisions`.
std::vector<LayerDecision> LayersOf(const Decisions& decisions);

}  // namespace bitpress::interop
