// A program in a process of its own. Use it for work that may crash, such as a library that aborts:
// a crash ends the child only, and is a result here. For example:
//
//   const ChildEnd end = RunProgram("/opt/tool", {"check", "model.onnx"}, {}, "log.txt");
//   if (end.kind == ChildEnd::Kind::kCrash) Fail(ErrorCode::kRuntime, "it crashed: {}", end.how);
//
// The process is not forked but spawned, because a fork copies locks that other threads hold. Any
// thread may call these functions.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace bitpress {

// The end of a process.
struct ChildEnd {
  enum class Kind {
    kExit,       // by itself, with an exit code
    kCrash,      // it did what the system ends programs for, or gave up
    kInterrupt,  // the user asked it to end
    kKill,       // nobody asked it; Linux does so when memory is short
  };
  Kind kind = Kind::kExit;
  int exit_code = 0;
  std::string how;  // "signal 6 (Aborted)", "exit code 3"
};

// Runs a program and waits for its end. If this process ends before, so does the program on
// Windows, and elsewhere one that calls EndWithParent. `environment` is added to that of this
// process. The program reads nothing from its standard input. Its standard output and standard
// error go to the file `log`. Throws Error(kRuntime) if it cannot be started, Error(kIo) if `log`
// cannot be written.
ChildEnd RunProgram(const std::filesystem::path& program, const std::vector<std::string>& arguments,
                    const std::vector<std::pair<std::string, std::string>>& environment,
                    const std::filesystem::path& log);

// Returns the number of this process, which its children need to know.
int64_t ProcessNumber();

// Makes this process end together with the process `parent` that started it, even if that is
// killed. If that has ended already, this process does now. Nobody is asked about a crash.
void EndWithParent(int64_t parent);

}  // namespace bitpress
