// Values between two operators that a compiler runs as one, such as a Conv and the Relu behind it.
// Hardware does not round them there, so that they need no quantizer (setting float_between; AMD
// Quark's RemoveQDQ words). Pure.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "graph/model.h"

namespace bitpress::plan {

// Throws Error(kInvalidArgument) if a pair is not of the form "OP_TYPE>OP_TYPE".
void CheckJoinedPair(std::string_view pair);

// Returns whether the producer of a node's input and the node are one of the pairs, and nothing
// else reads the value. A reader Relu6 or Relu1 is a Clip from 0 to 6 or to 1.
bool IsBetween(const graph::Model& model, const graph::Node& node, size_t input,
               std::span<const std::string> pairs);

}  // namespace bitpress::plan
