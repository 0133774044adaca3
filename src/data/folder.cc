#include "data/folder.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/paths.h"
#include "base/system_error.h"
#include "base/text.h"
#include "data/kept_samples.h"
#include "data/labels.h"
#include "data/left_out.h"
#include "data/token_source.h"

namespace bitpress::data {
namespace {

namespace fs = std::filesystem;

constexpr const char* kKnownFiles = ".jpg .jpeg .png .webp .bmp .tif .tiff, .npy, .npz or .pb";
constexpr std::array<std::string_view, 7> kPhotoEndings = {".jpg", ".jpeg", ".png", ".webp",
                                                           ".bmp", ".tif",  ".tiff"};

std::optional<FileKind> KindOf(const fs::path& path) {
  const std::string extension = ToLower(PathText(path.extension()));
  if (std::find(kPhotoEndings.begin(), kPhotoEndings.end(), extension) != kPhotoEndings.end()) {
    return FileKind::kPhoto;
  }
  if (extension == ".npy") return FileKind::kNpy;
  if (extension == ".npz") return FileKind::kNpz;
  if (extension == ".pb") return FileKind::kTensorProto;
  return std::nullopt;
}

// Return whether an entry is a folder, and a file. One that cannot be looked at (a link to itself,
// a name that is too long) is neither.
bool IsFolder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}
bool IsFile(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

// Returns the entries of a folder that are not hidden, by name.
std::vector<fs::path> Entries(const fs::path& folder) {
  std::vector<fs::path> entries;
  try {
    for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
      if (!PathText(entry.path().filename()).starts_with('.')) entries.push_back(entry.path());
    }
  } catch (const fs::filesystem_error& error) {
    Fail(ErrorCode::kIo, "cannot read folder '{}': {}", PathText(folder), ErrorText(error.code()));
  }
  std::sort(entries.begin(), entries.end(), [](const fs::path& a, const fs::path& b) {
    return PathText(a.filename()) < PathText(b.filename());
  });
  return entries;
}

std::vector<fs::path> Subfolders(const fs::path& folder) {
  std::vector<fs::path> entries = Entries(folder);
  std::erase_if(entries, [](const fs::path& path) { return !IsFolder(path); });
  return entries;
}

std::vector<fs::path> DataFiles(const fs::path& folder) {
  std::vector<fs::path> entries = Entries(folder);
  std::erase_if(entries, [](const fs::path& path) { return IsFolder(path) || !KindOf(path); });
  return entries;
}

// Returns the entries of a folder and its subfolders, in the order of their paths.
std::vector<fs::path> DataFilesBelow(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const fs::path& entry : Entries(folder)) {
    if (IsFolder(entry)) {
      const std::vector<fs::path> below = DataFilesBelow(entry);
      files.insert(files.end(), below.begin(), below.end());
    } else if (KindOf(entry)) {
      files.push_back(entry);
    }
  }
  return files;
}

std::string RelativeName(const fs::path& path, const fs::path& folder) {
  return PortablePathText(path.lexically_relative(folder));
}

// Returns the one kind of all files.
FileKind CommonKind(const std::vector<SampleFiles>& samples, const fs::path& folder) {
  const FileKind kind = *KindOf(samples[0].files[0]);
  for (const SampleFiles& sample : samples) {
    for (const fs::path& file : sample.files) {
      if (*KindOf(file) != kind) {
        Fail(ErrorCode::kInvalidArgument,
             "folder '{}' is mixed: it holds '{}' and '{}', expected one kind of {}",
             PathText(folder), RelativeName(samples[0].files[0], folder),
             RelativeName(file, folder), kKnownFiles);
      }
    }
  }
  return kind;
}

// Returns the samples that the CSV lists. If there are subfolders for the model's inputs, the file
// is in each of them.
std::vector<SampleFiles> ListFromCsv(const SourceOptions& options,
                                     const std::vector<fs::path>& input_folders) {
  std::vector<SampleFiles> samples;
  for (const LabelledFile& row : LoadLabels(options.labels_csv)) {
    SampleFiles sample{.name = row.file, .files = {}, .label = row.label};
    for (const fs::path& folder : input_folders) {
      const fs::path file = folder / PathOf(row.file);
      const std::string where = fmt::format("{}: line {}", PathText(options.labels_csv), row.line);
      if (!IsFile(file)) {
        Fail(ErrorCode::kIo, "{}: file '{}' not found", where, PathText(file));
      }
      if (!KindOf(file)) {
        Fail(ErrorCode::kInvalidArgument, "{}: '{}' is not one of {}", where, PathText(file),
             kKnownFiles);
      }
      sample.files.push_back(file);
    }
    samples.push_back(std::move(sample));
  }
  return samples;
}

