// Turns the exceptions of protobuf and the ONNX library into ours: none of them leaves this room.
#pragma once

#include <exception>
#include <new>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/messages.h"

namespace bitpress::graph {

// Calls `function()`; what it throws leaves as an Error(code) that begins with `what`.
template <typename Function>
decltype(auto) TranslateErrors(ErrorCode code, std::string_view what, Function&& function) {
  try {
    return std::forward<Function>(function)();
  } catch (const Error&) {
    throw;
  } catch (const std::bad_alloc&) {
    Fail(ErrorCode::kRuntime, "{}: not enough memory", what);
  } catch (const std::exception& error) {
    Fail(code, "{}: {}", what, OneLine(error.what()));
  }
}

}  // namespace bitpress::graph
