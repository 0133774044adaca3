// The domains of our operators and of the functions that describe them.
#pragma once

namespace bitpress::graph {

class Model;

inline constexpr const char* kOwnDomain = "bitpress";
// The domain of the operators that a run of ours puts into models for its own use
// (runtime/observers.h). No file of a user has them.
inline constexpr const char* kObserverDomain = "bitpress.observe";

// Throws Error(kInvalidModel) if the model, a body in it or one of its functions has an operator of
// a run's own use: with an attribute that somebody made up, it would act on the run's memory.
void RefuseInternalOperators(const Model& model);

}  // namespace bitpress::graph
