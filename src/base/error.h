// The one exception type of Bitpress. A room's public functions throw it for wrong input and for
// failures of the system. The message says what is wrong, where, what was expected and what to do.
// Callers put context (file, node, tensor) in front of it on the way up, with `WithContext`.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace bitpress {

enum class ErrorCode {
  kInvalidArgument,  // the caller asked for something that cannot be (option, name, shape)
  kInvalidModel,     // the model file is damaged or breaks the ONNX rules
  kUnsupported,      // the input is valid, and Bitpress cannot do it
  kIo,               // a failure of a file or a disk
  kRuntime,          // a failure of ONNX Runtime or of the system
};

class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ErrorCode code() const { return code_; }

 private:
  ErrorCode code_;
};

// Throws Error(code) with a formatted message.
template <typename... Args>
[[noreturn]] void Fail(ErrorCode code, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(code, fmt::format(format, std::forward<Args>(args)...));
}

// Calls `function()` and returns its result. An Error leaves with "`context`: " in front of its
// message.
template <typename Function>
decltype(auto) WithContext(std::string_view context, Function&& function) {
  try {
    return std::forward<Function>(function)();
  } catch (const Error& error) {
    throw Error(error.code(), fmt::format("{}: {}", context, error.what()));
  }
}

// Returns the word for a code in messages and JSON: "invalid_argument", "io", ...
std::string_view ErrorCodeName(ErrorCode code);

}  // namespace bitpress
