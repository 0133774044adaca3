// The listing of a folder of samples: the files of each sample in order, and their classes. Sources
// of photos and arrays are made from it.
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
  std::string name;                          // path within the folder, for messages and results
  std::vector<std::filesystem::path> files;  // one file for each input, or one for all inputs
  std::optional<int64_t> label = std::nullopt;
};

// Returns a label as BatchBuilder takes labels. The label must outlive the result.
inline std::span<const int64_t> LabelsOf(const std::optional<int64_t>& label) {
  return label ? std::span(&*label, 1) : std::span<const int64_t>();
}

struct FolderListing {
  FileKind kind = FileKind::kPhoto;
  std::vector<SampleFiles> samples;  // not empty; either all samples have labels or none
};

// Lists the folder as described in source.h, without opening the samples' files; `limit` is not
// applied. Throws Error naming the folder, the file or the CSV line.
FolderListing ListFolder(const SourceOptions& options);

// Make the sources of OpenSource. REQUIRES: `listing` is of the right kind and not empty; photos
// have `options.image`.
std::unique_ptr<Source> MakePhotoSource(FolderListing listing, const SourceOptions& options);
std::unique_ptr<Source> MakeArraySource(FolderListing listing, const SourceOptions& options);

}  // namespace bitpress::data
