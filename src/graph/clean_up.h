// Passes that clean a model up and keep its meaning. Each returns the number of its changes, which
// is 0 if it runs again.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "graph/model.h"

namespace bitpress::graph {

// Removes initializers that nothing reads, imports of operator sets that no node of the model, its
// bodies and functions uses (the standard one stays), and descriptions of values that do not exist.
// Returns the number of removed things.
size_t RemoveUnusedButNodes(Model& model);

// Removes nodes none of whose outputs is read (nodes without outputs stay), and what
// RemoveUnusedButNodes does then. Returns the number of removed things.
size_t RemoveUnused(Model& model);

// Turns the Constant nodes of the main graph into initializers, but for those that are graph
// outputs or hold sparse tensors. Returns their number.
size_t ConstantsToInitializers(Model& model);

// Makes float tensors of the bodies of If, Loop and Scan initializers of the main graph, where
// every body sees them, so that all weights are in one place. The tensors are initializers and
// Constant nodes, but no scalars and no outputs of a body. Equal ones become one, since tools
// repeat a constant in each branch. Returns the number of tensors.
size_t LiftBodyConstants(Model& model);

// Takes constants out of the states of Loops: where a state begins as an initializer, and the body
// passes it on unchanged, as exporters of Keras write the weights of recurrent layers, the body
// reads the initializer itself. Returns the number of states that are gone.
size_t TakeConstantsOutOfLoops(Model& model);

// Takes the initializers out of the inputs of the graph. Old exporters list all weights there,
// which from IR version 4 on means that a caller may give others, so that nothing can be folded
// into them and no codes can stand for them. Returns their names.
std::vector<std::string> FixInitializers(Model& model);

// Takes omitted inputs away from the ends of nodes, where an exporter writes "" for them: ONNX
// Runtime fuses fewer nodes that have them. Returns the number of nodes that changed.
size_t TrimInputs(Model& model);

// Names each node that has no name, or that of an earlier node, after its first output, with a
// number if another node has that name. By its name a node is found again when its values have
// others. Returns the number of nodes.
size_t NameNodes(Model& model);

// Writes each Softmax, LogSoftmax and Hardmax of an operator set before kFirstOpsetWithOneAxis that
// normalizes over several dimensions as one over a matrix, between Flatten and Reshape. A plan for
// the model then fits it when its operator set was raised. Returns their number.
size_t FlattenSoftmax(Model& model);

// Writes Pad and Resize with constant axes as if they named all axes of their tensor. ONNX Runtime
// moves the channels of a layout without minding which axes are named. Returns the number of nodes.
size_t NameAllAxes(Model& model);

// Removes the attributes that nodes of other operator sets than ONNX's have here and not in
// `given`, where a node of the same type has the same output. ONNX Runtime writes every attribute
// that its version knows, and an older one refuses those that it does not know. Returns the number
// of attributes.
size_t RemoveAddedAttributes(const Model& given, Model& model);

// Sorts what ONNX lists in no order and ONNX Runtime in that of its hash tables, which every system
// has its own of: attributes, operator sets, metadata, functions and descriptions of values by
// name, initializers by the first node that reads them, those that none reads last and by name.
void PutInOrder(Model& model);

}  // namespace bitpress::graph
