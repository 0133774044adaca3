#include "base/child_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <system_error>

#include "base/error.h"
#include "base/paths.h"
#include "base/system_error.h"
#include "base/system_files.h"

extern char** environ;  // which no header of macOS declares

namespace bitpress {
namespace {

// The files and signals of the child, released at the end of a scope.
struct SpawnSettings {
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;

  explicit SpawnSettings(int log) {
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&files, log, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&files, log, STDERR_FILENO);
    // A caller may have blocked or ignored signals, as Python does. A child that inherits that
    // could not be interrupted.
    posix_spawnattr_init(&attributes);
    sigset_t none;
    sigemptyset(&none);
    posix_spawnattr_setsigmask(&attributes, &none);
    sigset_t defaults;
    sigemptyset(&defaults);
    for (const int signal : {SIGINT, SIGTERM, SIGPIPE, SIGABRT}) sigaddset(&defaults, signal);
    posix_spawnattr_setsigdefault(&attributes, &defaults);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  }
  ~SpawnSettings() {
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attributes);
  }
  SpawnSettings(const SpawnSettings&) = delete;
  SpawnSettings& operator=(const SpawnSettings&) = delete;
};

// Returns this process's environment with some variables set, as "NAME=value".
std::vector<std::string> EnvironmentWith(
    const std::vector<std::pair<std::string, std::string>>& set) {
  std::vector<std::string> entries;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const bool is_set = std::ranges::any_of(
        set, [&](const auto& variable) { return text.starts_with(variable.first + "="); });
    if (!is_set) entries.emplace_back(text);
  }
  for (const auto& [name, value] : set) entries.push_back(name + "=" + value);
  return entries;
}

// Returns pointers as system calls want them. `texts` must outlive them.
std::vector<char*> Pointers(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

ChildEnd EndOf(int status) {
  if (!WIFSIGNALED(status)) {
    const int code = WEXITSTATUS(status);
    return {ChildEnd::Kind::kExit, code, fmt::format("exit code {}", code)};
  }
  const int signal = WTERMSIG(status);
  const char* const name = ::strsignal(signal);
  ChildEnd end{ChildEnd::Kind::kCrash, 0,
               fmt::format("signal {} ({})", signal, name == nullptr ? "unknown" : name)};
  if (signal == SIGKILL) end.kind = ChildEnd::Kind::kKill;
  if (signal == SIGINT || signal == SIGTERM || signal == SIGHUP) {
    end.kind = ChildEnd::Kind::kInterrupt;
  }
  return end;
}

}  // namespace

ChildEnd RunProgram(const std::filesystem::path& program, const std::vector<std::string>& arguments,
                    const std::vector<std::pair<std::string, std::string>>& environment,
                    const std::filesystem::path& log) {
  std::error_code error;
  SystemFile log_file(log, SystemFile::Use::kReplace, error);
  if (error) Fail(ErrorCode::kIo, "cannot write '{}': {}", PathText(log), ErrorText(error));
  std::vector<std::string> words{program.native()};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<std::string> variables = EnvironmentWith(environment);
  pid_t child = 0;
  int code = 0;
  {
    const SpawnSettings settings(static_cast<int>(log_file.handle()));
    code = ::posix_spawn(&child, program.c_str(), &settings.files, &settings.attributes,
                         Pointers(words).data(), Pointers(variables).data());
  }
  log_file = {};
  if (code != 0) {
    Fail(ErrorCode::kRuntime, "cannot start '{}': {}", PathText(program),
         ErrorText({code, std::generic_category()}));
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {
    if (errno == EINTR) continue;
    Fail(ErrorCode::kRuntime, "cannot wait for '{}': {}", PathText(program),
         ErrorText(LastError()));
  }
  return EndOf(status);
}

int64_t ProcessNumber() { return ::getpid(); }

}  // namespace bitpress
