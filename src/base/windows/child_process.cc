#include "base/child_process.h"

#include <fmt/format.h>
#include <windows.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string_view>

#include "base/error.h"
#include "base/paths.h"
#include "base/system_error.h"
#include "base/system_files.h"
#include "base/windows/wide.h"

namespace bitpress {
namespace {

// A handle that is closed at the end of a scope.
struct Handle {
  HANDLE value = nullptr;

  explicit Handle(HANDLE given) : value(given) {}
  ~Handle() {
    if (value != nullptr) ::CloseHandle(value);
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
};

// Returns the word as programs of Windows read it back from their command line: in quotes, in which
// backslashes count double in front of a quote, unless it is plain. (cmd.exe has rules of its own.)
std::wstring Quoted(std::string_view word) {
  if (!word.empty() && word.find_first_of(" \t\"") == std::string_view::npos) {
    return windows::Wide(word);
  }
  std::wstring quoted = L"\"";
  size_t num_backslashes = 0;
  for (const wchar_t c : windows::Wide(word)) {
    if (c == L'"') quoted.append(num_backslashes + 1, L'\\');
    num_backslashes = c == L'\\' ? num_backslashes + 1 : 0;
    quoted += c;
  }
  quoted.append(num_backslashes, L'\\');
  return quoted + L'"';
}

// Returns this process's environment with some variables set: "NAME=value" and a zero, each.
std::wstring EnvironmentWith(const std::vector<std::pair<std::string, std::string>>& set) {
  std::vector<std::wstring> entries;
  wchar_t* const own = ::GetEnvironmentStringsW();
  for (const wchar_t* entry = own; entry != nullptr && *entry != 0;) {
    const std::wstring text = entry;
    entry += text.size() + 1;
    const bool is_set = std::ranges::any_of(set, [&](const auto& variable) {
      const std::wstring name = windows::Wide(variable.first);
      return text.size() > name.size() && text[name.size()] == L'=' &&
             ::_wcsnicmp(text.c_str(), name.c_str(), name.size()) == 0;
    });
    if (!is_set) entries.push_back(text);
  }
  ::FreeEnvironmentStringsW(own);
  for (const auto& [name, value] : set) entries.push_back(windows::Wide(name + "=" + value));
  std::wstring block;
  for (const std::wstring& entry : entries) block += entry + L'\0';
  return block + L'\0';
}

// The handles that the child inherits, and no others that some thread happens to have open.
class Inherited {
 public:
  explicit Inherited(std::array<HANDLE, 2> handles) : handles_(handles) {
    for (const HANDLE handle : handles_) {
      ::SetHandleInformation(handle, HANDLE_FLAG_INHERIT, HANDLE_FLAG_INHERIT);
    }
    SIZE_T size = 0;
    ::InitializeProcThreadAttributeList(nullptr, 1, 0, &size);
    memory_.resize(size);
    ::InitializeProcThreadAttributeList(list(), 1, 0, &size);
    ::UpdateProcThreadAttribute(list(), 0, PROC_THREAD_ATTRIBUTE_HANDLE_LIST, handles_.data(),
                                sizeof(handles_), nullptr, nullptr);
  }
  ~Inherited() { ::DeleteProcThreadAttributeList(list()); }
  Inherited(const Inherited&) = delete;
  Inherited& operator=(const Inherited&) = delete;

  LPPROC_THREAD_ATTRIBUTE_LIST list() {
    return reinterpret_cast<LPPROC_THREAD_ATTRIBUTE_LIST>(memory_.data());
  }

