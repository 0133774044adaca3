// The program `bitpress`.
#include <string>
#include <vector>

#include "base/available_memory.h"
#include "base/console.h"
#include "run_cli.h"

int main(int argc, char** argv) {
  bitpress::KeepLargeBuffers();
  bitpress::PrepareConsole();
  std::vector<std::string> words = bitpress::CommandLineWords(argc, argv);
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  return bitpress::apps::RunCli(static_cast<int>(pointers.size()), pointers.data());
}
