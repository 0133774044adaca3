// The registration of observers with ONNX Runtime. Internal.
#pragma once

#include "runtime/observers.h"
#include "runtime/ort_internal.h"

namespace bitpress::runtime {

// Registers the operators for a session. Throws Ort::Exception.
void RegisterObservers(Ort::SessionOptions& options, const ObserverOperators& operators);

}  // namespace bitpress::runtime
