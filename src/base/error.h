// How rooms throw the one exception type of Bitpress (bitpress/error.h): for wrong input and for
// failures of the system. Callers put context (file, node, tensor) in front of it on the way up,
// with `WithContext`.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

#include "bitpress/error.h"

namespace bitpress {

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
