// The command line as a function, which the program and the tests' library (tests/cli/) call.
#pragma once

namespace bitpress::apps {

// Runs one command line, `argv[0]` being the program's name, and writes to the process's standard
// output and standard error. Returns the exit code: 0: success; 1: failure, with one line on
// standard error that says why; 2: wrong command line.
int RunCli(int argc, char** argv);

}  // namespace bitpress::apps
