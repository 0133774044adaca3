// The two entry points of libbitpress_ops.so, which register our operators in a session.
#include <onnxruntime_cxx_api.h>

#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "bitpress/export.h"
#include "custom_ops/operator.h"

namespace {

using bitpress::custom_ops::Operator;

Ort::CustomOpDomain MakeDomain(const char* name,
                               const std::vector<std::unique_ptr<Operator>>& operators) {
  Ort::CustomOpDomain domain(name);
  for (const auto& op : operators) domain.Add(op.get());
  return domain;
}

// Returns our domains. They live as long as the process, since sessions keep pointers to them.
const std::vector<Ort::CustomOpDomain>& Domains() {
  static const std::vector<Ort::CustomOpDomain>& domains = *[] {
    auto made = std::make_unique<std::vector<Ort::CustomOpDomain>>();
    made->push_back(MakeDomain("bitpress", bitpress::custom_ops::BitpressOperators()));
    made->push_back(MakeDomain("com.amd.quark", bitpress::custom_ops::QuarkOperators()));
    made->push_back(MakeDomain("com.vai.quantize", bitpress::custom_ops::OldQuarkOperators()));
    return made.release();
  }();
  return domains;
}

// Returns a status that says that this ONNX Runtime is too old. Null if it cannot make one.
OrtStatus* TooOld(const OrtApiBase* base) noexcept {
  const OrtApi* api = base->GetApi(1);
  if (api == nullptr) return nullptr;
  try {
    const std::string message = std::string("the Bitpress operators need ONNX Runtime 1.") +
                                std::to_string(ORT_API_VERSION) + " or later, this is " +
                                base->GetVersionString();
    return api->CreateStatus(ORT_FAIL, message.c_str());
  } catch (...) {
    return api->CreateStatus(ORT_FAIL, "this ONNX Runtime is too old for the Bitpress operators");
  }
}

OrtStatus* Register(OrtSessionOptions* options, const OrtApiBase* base) noexcept {
  const OrtApi* api = base->GetApi(ORT_API_VERSION);
  if (api == nullptr) return TooOld(base);
  Ort::InitApi(api);
  try {
    Ort::UnownedSessionOptions session_options(options);
    for (const Ort::CustomOpDomain& domain : Domains()) session_options.Add(domain);
    return nullptr;
  } catch (const Ort::Exception& error) {
    return api->CreateStatus(error.GetOrtErrorCode(), error.what());
  } catch (const std::exception& error) {
    return api->CreateStatus(ORT_FAIL, error.what());
  } catch (...) {
    return api->CreateStatus(ORT_FAIL, "the Bitpress operators cannot be registered");
  }
}

}  // namespace

extern "C" {

// The function that SessionOptions::RegisterCustomOpsLibrary calls.
ORT_EXPORT BITPRESS_API OrtStatus* ORT_API_CALL RegisterCustomOps(OrtSessionOptions* options,
                                                                  const OrtApiBase* base) {
  return Register(options, base);
}

// The same function under the name of Quark's library. Programs that link several operator
// libraries call it by this name.
ORT_EXPORT BITPRESS_API OrtStatus* ORT_API_CALL RegisterCustomOpsAltName(OrtSessionOptions* options,
                                                                         const OrtApiBase* base) {
  return Register(options, base);
}

}  // extern "C"
