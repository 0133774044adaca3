// Checks of the contracts between functions: a function whose header says REQUIRES begins with the
// condition, so that a caller's mistake stops the program there and gives no wrong numbers. For
// example:
//
//   BITPRESS_DCHECK(x.size() == y.size());
//
// Debug and sanitizer builds check, and abort if the condition is false. Release builds (NDEBUG)
// compile the condition and never evaluate it. Wrong input of a user must not reach a check: it is
// refused before, by an Error (base/error.h).
#pragma once

namespace bitpress::internal {

// Prints the file, the line and the text of the condition to standard error, and aborts.
[[noreturn]] void CheckFailed(const char* file, int line, const char* condition);

}  // namespace bitpress::internal

// The macros are variadic because a condition may have commas outside of parentheses: between the
// arguments of a template.
#ifdef NDEBUG
#define BITPRESS_DCHECK(...) static_cast<void>(false && static_cast<bool>(__VA_ARGS__))
#else
#define BITPRESS_DCHECK(...)      \
  (static_cast<bool>(__VA_ARGS__) \
       ? static_cast<void>(0)     \
       : ::bitpress::internal::CheckFailed(__FILE__, __LINE__, #__VA_ARGS__))
#endif