 private:
  std::array<HANDLE, 2> handles_;
  std::vector<char> memory_;
};

// Returns a job whose processes end when its last handle is closed, that is with this process.
HANDLE JobThatEndsWithUs() {
  const HANDLE job = ::CreateJobObjectW(nullptr, nullptr);
  JOBOBJECT_EXTENDED_LIMIT_INFORMATION limits{};
  limits.BasicLimitInformation.LimitFlags = JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE;
  ::SetInformationJobObject(job, JobObjectExtendedLimitInformation, &limits, sizeof(limits));
  return job;
}

// Exceptions that nobody handled are exit codes of the form 0xCxxxxxxx, and so are the ways in
// which the C runtime gives up, but for the oldest: abort() ends with 3.
ChildEnd EndOf(DWORD code) {
  constexpr DWORD kControlC = 0xC000013A, kErrors = 0xC0000000, kAborted = 3;
  struct Name {
    DWORD code;
    const char* text;
  };
  constexpr std::array kNames{
      Name{0xC0000005, "access violation"},       Name{0xC000001D, "illegal instruction"},
      Name{0xC0000094, "division by zero"},       Name{0xC00000FD, "stack overflow"},
      Name{0xC0000409, "aborted or overrun"},     Name{0xC0000374, "damaged heap"},
      Name{0xC0000135, "a library is missing"},   Name{0xC0000139, "an entry point is missing"},
      Name{0xC0000017, "the memory is used up"},  Name{kControlC, "interrupted"},
      Name{0xC0000006, "error of a mapped file"},
  };
  if (code == kAborted) return {ChildEnd::Kind::kCrash, 3, "exit code 3 (aborted)"};
  if (code < kErrors) {
    return {ChildEnd::Kind::kExit, static_cast<int>(code), fmt::format("exit code {}", code)};
  }
  const auto* const known =
      std::ranges::find_if(kNames, [&](const Name& name) { return name.code == code; });
  return {
      code == kControlC ? ChildEnd::Kind::kInterrupt : ChildEnd::Kind::kCrash,
      static_cast<int>(code),
      fmt::format("exception {:#x} ({})", code, known == kNames.end() ? "unknown" : known->text)};
}

}  // namespace

ChildEnd RunProgram(const std::filesystem::path& program, const std::vector<std::string>& arguments,
                    const std::vector<std::pair<std::string, std::string>>& environment,
                    const std::filesystem::path& log) {
  std::error_code error;
  const SystemFile log_file(log, SystemFile::Use::kReplace, error);
  if (error) Fail(ErrorCode::kIo, "cannot write '{}': {}", PathText(log), ErrorText(error));
  const auto fail = [&](const char* what) {
    Fail(ErrorCode::kRuntime, "cannot {} '{}': {}", what, PathText(program),
         ErrorText(LastError()));
  };
  const SystemFile nothing(L"NUL", SystemFile::Use::kRead, error);
  std::wstring command = Quoted(PathText(program));
  for (const std::string& argument : arguments) command += L' ' + Quoted(argument);
  std::wstring variables = EnvironmentWith(environment);
  const auto output = reinterpret_cast<HANDLE>(log_file.handle());
  const auto input = reinterpret_cast<HANDLE>(nothing.handle());
  Inherited inherited({input, output});
  STARTUPINFOEXW start{};
  start.StartupInfo.cb = sizeof(start);
  start.StartupInfo.dwFlags = STARTF_USESTDHANDLES;
  start.StartupInfo.hStdInput = input;
  start.StartupInfo.hStdOutput = start.StartupInfo.hStdError = output;
  start.lpAttributeList = inherited.list();
  const Handle job(JobThatEndsWithUs());
  PROCESS_INFORMATION child{};
  // It does nothing before it is in the job.
  constexpr DWORD kFlags =
      CREATE_SUSPENDED | CREATE_UNICODE_ENVIRONMENT | EXTENDED_STARTUPINFO_PRESENT;
  if (::CreateProcessW(program.c_str(), command.data(), nullptr, nullptr, TRUE, kFlags,
                       variables.data(), nullptr, &start.StartupInfo, &child) == 0) {
    fail("start");
  }
  const Handle process(child.hProcess), thread(child.hThread);
  ::AssignProcessToJobObject(job.value, process.value);
  ::ResumeThread(thread.value);
  DWORD code = 0;
  if (::WaitForSingleObject(process.value, INFINITE) != WAIT_OBJECT_0 ||
      ::GetExitCodeProcess(process.value, &code) == 0) {
    fail("wait for");
  }
  return EndOf(code);
}

int64_t ProcessNumber() { return ::GetCurrentProcessId(); }

// The parent's job ends this process. A crash would otherwise wait for a user who closes a window.
void EndWithParent(int64_t) {
  ::SetErrorMode(SEM_FAILCRITICALERRORS | SEM_NOGPFAULTERRORBOX | SEM_NOOPENFILEERRORBOX);
  ::_set_abort_behavior(0, _WRITE_ABORT_MSG | _CALL_REPORTFAULT);
}

}  // namespace bitpress
