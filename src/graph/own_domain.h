// The domains of our operators and of the functions that describe them.
#pragma once

#include <cstdint>

namespace bitpress::graph {

class Model;
class Node;

inline constexpr const char* kOwnDomain = "bitpress";
// The domain of the operators that a run of ours puts into models for its own use
// (runtime/observers.h). No file of a user has them.
inline constexpr const char* kObserverDomain = "bitpress.observe";

// The function Rotate_N multiplies each block of N elements of the last axis by a normalized
// Hadamard matrix. N is a power of two. Its name is this and N.
inline constexpr const char* kRotationPrefix = "Rotate_";
// Returns N, or 0 if the node is no rotation.
int64_t RotationSize(const Node& node);

// Throws Error(kInvalidModel) if the model, a body in it or one of its functions has an operator of
// a run's own use: with an attribute that somebody made up, it would act on the run's memory.
void RefuseInternalOperators(const Model& model);

}  // namespace bitpress::graph
