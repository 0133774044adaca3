// The one exception type of Bitpress. Thrown at a room's door; the message says what, where, what
// was expected and what to do. Context (file, node, tensor) is put in front on the way up with
// `Rethrow`.
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
  kUnsupported,      // valid, but not done here
  kIo,               // files and disks
  kRuntime,          // ONNX Runtime or the system failed
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

// Calls `function()`; an Error leaves with "`context`: " in front of its message.
template <typename Function>
decltype(auto) WithContext(std::string_view context, Function&& function) {
  try {
    return std::forward<Function>(function)();
  } catch (const Error& error) {
    throw Error(error.code(), fmt::format("{}: {}", context, error.what()));
  }
}

// Word for a code as it stands in messages and JSON: "invalid_argument", "io", ...
std::string_view ErrorCodeName(ErrorCode code);

}  // namespace bitpress