// Returns the samples of one subfolder for each input, with equally named files.
std::vector<SampleFiles> ListByInput(const SourceOptions& options,
                                     const std::vector<fs::path>& input_folders) {
  std::vector<SampleFiles> samples;
  std::set<std::string> names;
  for (const fs::path& file : DataFiles(input_folders[0])) {
    names.insert(PathText(file.filename()));
    samples.push_back({.name = PathText(file.filename()), .files = {file}});
  }
  for (const fs::path& folder : input_folders) {
    for (const fs::path& file : DataFiles(folder)) {
      if (!names.contains(PathText(file.filename()))) {
        Fail(ErrorCode::kInvalidArgument, "'{}' has no counterpart in '{}'", PathText(file),
             PathText(input_folders[0]));
      }
    }
    if (folder == input_folders[0]) continue;
    for (SampleFiles& sample : samples) {
      const fs::path file = folder / PathOf(sample.name);
      if (!IsFile(file)) {
        Fail(ErrorCode::kInvalidArgument, "'{}' has no counterpart in '{}'",
             PathText(sample.files[0]), PathText(folder));
      }
      sample.files.push_back(file);
    }
  }
  if (samples.empty()) {
    Fail(ErrorCode::kInvalidArgument, "folder '{}' is empty: it holds no {}",
         PathText(options.folder), kKnownFiles);
  }
  return samples;
}

// Returns the samples of folders with input_0.pb, input_1.pb, ...: this folder, or its subfolders.
// Empty if there are none.
std::vector<fs::path> TestDataSets(const fs::path& folder) {
  const auto is_set = [](const fs::path& path) {
    std::error_code ignored;
    return fs::exists(path / "input_0.pb", ignored);
  };
  if (is_set(folder)) return {folder};
  std::vector<fs::path> sets = Subfolders(folder);
  std::erase_if(sets, [&](const fs::path& path) { return !is_set(path); });
  return sets;
}

std::vector<SampleFiles> ListTestDataSets(const std::vector<fs::path>& sets,
                                          const SourceOptions& options) {
  std::vector<SampleFiles> samples;
  const size_t num_inputs = std::max<size_t>(1, options.input_names.size());
  for (const fs::path& set : sets) {
    const bool is_whole = set == options.folder;
    SampleFiles sample{
        .name = is_whole ? PathText(set.filename()) : RelativeName(set, options.folder),
        .files = {}};
    for (size_t i = 0; i < num_inputs; ++i) {
      sample.files.push_back(set / fmt::format("input_{}.pb", i));
      if (!IsFile(sample.files.back())) {
        Fail(ErrorCode::kIo, "file '{}' not found: the model has {} inputs",
             PathText(sample.files.back()), num_inputs);
      }
    }
    samples.push_back(std::move(sample));
  }
  return samples;
}

// Returns the files of the folder itself, without labels, or those of one subfolder a class.
std::vector<SampleFiles> ListPlain(const fs::path& folder) {
  std::vector<SampleFiles> samples;
  for (const fs::path& file : DataFiles(folder)) {
    samples.push_back({.name = RelativeName(file, folder), .files = {file}});
  }
  const std::vector<fs::path> classes = Subfolders(folder);
  std::vector<std::vector<fs::path>> class_files;
  bool has_class_files = false;
  for (const fs::path& subfolder : classes) {
    class_files.push_back(DataFilesBelow(subfolder));
    has_class_files = has_class_files || !class_files.back().empty();
  }
  if (samples.empty() && !has_class_files) {
    Fail(ErrorCode::kInvalidArgument, "folder '{}' is empty: it holds no {}", PathText(folder),
         kKnownFiles);
  }
  if (!has_class_files) return samples;
  if (!samples.empty()) {
    Fail(ErrorCode::kInvalidArgument,
         "folder '{}' is mixed: it holds '{}' beside subfolders with such files; expected all in "
         "one folder or one subfolder a class",
         PathText(folder), samples[0].name);
  }
  for (size_t i = 0; i < classes.size(); ++i) {
    if (class_files[i].empty()) {
      // Leaving it out would shift the index of every class after it.
      Fail(ErrorCode::kInvalidArgument,
           "class folder '{}' holds no {}; remove it or name the classes in a CSV",
           PathText(classes[i]), kKnownFiles);
    }
    for (const fs::path& file : class_files[i]) {
      samples.push_back(
          {.name = RelativeName(file, folder), .files = {file}, .label = static_cast<int64_t>(i)});
    }
  }
  return samples;
}

