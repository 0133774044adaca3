// The translation of exceptions of protobuf and the ONNX library into ours. None of them leaves
// this room.
#pragma once

#include <exception>
#include <new>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/messages.h"

namespace bitpress::graph {

// Calls `function()` and returns its result. Its exceptions leave as an Error(code) that begins
// with `what`. An Error leaves unchanged.
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
