// A program in a process of its own. Use it for work that may crash, such as a library that aborts:
// a crash ends the child only, and is a result here. For example:
//
//   const ChildEnd end = RunProgram("/opt/tool", {"check", "model.onnx"}, {}, "log.txt");
//   if (end.signal != 0) Fail(ErrorCode::kRuntime, "the tool crashed: {}", end.Describe());
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
  int exit_code = 0;
  int signal = 0;  // the signal that ended it; 0: it ended by itself

  // Returns "signal 6 (Aborted)" or "exit code 3".
  std::string Describe() const;
};

// Runs a program and waits for its end. `environment` is added to that of this process. The program
// reads nothing from its standard input. Its standard output and standard error go to the file
// `log`. Throws Error(kRuntime) if it cannot be started, Error(kIo) if `log` cannot be written.
ChildEnd RunProgram(const std::filesystem::path& program, const std::vector<std::string>& arguments,
                    const std::vector<std::pair<std::string, std::string>>& environment,
                    const std::filesystem::path& log);

// Returns the number of this process, which its children need to know.
int64_t ProcessNumber();

// Makes this process end together with the process `parent` that started it, even if that is
// killed. If that has ended already, this process does now.
void EndWithParent(int64_t parent);

}  // namespace bitpress
