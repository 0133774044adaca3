// Fuzzes the readers of the smaller files that users give: arrays, tensors and plans. The first
// byte chooses the reader. A reader may only succeed or throw Error.
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>

#include "base/error.h"
#include "data/array_file.h"
#include "data/npy.h"
#include "fuzz/temporary_folder.h"
#include "graph/model.h"
#include "plan/quant_plan.h"

namespace bitpress {
namespace {

std::filesystem::path FileOf(std::string_view bytes) {
  static const TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "input";
  std::ofstream(path, std::ios::binary)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  return path;
}

void ReadNpy(const std::filesystem::path& path) {
  const data::NpyFile file(path);
  file.Read();
  if (!file.header().dims.empty() && file.header().dims[0] > 0) file.ReadRows(0, 1);
}

void ReadNpz(const std::filesystem::path& path) {
  const data::NpzFile file(path);
  for (size_t i = 0; i < file.names().size(); ++i) {
    file.Header(i);
    file.Read(i);
  }
}

// Reads a plan, and checks that writing and reading it again gives the same plan.
void ReadPlan(std::string_view text) {
  const plan::QuantPlan plan = plan::FromJson(text);
  if (plan::FromJson(plan::ToJson(plan)) != plan) std::abort();
}

void Run(std::string_view bytes) {
  if (bytes.empty()) return;
  const std::string_view rest = bytes.substr(1);
  switch (bytes[0]) {
    case 'y':
      return ReadNpy(FileOf(rest));
    case 'z':
      return ReadNpz(FileOf(rest));
    case 'p':
      graph::LoadTensorProto(FileOf(rest));
      return;
    case 'j':
      return ReadPlan(rest);
  }
}

}  // namespace
}  // namespace bitpress

extern "C" __attribute__((visibility("default"))) int LLVMFuzzerTestOneInput(const uint8_t* data,
                                                                             size_t size) {
  try {
    bitpress::Run({reinterpret_cast<const char*>(data), size});
  } catch (const bitpress::Error&) {
  }
  return 0;
}
