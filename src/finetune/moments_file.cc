#include "finetune/moments_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <future>

#include "base/byte_stream.h"
#include "base/error.h"
#include "base/paths.h"
#include "base/version.h"

namespace bitpress::finetune {
namespace {

constexpr FileFormat kFormat = {"BITPMOMT", "file of moments", 1};  // docs/versions.md
constexpr size_t kHeadBytes = 8 + 4;                                // magic and version
constexpr size_t kTailBytes = 8 + 4;  // length of the description, checksum

[[noreturn]] void FailDamaged(std::string_view why) {
  ByteReader({}, kFormat.kind).FailDamaged(why);
}

// Throws unless `bytes` can hold sums of this shape, so that no file makes anyone allocate much
// more than its size.
void CheckShape(const MomentsEntry& entry, uint64_t bytes) {
  const auto [groups, rows, columns] = entry.shape;
  constexpr int64_t kMost = int64_t{1} << 24;
  constexpr double kMostSums = 0x1p50;
  const double values = static_cast<double>(groups) * static_cast<double>(columns + rows);
  const bool is_right = groups > 0 && columns > 0 && groups <= kMost && columns <= kMost &&
                        rows <= kMost && values * static_cast<double>(columns) <= kMostSums;
  const uint64_t parts = entry.has_held_back ? 2 : 1;
  if (!is_right || parts * MomentSums::LeastBytes(entry.shape) > bytes) {
    FailDamaged("a layer is larger than its sums");
  }
}

}  // namespace

uint64_t MomentsOrigin::num_runs() const {
  uint64_t sum = 0;
  for (const auto& [begin, end] : runs) sum += end - begin;
  return sum;
}

bool MomentsOrigin::IsWhole() const {
  if (runs.size() != 1 || runs[0].first != 0) return false;
  return num_runs_of_all == 0 || runs[0].second == num_runs_of_all;
}

void MomentsOrigin::Merge(const MomentsOrigin& other) {
  if (model_fingerprint != other.model_fingerprint) {
    Fail(ErrorCode::kInvalidArgument,
         "the moments are of different models ('{}', fingerprint {:016x}, and '{}', {:016x})",
         model_name, model_fingerprint, other.model_name, other.model_fingerprint);
  }
  if (key != other.key) {
    Fail(ErrorCode::kInvalidArgument,
         "the moments were gathered with different configurations or versions: '{}' and '{}'", key,
         other.key);
  }
  if (num_runs_of_all != other.num_runs_of_all || split != other.split) {
    Fail(ErrorCode::kInvalidArgument,
         "they are parts of {} samples and of {}: all parts need the same samples and --samples",
         num_runs_of_all, other.num_runs_of_all);
  }
  std::vector<std::pair<uint64_t, uint64_t>> all;
  std::ranges::merge(runs, other.runs, std::back_inserter(all));
  runs.clear();
  for (const auto& [begin, end] : all) {
    if (runs.empty() || begin > runs.back().second) {
      runs.emplace_back(begin, end);
    } else if (begin == runs.back().second) {
      runs.back().second = end;
    } else {
      Fail(ErrorCode::kInvalidArgument,
           "both have sample {}: a part of the samples would count twice", begin);
    }
  }
  samples += other.samples;
}

MomentsWriter::MomentsWriter(const std::filesystem::path& path) : file_(path) {
  const std::string head = std::move(BeginFile(kFormat).bytes());
  file_.Write(head);
  size_ = head.size();
}

uint64_t MomentsWriter::Add(const MomentsEntry& entry, const LayerSums& sums) {
  ByteWriter writer;
  sums.learned.Write(writer);
  if (entry.has_held_back) sums.held_back.Write(writer);
  file_.Write(writer.bytes());
  const uint64_t length = writer.bytes().size();
  size_ += length;
  records_.push_back({entry, length, Crc32c(writer.bytes())});
  return length;
}

uint64_t MomentsWriter::Commit(const MomentsOrigin& origin) {
  ByteWriter out = BeginFile(kFormat);  // the checksum covers the head, too
  out.Text(origin.model_name);
  out.Number(origin.model_fingerprint);
  out.Text(origin.key);
  out.Compact(origin.num_runs_of_all);
  out.Number(static_cast<uint8_t>(origin.split));
  out.Compact(origin.runs.size());
  for (const auto& [begin, end] : origin.runs) {
    out.Compact(begin);
    out.Compact(end);
  }
  out.Number(origin.samples);
  out.Compact(records_.size());
  for (const auto& [entry, length, checksum] : records_) {
    out.Compact(entry.layers.size());
    for (const std::string& layer : entry.layers) out.Text(layer);
    out.Text(entry.op_type);
    for (const int64_t number : {entry.shape.groups, entry.shape.rows, entry.shape.columns}) {
      out.Compact(static_cast<uint64_t>(number));
    }
    out.Number(uint8_t{entry.has_held_back});
    out.Compact(length);
    out.Number(checksum);
  }
  const uint64_t length = out.bytes().size() - kHeadBytes;
  const uint32_t checksum = Crc32c(out.bytes());
  out.Number(length);
  out.Number(checksum);
  file_.Write(std::string_view(out.bytes()).substr(kHeadBytes));
  file_.Commit();
  return size_ + length + kTailBytes;
}

MomentsReader::MomentsReader(const std::filesystem::path& path) : name_(PathText(path)) {
  auto file = std::make_unique<std::ifstream>(path, std::ios::binary);
  if (!*file) Fail(ErrorCode::kIo, "cannot read '{}'", name_);
  file_ = std::move(file);
  WithContext(fmt::format("'{}'", name_), [&] { ReadOrigin(); });
}

MomentsReader::MomentsReader(std::unique_ptr<std::istream> file) : file_(std::move(file)) {
  ReadOrigin();
}

std::string MomentsReader::Bytes(uint64_t begin, uint64_t length, std::string reused) {
  std::string bytes = std::move(reused);
  bytes.resize(length);
  file_->clear();
  file_->seekg(static_cast<std::streamoff>(begin));
  file_->read(bytes.data(), static_cast<std::streamsize>(length));
  if (static_cast<uint64_t>(file_->gcount()) != length) {
    Fail(ErrorCode::kIo, "cannot read {} bytes at {} of a {}", length, begin, kFormat.kind);
  }
  return bytes;
}

void MomentsReader::ReadOrigin() {
  file_->seekg(0, std::ios::end);
  const std::streamoff end_of_file = file_->tellg();
  const uint64_t size = end_of_file < 0 ? 0 : static_cast<uint64_t>(end_of_file);
  const std::string head = Bytes(0, std::min<uint64_t>(size, kHeadBytes));
  if (!head.starts_with(kFormat.magic)) {
    Fail(ErrorCode::kInvalidArgument, "this is no {}: it does not start with '{}'", kFormat.kind,
         kFormat.magic);
  }
  if (size < kHeadBytes + kTailBytes) FailDamaged("it ends too early");
  ByteReader version(std::string_view(head).substr(kFormat.magic.size()), kFormat.kind);
  CheckFormatVersion(kFormat.kind, version.Number<uint32_t>(), kFormat.version);
  const std::string tail = Bytes(size - kTailBytes, kTailBytes);
  ByteReader in_tail(tail, kFormat.kind);
  const auto length = in_tail.Number<uint64_t>();
  if (length > size - kHeadBytes - kTailBytes) FailDamaged("it ends too early");
  const uint64_t end = size - kTailBytes - length;  // of the sums
  const std::string description = head + Bytes(end, length);
  if (!HasChecksum(description, in_tail.Number<uint32_t>())) {
    FailDamaged("checksum mismatch");
  }
  ByteReader in(std::string_view(description).substr(kHeadBytes), kFormat.kind);
  origin_.model_name = in.Text();
  origin_.model_fingerprint = in.Number<uint64_t>();
  origin_.key = in.Text();
  origin_.num_runs_of_all = in.Compact();
  const auto split = in.Number<uint8_t>();
  if (split > static_cast<uint8_t>(Split::kPositions)) {
    in.FailDamaged(fmt::format("invalid value {} of 'split'", split));
  }
  origin_.split = static_cast<Split>(split);
  uint64_t last = 0;
  for (size_t left = in.Count(2); left > 0; --left) {
    const uint64_t begin = in.Compact();
    const uint64_t behind = in.Compact();
    const bool is_right = begin < behind && (origin_.runs.empty() || begin > last) &&
                          (origin_.num_runs_of_all == 0 || behind <= origin_.num_runs_of_all);
    if (!is_right) in.FailDamaged("its runs are not in order");
    origin_.runs.emplace_back(begin, behind);
    last = behind;
  }
  origin_.samples = in.Number<uint64_t>();
  uint64_t begin = kHeadBytes;
  constexpr size_t kLeastEntryBytes = 1 + 1 + 1 + 3 + 1 + 1 + 4;
  for (size_t left = in.Count(kLeastEntryBytes); left > 0; --left) ReadEntry(in, begin, end);
  in.ExpectEnd();
  if (begin != end) FailDamaged("its sums have another length");
}

void MomentsReader::ReadEntry(ByteReader& in, uint64_t& begin, uint64_t end) {
  MomentsEntry entry;
  entry.layers.resize(in.Count(1));
  for (std::string& layer : entry.layers) layer = in.Text();
  if (entry.layers.empty()) in.FailDamaged("an entry names no layer");
  entry.op_type = in.Text();
  constexpr uint64_t kMost = uint64_t{1} << 40;
  const auto number = [&] { return static_cast<int64_t>(std::min(in.Compact(), kMost)); };
  entry.shape.groups = number();
  entry.shape.rows = number();
  entry.shape.columns = number();
  const auto has_held_back = in.Number<uint8_t>();
  if (has_held_back > 1) {
    in.FailDamaged(fmt::format("invalid value {} of 'has_held_back'", has_held_back));
  }
  entry.has_held_back = has_held_back == 1;
  Place place{begin, in.Compact(), 0};
  place.checksum = in.Number<uint32_t>();
  if (place.length > end - begin) in.FailDamaged("it ends too early");
  CheckShape(entry, place.length);
  begin += place.length;
  entries_.push_back(std::move(entry));
  places_.push_back(place);
}

size_t MomentsReader::EntryOf(const std::string& weight) const {
  const auto found = std::ranges::find_if(entries_, [&](const MomentsEntry& entry) {
    return std::ranges::count(entry.layers, weight) > 0;
  });
  if (found == entries_.end()) {
    Fail(ErrorCode::kInvalidArgument, "'{}' has no moments of the layer with the weight '{}'",
         name_, weight);
  }
  return static_cast<size_t>(found - entries_.begin());
}

LayerSums MomentsReader::Empty(size_t entry) const {
  const MomentsEntry& of = entries_[entry];
  LayerSums sums;
  sums.learned = {of.shape, ArrayPlace::kHeap};
  if (of.has_held_back) sums.held_back = {of.shape, ArrayPlace::kHeap};
  sums.split = origin_.split;
  return sums;
}

std::string MomentsReader::NameOf(size_t entry) const {
  const std::string of_layers =
      fmt::format("the sums of {} '{}'", entries_[entry].op_type, entries_[entry].layers.front());
  return name_.empty() ? of_layers : fmt::format("'{}', {}", name_, of_layers);
}

std::string MomentsReader::Read(size_t entry, std::string reused) {
  return WithContext(NameOf(entry), [&] {
    const Place& place = places_[entry];
    std::string bytes = Bytes(place.begin, place.length, std::move(reused));
    if (!HasChecksum(bytes, place.checksum)) FailDamaged("checksum mismatch");
    return bytes;
  });
}

void MomentsReader::Add(size_t entry, std::string_view bytes, LayerSums& sums,
                        ThreadPool& pool) const {
  WithContext(NameOf(entry), [&] {
    ByteReader in(bytes, kFormat.kind);
    sums.learned.AddFrom(in, pool);
    if (entries_[entry].has_held_back) sums.held_back.AddFrom(in, pool);
    in.ExpectEnd();
  });
}

bool IsMomentsFile(const std::filesystem::path& path) { return HasFormat(path, kFormat); }

namespace {

// Writes the sums of all files, and returns what they are sums of.
MomentsOrigin AddParts(std::span<const std::filesystem::path> paths, MomentsWriter& writer,
                       ThreadPool& pool) {
  const MomentsReader first(paths[0]);
  MomentsOrigin origin = first.origin();
  for (const std::filesystem::path& path : paths.subspan(1)) {
    const MomentsReader reader(path);
    WithContext(fmt::format("'{}' and '{}'", PathText(paths[0]), PathText(path)), [&] {
      origin.Merge(reader.origin());
      if (reader.entries() != first.entries()) {
        Fail(ErrorCode::kInvalidArgument, "they have the moments of different layers");
      }
    });
  }
  // All entries of all files, those of one layer one after another. Files are opened anew for each,
  // because there may be more of them than a process may have open.
  struct Part {
    MomentsReader reader;
    std::string bytes;
  };
  const size_t num_parts = first.entries().size() * paths.size();
  const auto read = [&](size_t i, std::string reused) {
    return std::async(std::launch::async, [&, i, bytes = std::move(reused)]() mutable {
      const std::filesystem::path& path = paths[i % paths.size()];
      Part part{MomentsReader(path), ""};
      if (part.reader.entries() != first.entries()) {
        Fail(ErrorCode::kInvalidArgument, "'{}' was changed while it was read", PathText(path));
      }
      part.bytes = part.reader.Read(i / paths.size(), std::move(bytes));
      return part;
    });
  };
  LayerSums sums;
  std::string spare;
  std::future<Part> next = num_parts > 0 ? read(0, "") : std::future<Part>();
  for (size_t i = 0; i < num_parts; ++i) {
    Part part = next.get();
    if (i + 1 < num_parts) next = read(i + 1, std::move(spare));
    const size_t entry = i / paths.size();
    if (i % paths.size() == 0) {
      sums = {};  // before there is memory for others
      sums = first.Empty(entry);
    }
    part.reader.Add(entry, part.bytes, sums, pool);
    if (i % paths.size() + 1 == paths.size()) writer.Add(first.entries()[entry], sums);
    spare = std::move(part.bytes);
  }
  return origin;
}

}  // namespace

MomentsOrigin MergeMoments(std::span<const std::filesystem::path> paths,
                           const std::filesystem::path& output, ThreadPool& pool) {
  if (paths.empty()) Fail(ErrorCode::kInvalidArgument, "there are no files of moments to merge");
  MomentsWriter writer(output);
  MomentsOrigin origin = AddParts(paths, writer, pool);
  // The output may be one of the parts. All are closed by now: Windows replaces no open file.
  writer.Commit(origin);
  return origin;
}

}  // namespace bitpress::finetune
