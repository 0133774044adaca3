#include "base/environment.h"

#include <windows.h>

#include "base/windows/wide.h"

namespace bitpress {

std::string EnvironmentVariable(const char* name) {
  const std::wstring wide = windows::Wide(name);
  std::wstring value(::GetEnvironmentVariableW(wide.c_str(), nullptr, 0), L'\0');
  value.resize(
      ::GetEnvironmentVariableW(wide.c_str(), value.data(), static_cast<DWORD>(value.size())));
  return windows::Narrow(value);
}

struct VariableForNow::State {
  std::wstring name;
};

VariableForNow::VariableForNow(const char* name, const char* value) {
  const std::wstring wide = windows::Wide(name);
  if (::GetEnvironmentVariableW(wide.c_str(), nullptr, 0) != 0) return;
  ::SetEnvironmentVariableW(wide.c_str(), windows::Wide(value).c_str());
  state_ = std::make_unique<State>(State{wide});
}

VariableForNow::~VariableForNow() {
  if (state_) ::SetEnvironmentVariableW(state_->name.c_str(), nullptr);
}

}  // namespace bitpress
