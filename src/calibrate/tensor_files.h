// Tensors in temporary files, each under a name and a number. They are gone with the object.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <string>

#include "base/scratch_folder.h"
#include "base/tensor.h"

namespace bitpress::calibrate {

class TensorFiles {
 public:
  // Writes a tensor. Throws Error(kIo) if there is no room for it.
  void Put(const std::string& name, size_t number, const Tensor& tensor);
  // Reads a tensor. Throws Error(kIo). REQUIRES: it was put there.
  Tensor Get(const std::string& name, size_t number) const;
  // Removes all tensors of a name.
  void Remove(const std::string& name);

 private:
  struct Name {
    size_t index = 0;  // stands for the name in the names of files
    std::map<size_t, std::filesystem::path> files = {};
  };
  ScratchFolder folder_;
  std::map<std::string, Name> names_;
};

}  // namespace bitpress::calibrate
