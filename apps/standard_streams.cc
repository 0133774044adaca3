#include "standard_streams.h"

#include <cstdio>
#include <fstream>
#include <string_view>

#include "base/error.h"
#include "base/paths.h"
#include "command.h"

namespace bitpress::apps {
namespace {

namespace fs = std::filesystem;

constexpr size_t kChunk = size_t{1} << 20;

void ReadInput(const fs::path& path) {
  std::ofstream file(path, std::ios::binary);
  std::vector<char> chunk(kChunk);
  while (const size_t count = std::fread(chunk.data(), 1, chunk.size(), stdin)) {
    file.write(chunk.data(), static_cast<std::streamsize>(count));
  }
  file.close();
  if (std::ferror(stdin) != 0 || !file) {
    Fail(ErrorCode::kIo, "cannot read standard input to '{}'", PathText(path));
  }
}

}  // namespace

StandardStreams::StandardStreams(int argc, char** argv) : arguments_(argv, argv + argc) {
  fs::path input;
  bool has_json = false;
  for (size_t i = 2; i < arguments_.size(); ++i) {
    std::string& argument = arguments_[i];
    const std::string_view before = arguments_[i - 1];
    if (argument == "--output=-") {
      output_ = Folder() / "output.onnx";
      argument = "--output=" + PathText(output_);
    }
    if (argument != "-") continue;
    if (before == "--json") {
      has_json = true;
    } else if (before == "-o" || before == "--output") {
      output_ = Folder() / "output.onnx";
      argument = PathText(output_);
    } else if (input.empty()) {
      input = Folder() / "input.onnx";
      ReadInput(input);
      argument = PathText(input);
    } else {
      Fail(ErrorCode::kInvalidArgument,
           "standard input (-) is read once: give a file for the other");
    }
  }
  if (has_json && !output_.empty()) {
    Fail(ErrorCode::kInvalidArgument,
         "--json - and -o - both write to standard output: give a file for one of them");
  }
  if (!output_.empty()) PrintTo(stderr);
  for (const fs::path& file : {input, output_}) {
    if (!file.empty()) NameStandardStream(PathText(file));
  }
  for (std::string& argument : arguments_) pointers_.push_back(argument.data());
  pointers_.push_back(nullptr);
}

const fs::path& StandardStreams::Folder() {
  if (!folder_) folder_ = std::make_unique<ScratchFolder>();
  return folder_->path();
}

void StandardStreams::Finish() const {
  PrintTo(stdout);
  std::error_code error;
  if (output_.empty() || !fs::exists(output_, error)) return;
  if (fs::exists(WithSuffix(output_, ".data"), error)) {
    Fail(ErrorCode::kUnsupported,
         "the model has a second file with its weights, which standard output cannot hold: give a "
         "file to -o");
  }
  std::ifstream file(output_, std::ios::binary);
  std::vector<char> chunk(kChunk);
  while (file.read(chunk.data(), static_cast<std::streamsize>(chunk.size())) || file.gcount() > 0) {
    Print({chunk.data(), static_cast<size_t>(file.gcount())});
  }
}

}  // namespace bitpress::apps
