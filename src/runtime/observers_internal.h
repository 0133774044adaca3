// Internal: the registration of observers with ONNX Runtime.
#pragma once

#include "runtime/observers.h"
#include "runtime/ort_internal.h"

namespace bitpress::runtime {

// Throws Ort::Exception.
void RegisterObservers(Ort::SessionOptions& options, const ObserverOperators& operators);

}  // namespace bitpress::runtime
