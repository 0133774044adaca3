// TEST ONLY. A library that says it is an ONNX Runtime of long ago, and that is an operator library
// without operators.
#include "runtime/ort_internal.h"

namespace {

const OrtApi* ORT_API_CALL NoApi(uint32_t /*version*/) noexcept { return nullptr; }
const char* ORT_API_CALL OldVersion() noexcept { return "1.5.2"; }

constexpr OrtApiBase kBase{.GetApi = NoApi, .GetVersionString = OldVersion};

}  // namespace

// The C symbol that dlsym finds. The header declares it with ONNX Runtime's own linkage.
extern "C" __attribute__((visibility("default"))) const OrtApiBase* FakeOrtGetApiBase() {
  return &kBase;
}
extern "C" __attribute__((visibility("default"), alias("FakeOrtGetApiBase"))) const OrtApiBase*
OrtGetApiBase() noexcept;

extern "C" __attribute__((visibility("default"))) OrtStatus* RegisterCustomOps(
    OrtSessionOptions* /*options*/, const OrtApiBase* /*base*/) {
  return nullptr;
}
