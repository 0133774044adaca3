// Makes a FLOAT16 network one of FLOAT (pass widen-half of preparation). Integers have scales of
// FLOAT, and ONNX Runtime's integer kernels give FLOAT, so that a network whose activations become
// integers is made FLOAT first.
#pragma once

#include <cstddef>

#include "graph/model.h"

namespace bitpress::graph {

// Turns the FLOAT16 constants, Casts and other attributes of a model and its bodies into FLOAT.
// Inputs and outputs keep their type, with a Cast behind or in front. Infers the types of all
// values anew. Returns the number of constants, inputs and outputs that were FLOAT16; 0 if the
// model stays as it is: nothing was FLOAT16, a constant is an input or output, too, or the model
// has functions, whose bodies may name the type.
size_t WidenHalf(Model& model);

}  // namespace bitpress::graph
