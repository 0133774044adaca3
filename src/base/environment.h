// Variables of the environment. Only the command line reads them.
#pragma once

#include <memory>
#include <string>

namespace bitpress {

// Returns the value of a variable, as UTF-8; "" if it is not set.
std::string EnvironmentVariable(const char* name);

// Sets a variable for what a library does while the object lives. A value that the user has set
// stays. On Linux no memory of the environment changes, which other threads may be reading.
class VariableForNow {
 public:
  VariableForNow(const char* name, const char* value);
  ~VariableForNow();
  VariableForNow(const VariableForNow&) = delete;
  VariableForNow& operator=(const VariableForNow&) = delete;

 private:
  struct State;
  std::unique_ptr<State> state_;  // nothing if the user's value stays
};

}  // namespace bitpress
