// Runs the pass add-portable-functions on model files, in place, for the tests in Python.
#include <cstdio>

#include "base/error.h"
#include "emit/portable_functions.h"
#include "graph/model.h"

int main(int argc, char** argv) {
  try {
    for (int i = 1; i < argc; ++i) {
      bitpress::graph::Model model = bitpress::graph::Model::Load(argv[i]);
      const auto result = bitpress::emit::AddPortableFunctions(model);
      for (const auto& omission : result.omissions) {
        std::printf("%s: %s: %s\n", argv[i], omission.op_type.c_str(), omission.reason.c_str());
      }
      model.Save(argv[i]);
    }
  } catch (const bitpress::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
