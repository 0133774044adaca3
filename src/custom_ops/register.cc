// The two entry points of libbitpress_ops.so.
#include <onnxruntime_cxx_api.h>

#include <memory>
#include <string>
#include <vector>

#include "custom_ops/operator.h"

namespace {

using bitpress::custom_ops::Operator;

Ort::CustomOpDomain MakeDomain(const char* name,
                               const std::vector<std::unique_ptr<Operator>>& operators) {
  Ort::CustomOpDomain domain(name);
  for (const auto& op : operators) domain.Add(op.get());
  return domain;
}

OrtStatus* Register(OrtSessionOptions* options, const OrtApiBase* base) {
  const OrtApi* api = base->GetApi(ORT_API_VERSION);
  if (api == nullptr) {
    const OrtApi* old = base->GetApi(1);
    const std::string message = std::string("the Bitpress operators need ONNX Runtime 1.") +
                                std::to_string(ORT_API_VERSION) + " or later, this is " +
                                base->GetVersionString();
    return old == nullptr ? nullptr : old->CreateStatus(ORT_FAIL, message.c_str());
  }
  Ort::InitApi(api);
  try {
    // The domains live as long as the process: sessions keep pointers into them.
    static const std::vector<Ort::CustomOpDomain>& domains = *[] {
      auto* made = new std::vector<Ort::CustomOpDomain>();
      made->push_back(MakeDomain("bitpress", bitpress::custom_ops::BitpressOperators()));
      made->push_back(MakeDomain("com.amd.quark", bitpress::custom_ops::QuarkOperators()));
      made->push_back(MakeDomain("com.vai.quantize", bitpress::custom_ops::OldQuarkOperators()));
      return made;
    }();
    Ort::UnownedSessionOptions session_options(options);
    for (const Ort::CustomOpDomain& domain : domains) session_options.Add(domain);
    return nullptr;
  } catch (const Ort::Exception& error) {
    return Ort::Status(error).release();
  } catch (const std::exception& error) {
    return Ort::Status(error.what(), ORT_FAIL).release();
  }
}

}  // namespace

extern "C" {

// What SessionOptions::RegisterCustomOpsLibrary calls.
__attribute__((visibility("default"))) OrtStatus* ORT_API_CALL
RegisterCustomOps(OrtSessionOptions* options, const OrtApiBase* base) {
  return Register(options, base);
}

// The same under the name Quark's library offers to programs that link several operator libraries.
__attribute__((visibility("default"))) OrtStatus* ORT_API_CALL
RegisterCustomOpsAltName(OrtSessionOptions* options, const OrtApiBase* base) {
  return Register(options, base);
}

}  // extern "C"
