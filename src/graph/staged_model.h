// A model that is written completely and not in its place yet. Use it to look at the file before it
// replaces another one. For example:
//
//   StagedModel staged(model, "out.onnx");
//   CheckTheFile(staged.path());  // throws: nothing is left, and an old out.onnx stays
//   staged.Commit();
//
// A model with external data lies in a folder OUTPUT.PID-0 beside its place, under the names that
// both files will have, because the model names its data.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>

#include "base/atomic_file.h"
#include "graph/model.h"

namespace bitpress::graph {

// Returns the data file of the model that lies at `path` now, if a model written there removes it:
// this room named it after the model, and no other .onnx file in the folder has its data there.
// Nothing otherwise.
std::filesystem::path ReplacedDataFile(const std::filesystem::path& path);

// Returns the sentence that tells a user so before the work, for a path that may be a link; "" if
// there is no such file.
std::string ReplacedDataNote(const std::filesystem::path& output);

class StagedModel {
 public:
  // Writes the model as Model::Save does, up to the last step. The model is not needed afterwards.
  StagedModel(const Model& model, const std::filesystem::path& path,
              ExternalData external_data = ExternalData::kIfNeeded,
              Durability durability = Durability::kOnDisk);
  // Returns num_bytes() of such a model, but writes and computes nothing.
  static uint64_t BytesOf(const Model& model, const std::filesystem::path& path,
                          ExternalData external_data = ExternalData::kIfNeeded);
  // Removes what was written, unless it was committed.
  ~StagedModel();
  StagedModel(const StagedModel&) = delete;
  StagedModel& operator=(const StagedModel&) = delete;

  // Returns the place where the model can be read until Commit, with its external data beside it.
  // A model without external data has no name in any folder until then, so that nothing is left of
  // it even if the process is killed. With external data, both files lie in a temporary folder
  // beside the output, which is all that a killed process leaves.
  const std::filesystem::path& path() const;
  uint64_t num_bytes() const;  // number of bytes written, external data included

  // Puts the model in its place and removes the data file of the old one. Throws Error(kIo).
  void Commit();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace bitpress::graph
