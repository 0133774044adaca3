// What a folder of samples holds: the files of each sample in order, and their classes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/source.h"

namespace bitpress::data {

enum class FileKind { kPhoto, kNpy, kNpz, kTensorProto };

struct SampleFiles {
  std::string name;                          // for messages and results: the path within the folder
  std::vector<std::filesystem::path> files;  // one for each input, or one that holds all inputs
  std::optional<int64_t> label = std::nullopt;
};

// As BatchBuilder takes them. The label must outlive the result.
inline std::span<const int64_t> LabelsOf(const std::optional<int64_t>& label) {
  return label ? std::span(&*label, 1) : std::span<const int64_t>();
}

struct FolderListing {
  FileKind kind = FileKind::kPhoto;
  std::vector<SampleFiles> samples;  // not empty; either all have labels or none
};

// Lists the folder as described in source.h, without opening the samples' files; `limit` is not
// applied. Throws Error naming the folder, the file or the CSV line.
FolderListing ListFolder(const SourceOptions& options);

// The sources behind OpenSource. REQUIRES: `listing` is of the right kind.
std::unique_ptr<Source> MakePhotoSource(FolderListing listing, const SourceOptions& options);
std::unique_ptr<Source> MakeArraySource(FolderListing listing, const SourceOptions& options);

}  // namespace bitpress::data
