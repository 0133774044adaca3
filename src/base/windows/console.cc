#include "base/console.h"

#include <fcntl.h>
#include <io.h>
#include <windows.h>

#include <shellapi.h>

#include <cstdio>

#include "base/windows/wide.h"

namespace bitpress {
namespace {

// Makes a console understand the codes of terminals, if the handle is one and it can.
bool UseTerminalCodes(DWORD which) {
  const HANDLE handle = ::GetStdHandle(which);
  DWORD mode = 0;
  return ::GetConsoleMode(handle, &mode) != 0 &&
         ::SetConsoleMode(handle, mode | ENABLE_VIRTUAL_TERMINAL_PROCESSING) != 0;
}

}  // namespace

void PrepareConsole() {
  ::SetConsoleOutputCP(CP_UTF8);
  ::_setmode(::_fileno(stdout), _O_BINARY);
  ::_setmode(::_fileno(stderr), _O_BINARY);
  UseTerminalCodes(STD_OUTPUT_HANDLE);
}

bool IsErrorTerminal() { return UseTerminalCodes(STD_ERROR_HANDLE); }

// The words that main gets are in the user's code page.
std::vector<std::string> CommandLineWords(int, char**) {
  int count = 0;
  wchar_t** const words = ::CommandLineToArgvW(::GetCommandLineW(), &count);
  std::vector<std::string> narrow;
  for (int i = 0; words != nullptr && i < count; ++i) narrow.push_back(windows::Narrow(words[i]));
  ::LocalFree(words);
  return narrow;
}

}  // namespace bitpress
