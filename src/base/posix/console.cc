#include "base/console.h"

#include <unistd.h>

namespace bitpress {

void PrepareConsole() {}

bool IsErrorTerminal() { return ::isatty(STDERR_FILENO) == 1; }

std::vector<std::string> CommandLineWords(int argc, char** argv) { return {argv, argv + argc}; }

}  // namespace bitpress
