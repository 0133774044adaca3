// The terminal of a program, and its command line.
#pragma once

#include <string>
#include <vector>

namespace bitpress {

// Makes the program's output what it is on Linux: UTF-8, lines that end with a line feed, and the
// codes of terminals. Without effect elsewhere than on Windows.
void PrepareConsole();

// Returns whether standard error is a terminal that understands such codes.
bool IsErrorTerminal();

// Returns the words of the command line, as UTF-8, the program's name first. `argv` is what main
// got.
std::vector<std::string> CommandLineWords(int argc, char** argv);

}  // namespace bitpress
