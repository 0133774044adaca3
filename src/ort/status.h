// Turns exceptions into the OrtStatus that ONNX Runtime's C interface has for errors. Every
// callback that ONNX Runtime gets from us runs inside AsStatus.
#pragma once

#include <onnxruntime_cxx_api.h>

#include <exception>
#include <new>
#include <string>

#include "base/error.h"

namespace bitpress::ort {

// Makes a status with the message "`where`: `what`". The message is `what` alone if `where` is
// empty or there is no memory for the text. The caller owns the status.
inline OrtStatusPtr MakeStatus(OrtErrorCode code, const std::string& where,
                               const char* what) noexcept {
  const OrtApi& api = Ort::GetApi();
  try {
    const std::string message = where.empty() ? what : where + ": " + what;
    return api.CreateStatus(code, message.c_str());
  } catch (...) {
    return api.CreateStatus(code, what);
  }
}

// Calls `function()`, which returns a status or null, and returns its result. An exception becomes
// a status with `where` in front of the message. No exception leaves this function.
template <class Function>
OrtStatusPtr AsStatus(const std::string& where, Function&& function) noexcept {
  try {
    return function();
  } catch (const Ort::Exception& error) {
    return MakeStatus(error.GetOrtErrorCode(), where, error.what());
  } catch (const Error& error) {
    const bool is_unsupported = error.code() == ErrorCode::kUnsupported;
    return MakeStatus(is_unsupported ? ORT_NOT_IMPLEMENTED : ORT_INVALID_ARGUMENT, where,
                      error.what());
  } catch (const std::bad_alloc&) {
    return MakeStatus(ORT_FAIL, where, "there is not enough memory");
  } catch (const std::exception& error) {
    return MakeStatus(ORT_FAIL, where, error.what());
  } catch (...) {
    return MakeStatus(ORT_FAIL, where, "unknown failure");
  }
}

}  // namespace bitpress::ort
