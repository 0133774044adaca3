// A file or folder of quantized weights that another tool wrote: GGUF of llama.cpp, or safetensors
// as GPTQ, AWQ and compressed-tensors lay them out. For example:
//
//   const std::unique_ptr<WeightsFile> file = OpenWeightsFile("model.Q4_K_M.gguf");
//   const FileWeight weight = file->Read(file->tensors().at(place));
//
// Files are untrusted: every size is checked before it is used.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/mapped_memory.h"
#include "interop/file_weight.h"
#include "interop/tensor_names.h"

namespace bitpress::interop {

class WeightsFile {
 public:
  virtual ~WeightsFile() = default;

  // Returns the names of the weights by their places.
  const std::map<TensorPlace, std::string>& tensors() const { return tensors_; }
  // Returns the tensors whose names tell no place.
  const std::vector<std::string>& others() const { return others_; }
  // Reads one of `tensors`. Throws Error(kUnsupported) naming it and its type if that is not read
  // here, Error(kInvalidArgument) if its bytes are none of that type.
  virtual FileWeight Read(const std::string& name) const = 0;
  // Returns in how many heads the rows of queries, or else those of keys, lie pair by pair: the
  // numbers that are rotated together are neighbours there. 0: they may lie in no such order.
  virtual int64_t NumPairedHeads(const TensorPlace&) const { return 0; }

 protected:
  std::map<TensorPlace, std::string> tensors_;
  std::vector<std::string> others_;
};

// Opens a .gguf file, a .safetensors file, or a folder with config.json and *.safetensors. Throws
// Error naming the path and what is wrong.
std::unique_ptr<WeightsFile> OpenWeightsFile(const std::filesystem::path& path);

// The kinds of it, for that function.
std::unique_ptr<WeightsFile> OpenGguf(std::shared_ptr<const MappedFile> file);
std::unique_ptr<WeightsFile> OpenSafetensors(const std::filesystem::path& path);
// Maps a file. Throws Error(kIo) naming it.
std::shared_ptr<const MappedFile> Map(const std::filesystem::path& path);

}  // namespace bitpress::interop
