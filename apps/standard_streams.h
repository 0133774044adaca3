// Standard input and output in the place of files: `bitpress quantize - -o - < model.onnx >
// q.onnx`. An argument "-" behind -o is the file that the command writes, any other one a file that
// it reads. Both lie in a temporary folder while the command runs.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/scratch_folder.h"

namespace bitpress::apps {

class StandardStreams {
 public:
  // Reads standard input if an argument asks for it. Texts go to standard error from then on if the
  // command's file goes to standard output (PrintTo). Throws Error(kInvalidArgument) if two
  // arguments want the same stream, Error(kIo) if it cannot be read.
  StandardStreams(int argc, char** argv);

  // The arguments with files in the place of the streams. They live as long as this object.
  int argc() const { return static_cast<int>(pointers_.size()) - 1; }
  char** argv() { return pointers_.data(); }

  // Writes the command's file to standard output, if that was asked for. Throws Error(kIo), and
  // Error(kUnsupported) if the model has further files.
  void Finish() const;

 private:
  const std::filesystem::path& Folder();

  std::vector<std::string> arguments_;
  std::vector<char*> pointers_;  // ends with a null pointer, as argv
  std::unique_ptr<ScratchFolder> folder_;
  std::filesystem::path output_;
};

}  // namespace bitpress::apps
