#include "finetune/journal.h"

#include <fmt/format.h>

#include <bit>
#include <iterator>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "calibrate/byte_stream.h"
#include "ops/compute_ops.h"

namespace bitpress::finetune {
namespace {

using calibrate::ByteReader;
using calibrate::ByteWriter;

constexpr std::string_view kMagic = "bitpress fine-tuning journal 4\n";
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
  writer.Number(static_cast<uint8_t>(layer.report.judge));
  writer.Number(static_cast<uint8_t>(layer.report.is_tuned ? 1 : 0));
  WriteWeights(writer, layer.learned);
  writer.Compact(layer.of_halves.size());
  for (const LearnedWeights& of_half : layer.of_halves) WriteWeights(writer, of_half);
  return std::move(writer.bytes());
}

LearnedLayer FromBytes(std::string_view bytes) {
  ByteReader reader(bytes);
  LearnedLayer layer;
  for (std::string* text :
       {&layer.report.node, &layer.report.op_type, &layer.report.weight, &layer.report.format,
        &layer.report.note, &layer.report.taken_from, &layer.report.choice}) {
    *text = reader.Text();
  }
  layer.report.error_before = std::bit_cast<double>(reader.Number<uint64_t>());
  layer.report.error_after = std::bit_cast<double>(reader.Number<uint64_t>());
  const auto judge = reader.Number<uint8_t>();
  if (judge > static_cast<uint8_t>(Judge::kPositions)) calibrate::FailDamaged("the journal");
  layer.report.judge = static_cast<Judge>(judge);
  layer.report.is_tuned = reader.Number<uint8_t>() != 0;
  layer.learned = ReadWeights(reader);
  constexpr size_t kLeastBytes = 3;  // of the three lengths
  layer.of_halves.resize(reader.Count(kLeastBytes));
  for (LearnedWeights& of_half : layer.of_halves) of_half = ReadWeights(reader);
  return layer;
}

std::string ReadAll(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

}  // namespace

std::string_view JudgeName(Judge judge) {
  switch (judge) {
    case Judge::kNone:
      return "";
    case Judge::kHeldBack:
      return "held_back";
    case Judge::kLearned:
      return "learned";
    case Judge::kHalves:
      return "halves";
    case Judge::kPositions:
      return "positions";
  }
  return "";
}

std::string_view JudgesOf(Judge judge) {
  switch (judge) {
    case Judge::kNone:
      break;
    case Judge::kHeldBack:
      return "held-back samples";
    case Judge::kLearned:
      return "the samples that it was learned from";
    case Judge::kHalves:
      return "the other half of the samples";
    case Judge::kPositions:
      return "the other half of the sample's positions";
  }
  return "";
}

std::string NameOf(const TunedLayerReport& layer) {
  std::string name = fmt::format("{} '{}'", layer.op_type, layer.node);
  if (ops::IsRecurrent(layer.op_type)) name += fmt::format(", '{}'", layer.weight);
  return name;
}

LearningJournal::LearningJournal(std::filesystem::path path, const std::string& key)
    : path_(std::move(path)) {
  if (path_.empty()) return;
  Read(fmt::format("{}{}\n", kMagic, key));
  file_.open(path_, std::ios::binary | std::ios::app);
  if (!file_) Fail(ErrorCode::kIo, "cannot write the journal '{}'", path_.string());
}

void LearningJournal::Read(const std::string& header) {
  const std::string bytes = ReadAll(path_);
  size_t end = 0;
  if (bytes.starts_with(header)) {
    end = header.size();
    while (bytes.size() - end >= kRecordHead) {
      ByteReader head(std::string_view(bytes).substr(end, kRecordHead));
      const auto length = head.Number<uint32_t>();
      const auto checksum = head.Number<uint32_t>();
      if (bytes.size() - end - kRecordHead < length) break;
      const std::string_view record = std::string_view(bytes).substr(end + kRecordHead, length);
      if (calibrate::Crc32c(record) != checksum) break;
      try {
        LearnedLayer layer = FromBytes(record);
        std::string weight = layer.report.weight;
        found_.insert_or_assign(std::move(weight), std::move(layer));
      } catch (const Error&) {
        break;  // another version wrote it
      }
      end += kRecordHead + length;
    }
    std::error_code error;
    std::filesystem::resize_file(path_, end, error);
    if (!error) return;
    found_.clear();
  }
  std::ofstream file(path_, std::ios::binary | std::ios::trunc);
  file << header;
  if (!file.flush()) Fail(ErrorCode::kIo, "cannot write the journal '{}'", path_.string());
}

void LearningJournal::Add(const LearnedLayer& layer) {
  if (path_.empty()) return;
  const std::string record = ToBytes(layer);
  constexpr uint64_t kMost = UINT32_MAX;
  if (record.size() > kMost) return;  // a later run learns the layer again
  ByteWriter head;
  head.Number(static_cast<uint32_t>(record.size()));
  head.Number(calibrate::Crc32c(record));
  file_ << head.bytes() << record;
  if (!file_.flush()) Fail(ErrorCode::kIo, "cannot write the journal '{}'", path_.string());
}

}  // namespace bitpress::finetune