// Returns the subfolders named as the inputs, or nothing unless each input has one.
std::vector<fs::path> InputFolders(const SourceOptions& options) {
  std::vector<fs::path> folders;
  for (const std::string& name : options.input_names) {
    const fs::path folder = options.folder / PathOf(name);
    if (name.empty() || !IsFolder(folder)) return {};
    folders.push_back(folder);
  }
  return folders;
}

}  // namespace

FolderListing ListFolder(const SourceOptions& options) {
  std::error_code ignored;
  if (!fs::exists(options.folder, ignored)) {
    Fail(ErrorCode::kIo, "data folder '{}' not found", PathText(options.folder));
  }
  if (!fs::is_directory(options.folder, ignored)) {
    Fail(ErrorCode::kInvalidArgument, "'{}' is a file, expected a folder of samples",
         PathText(options.folder));
  }
  FolderListing listing;
  const std::vector<fs::path> input_folders = InputFolders(options);
  const std::vector<fs::path> sets = TestDataSets(options.folder);
  if (!options.labels_csv.empty()) {
    listing.samples = ListFromCsv(
        options, input_folders.empty() ? std::vector<fs::path>{options.folder} : input_folders);
  } else if (!input_folders.empty()) {
    listing.samples = ListByInput(options, input_folders);
  } else if (!sets.empty()) {
    listing.samples = ListTestDataSets(sets, options);
  } else {
    listing.samples = ListPlain(options.folder);
  }
  listing.kind = CommonKind(listing.samples, options.folder);
  const size_t num_inputs = std::max<size_t>(1, options.input_names.size());
  if (listing.samples[0].files.size() != num_inputs && listing.kind != FileKind::kNpz) {
    Fail(ErrorCode::kInvalidArgument,
         "folder '{}' holds one file a sample, but the model has {} inputs ({}); give .npz files "
         "with a member for each, or one subfolder for each input name",
         PathText(options.folder), num_inputs, Join(options.input_names, ", "));
  }
  return listing;
}

std::string DescribeFilesLeftOut(const fs::path& folder) {
  std::map<std::string, size_t> others;  // by their endings
  size_t num_files = 0;
  size_t num_samples = 0;
  std::error_code error;
  for (fs::recursive_directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const fs::path& path = entry->path();
    if (PathText(path.filename()).starts_with('.')) {
      entry.disable_recursion_pending();
      continue;
    }
    std::error_code ignored;
    if (!entry->is_regular_file(ignored)) continue;  // the entry knows it; a path would be asked
    if (PathText(path.filename()) == kTextsOfSamples) continue;
    ++num_files;
    if (KindOf(path)) {
      ++num_samples;
    } else {
      const std::string ending = ToLower(PathText(path.extension()));
      ++others[ending.empty() ? "without an ending" : ending];
    }
  }
  if (error) return "";
  if (others.empty() || num_samples == 0) return "";
  std::vector<std::string> counts;
  for (const auto& [ending, count] : others) counts.push_back(fmt::format("{} {}", count, ending));
  return fmt::format("folder '{}': {} of {} files are left out, which are no samples: {}",
                     PathText(folder), num_files - num_samples, num_files, Join(counts, ", "));
}

std::unique_ptr<Source> OpenSource(const SourceOptions& options) {
  if (options.kept) {
    SourceOptions read = options;
    const std::shared_ptr<KeptSamples> kept = std::exchange(read.kept, nullptr);
    return kept->Open(read, OpenSource);
  }
  if (options.opener) return options.opener(options);
  if (options.tokens) return MakeTokenSource(options);
  FolderListing listing = ListFolder(options);
  if (listing.kind != FileKind::kPhoto) return MakeArraySource(std::move(listing), options);
  if (!options.image) {
    Fail(ErrorCode::kInvalidArgument,
         "folder '{}' holds photos, but it is not said how they become tensors; give image "
         "options, for example resize=256,crop=224,mean=0.485/0.456/0.406,std=0.229/0.224/0.225",
         PathText(options.folder));
  }
  return MakePhotoSource(std::move(listing), options);
}

}  // namespace bitpress::data
