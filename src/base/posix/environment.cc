#include "base/environment.h"

#include <cstdlib>
#include <list>
#include <mutex>
#include <vector>

extern char** environ;  // which no header of macOS declares

namespace bitpress {

std::string EnvironmentVariable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

namespace {

// An environment that stood in for the process's own. It stays, because other threads may still be
// reading it.
struct Environment {
  std::string entry;
  std::vector<char*> entries;
};

Environment& NewEnvironment() {
  static std::mutex mutex;
  static auto& all = *new std::list<Environment>;
  const std::lock_guard lock(mutex);
  return all.emplace_back();
}

}  // namespace

// setenv would change the host's own environment, and the memory in which other threads may be
// reading it. Here nothing of it changes but the pointer to it, for a moment.
struct VariableForNow::State {
  char** given;
  char** changed;
};

VariableForNow::VariableForNow(const char* name, const char* value) {
  if (std::getenv(name) != nullptr) return;
  Environment& now = NewEnvironment();
  now.entry = std::string(name) + "=" + value;
  for (char** at = environ; at != nullptr && *at != nullptr; ++at) now.entries.push_back(*at);
  now.entries.push_back(now.entry.data());
  now.entries.push_back(nullptr);
  state_ = std::make_unique<State>(State{environ, now.entries.data()});
  environ = state_->changed;
}

// If another thread set a variable meanwhile, the environment is its own now.
VariableForNow::~VariableForNow() {
  if (state_ && environ == state_->changed) environ = state_->given;
}

}  // namespace bitpress
