#include "finetune/journal.h"

#include <fmt/format.h>

#include <bit>
#include <set>
#include <utility>

#include "base/atomic_file.h"
#include "base/byte_stream.h"
#include "base/error.h"
#include "base/paths.h"
#include "base/system_files.h"
#include "ops/operator_traits.h"

namespace bitpress::finetune {
namespace {

constexpr std::string_view kKind = "fine-tuning journal";
constexpr std::string_view kStart = "bitpress fine-tuning journal ";
constexpr std::string_view kMagic = "bitpress fine-tuning journal 6\n";
constexpr size_t kRecordHead = 8;  // length and checksum

void WriteFloats(ByteWriter& writer, const std::vector<float>& values) {
  writer.Compact(values.size());
  for (const float value : values) writer.Float(value);
}

std::vector<float> ReadFloats(ByteReader& reader) {
  std::vector<float> values(reader.Count(sizeof(float)));
  for (float& value : values) value = reader.Float();
  return values;
}

void WriteWeights(ByteWriter& writer, const LearnedWeights& learned) {
  WriteFloats(writer, learned.weights);
  WriteFloats(writer, learned.bias);
  writer.Compact(learned.params.size());
  for (const formats::QParams& params : learned.params) {
    writer.Float(params.scale);
    writer.Number(params.zero_point);
  }
}

LearnedWeights ReadWeights(ByteReader& reader) {
  LearnedWeights learned;
  learned.weights = ReadFloats(reader);
  learned.bias = ReadFloats(reader);
  learned.params.resize(reader.Count(sizeof(float) + sizeof(int64_t)));
  for (formats::QParams& params : learned.params) {
    params.scale = reader.Float();
    params.zero_point = reader.Number<int64_t>();
  }
  return learned;
}

std::string ToBytes(const LearnedLayer& layer) {
  ByteWriter writer;
  for (const std::string* text :
       {&layer.report.node, &layer.report.op_type, &layer.report.weight, &layer.report.format,
        &layer.report.note, &layer.report.taken_from, &layer.report.choice}) {
    writer.Text(*text);
  }
  writer.Number(std::bit_cast<uint64_t>(layer.report.error_before));
  writer.Number(std::bit_cast<uint64_t>(layer.report.error_after));
  writer.Number(static_cast<uint8_t>(layer.report.validated_on));
  writer.Number(static_cast<uint8_t>(layer.report.is_tuned ? 1 : 0));
  WriteWeights(writer, layer.learned);
  writer.Compact(layer.of_halves.size());
  for (const LearnedWeights& of_half : layer.of_halves) WriteWeights(writer, of_half);
  return std::move(writer.bytes());
}

LearnedLayer FromBytes(std::string_view bytes) {
  ByteReader reader(bytes, kKind);
  LearnedLayer layer;
  for (std::string* text :
       {&layer.report.node, &layer.report.op_type, &layer.report.weight, &layer.report.format,
        &layer.report.note, &layer.report.taken_from, &layer.report.choice}) {
    *text = reader.Text();
  }
  layer.report.error_before = std::bit_cast<double>(reader.Number<uint64_t>());
  layer.report.error_after = std::bit_cast<double>(reader.Number<uint64_t>());
  const auto validated_on = reader.Number<uint8_t>();
  if (validated_on > static_cast<uint8_t>(ValidatedOn::kPositions)) {
    reader.FailDamaged(fmt::format("invalid value {} of 'validated_on'", validated_on));
  }
  layer.report.validated_on = static_cast<ValidatedOn>(validated_on);
  layer.report.is_tuned = reader.Number<uint8_t>() != 0;
  layer.learned = ReadWeights(reader);
  constexpr size_t kLeastBytes = 3;  // of the three lengths
  layer.of_halves.resize(reader.Count(kLeastBytes));
  for (LearnedWeights& of_half : layer.of_halves) of_half = ReadWeights(reader);
  return layer;
}

// Reads so many bytes; fewer at the end of the file.
std::string ReadBytes(std::ifstream& file, size_t count) {
  std::string bytes(count, '\0');
  file.read(bytes.data(), static_cast<std::streamsize>(count));
  bytes.resize(static_cast<size_t>(file.gcount()));
  return bytes;
}

// Reads the next record. Returns nothing at the end of the file, and where the rest of it was cut
// off or damaged.
std::optional<std::string> ReadRecord(std::ifstream& file) {
  const std::string head_bytes = ReadBytes(file, kRecordHead);
  if (head_bytes.size() < kRecordHead) return std::nullopt;
  ByteReader head(head_bytes, kKind);
  const auto length = head.Number<uint32_t>();
  const auto checksum = head.Number<uint32_t>();
  const std::streamoff at = file.tellg();
  file.seekg(0, std::ios::end);
  const std::streamoff left = file.tellg() - at;
  file.seekg(at);
  if (left < std::streamoff{length}) return std::nullopt;
  std::string record = ReadBytes(file, length);
  if (record.size() != length || !HasChecksum(record, checksum)) return std::nullopt;
  return record;
}

std::string HeadOf(std::string_view record) {
  ByteWriter head;
  head.Number(static_cast<uint32_t>(record.size()));
  head.Number(Crc32c(record));
  return std::move(head.bytes());
}

[[noreturn]] void FailToWrite(const std::filesystem::path& path) {
  Fail(ErrorCode::kIo, "cannot write the journal '{}'", PathText(path));
}

// Reads the two lines that a journal starts with. Throws Error naming the file.
std::string ReadHeader(std::ifstream& file, const std::filesystem::path& path) {
  std::string magic;
  std::string key;
  std::getline(file, magic);
  std::getline(file, key);
  if (!file || magic + "\n" != kMagic) {
    Fail(ErrorCode::kInvalidArgument, "'{}': this is no {} of this version", PathText(path), kKind);
  }
  return magic + "\n" + key + "\n";
}

}  // namespace

bool IsLearningJournal(const std::filesystem::path& path) {
  std::ifstream file(SystemPath(path), std::ios::binary);
  return ReadBytes(file, kStart.size()) == kStart;
}

size_t MergeLearningJournals(std::span<const std::filesystem::path> paths,
                             const std::filesystem::path& output) {
  AtomicFile merged(output);
  std::string header;
  std::set<std::string> layers;
  for (const std::filesystem::path& path : paths) {
    std::ifstream file(SystemPath(path), std::ios::binary);
    if (!file) Fail(ErrorCode::kIo, "cannot read '{}'", PathText(path));
    const std::string found = ReadHeader(file, path);
    if (header.empty()) {
      header = found;
      merged.Write(header);
    }
    if (found != header) {
      Fail(ErrorCode::kInvalidArgument,
           "'{}' and '{}': they are of different models, samples, configurations or versions",
           PathText(paths[0]), PathText(path));
    }
    uintmax_t end = header.size();
    while (const std::optional<std::string> record = ReadRecord(file)) {
      end += kRecordHead + record->size();
      const std::string layer = WithContext(fmt::format("'{}'", PathText(path)),
                                            [&] { return FromBytes(*record).report.weight; });
      if (!layers.insert(layer).second) continue;
      merged.Write(HeadOf(*record));
      merged.Write(*record);
    }
    if (end != std::filesystem::file_size(path)) {
      Fail(ErrorCode::kInvalidArgument,
           "'{}': it ends within a record: the process that wrote it was stopped, start it again",
           PathText(path));
    }
  }
  merged.Commit();
  return layers.size();
}

std::string_view SamplesOf(ValidatedOn samples) {
  switch (samples) {
    case ValidatedOn::kNone:
      break;
    case ValidatedOn::kHeldBack:
      return "held-back samples";
    case ValidatedOn::kLearned:
      return "the samples that it was learned from";
    case ValidatedOn::kHalves:
      return "the other half of the samples";
    case ValidatedOn::kPositions:
      return "the other half of the sample's positions";
  }
  return "";
}

std::string NameOf(const TunedLayerReport& layer) {
  std::string name = fmt::format("{} '{}'", layer.op_type, layer.node);
  if (ops::TraitsNamed(layer.op_type).is_recurrent()) name += fmt::format(", '{}'", layer.weight);
  return name;
}

LearningJournal::LearningJournal(std::filesystem::path path, const std::string& key)
    : path_(std::move(path)) {
  if (path_.empty()) return;
  Read(fmt::format("{}{}\n", kMagic, key));
  file_.open(path_, std::ios::binary | std::ios::app);
  if (!file_) FailToWrite(path_);
}

void LearningJournal::Read(const std::string& header) {
  std::ifstream file(SystemPath(path_), std::ios::binary);
  if (ReadBytes(file, header.size()) == header) {
    uintmax_t end = header.size();
    while (const std::optional<std::string> record = ReadRecord(file)) {
      try {
        found_.insert_or_assign(FromBytes(*record).report.weight,
                                Place{end + kRecordHead, record->size()});
      } catch (const Error&) {
        break;  // another version wrote it
      }
      end += kRecordHead + record->size();
    }
    if (ResizeFile(path_, end)) FailToWrite(path_);
    return;
  }
  std::ofstream anew(SystemPath(path_), std::ios::binary | std::ios::trunc);
  anew << header;
  if (!anew.flush()) FailToWrite(path_);
}

std::optional<LearnedLayer> LearningJournal::Find(const std::string& weight) const {
  const auto found = found_.find(weight);
  if (found == found_.end()) return std::nullopt;
  std::ifstream file(SystemPath(path_), std::ios::binary);
  file.seekg(static_cast<std::streamoff>(found->second.begin));
  const std::string record = ReadBytes(file, found->second.length);
  if (record.size() != found->second.length) {
    Fail(ErrorCode::kIo, "cannot read the journal '{}'", PathText(path_));
  }
  return FromBytes(record);
}

void LearningJournal::Add(const LearnedLayer& layer) {
  if (path_.empty()) return;
  const std::string record = ToBytes(layer);
  constexpr uint64_t kMost = UINT32_MAX;
  if (record.size() > kMost) return;  // a later run learns the layer again
  file_ << HeadOf(record) << record;
  if (!file_.flush()) FailToWrite(path_);
}

}  // namespace bitpress::finetune
