// The command line for the Python tests, which load it as a library: most of them are about what a
// command does, and starting a process for each would cost more than the command.
#include "run_cli.h"

extern "C" __attribute__((visibility("default"))) int BitpressRunCli(int argc, char** argv) {
  return bitpress::apps::RunCli(argc, argv);
}
