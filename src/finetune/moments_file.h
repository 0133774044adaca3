// Files of moments (.bpm): the sums of layers over some of the samples (MomentSums), so that they
// are gathered by many processes, and learned from by others. docs/scale_out.md describes their
// use. Layers lie one after another, so that memory is bounded by the largest one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <istream>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/atomic_file.h"
#include "base/thread_pool.h"
#include "finetune/gather.h"
#include "finetune/moments.h"

namespace bitpress::finetune {

// The model, the configuration and the samples that sums are of.
struct MomentsOrigin {
  std::string model_name;          // a name for people; not compared
  uint64_t model_fingerprint = 0;  // graph::Model::Fingerprint of the prepared float model
  std::string key;                 // what else they depend on (MomentsKey)
  uint64_t num_runs_of_all = 0;    // of all samples; 0: not known
  Split split = Split::kNone;
  // The runs that are in the sums, in ascending order: [begin, end). Neighbours are joined.
  std::vector<std::pair<uint64_t, uint64_t>> runs;
  uint64_t samples = 0;  // data::Source::Fingerprint of these samples

  uint64_t num_runs() const;
  // Returns whether these are all runs.
  bool IsWhole() const;
  // Adds the runs of the other. Throws Error(kInvalidArgument) if it is of something else, or has
  // runs that are there already.
  void Merge(const MomentsOrigin& other);
  bool operator==(const MomentsOrigin&) const = default;
};

// The sums of one layer, or of several that share them.
struct MomentsEntry {
  std::vector<std::string> layers;  // names of their weights
  std::string op_type;              // of the first
  MomentShape shape;
  bool has_held_back = false;  // LayerSums::held_back lies in the file, too
  bool operator==(const MomentsEntry&) const = default;
};

class MomentsWriter {
 public:
  // Throws Error(kIo) if the file cannot be written.
  explicit MomentsWriter(const std::filesystem::path& path);
  // Returns the bytes that were written.
  uint64_t Add(const MomentsEntry& entry, const LayerSums& sums);
  // Ends the file and puts it in its place. Returns its size.
  uint64_t Commit(const MomentsOrigin& origin);

 private:
  struct Record {
    MomentsEntry entry;
    uint64_t length = 0;
    uint32_t checksum = 0;
  };
  AtomicFile file_;
  uint64_t size_ = 0;
  std::vector<Record> records_;
};

class MomentsReader {
 public:
  // Reads what is in the file, but no sums. Throws Error(kInvalidArgument) if it is no file of
  // moments, of a newer version or damaged, and Error(kIo), naming the file.
  explicit MomentsReader(const std::filesystem::path& path);
  // Reads a file that is in memory, for tests.
  explicit MomentsReader(std::unique_ptr<std::istream> file);

  const MomentsOrigin& origin() const { return origin_; }
  const std::vector<MomentsEntry>& entries() const { return entries_; }
  // Returns the index of the entry with the sums of a layer. Throws Error(kInvalidArgument) if
  // there is none.
  size_t EntryOf(const std::string& weight) const;
  // Returns sums to which nothing is added yet.
  LayerSums Empty(size_t entry) const;
  // Reads the bytes of an entry, and checks their checksum. They take the place of other bytes
  // whose memory is not needed any more, if there are some. Throws Error(kInvalidArgument) and
  // Error(kIo).
  std::string Read(size_t entry, std::string reused = {});
  // Adds the sums in the bytes of an entry. Throws Error(kInvalidArgument) if they are damaged.
  void Add(size_t entry, std::string_view bytes, LayerSums& sums, ThreadPool& pool) const;

 private:
  struct Place {
    uint64_t begin = 0;
    uint64_t length = 0;
    uint32_t checksum = 0;
  };
  void ReadOrigin();
  void ReadEntry(ByteReader& in, uint64_t& begin, uint64_t end);
  std::string Bytes(uint64_t begin, uint64_t length, std::string reused = {});
  std::string NameOf(size_t entry) const;  // for messages

  std::string name_;  // of the file
  std::unique_ptr<std::istream> file_;
  MomentsOrigin origin_;
  std::vector<MomentsEntry> entries_;
  std::vector<Place> places_;
};

// Returns whether a file starts like a file of moments, and false if it cannot be read.
bool IsMomentsFile(const std::filesystem::path& path);

// Adds up files of moments of one model and one configuration, which share no run. The sums of one
// layer are in memory at a time, with its bytes in two files: one is read while the other is added.
// `output` may be one of the files. Throws Error naming the file that does not fit.
MomentsOrigin MergeMoments(std::span<const std::filesystem::path> paths,
                           const std::filesystem::path& output, ThreadPool& pool);

}  // namespace bitpress::finetune
