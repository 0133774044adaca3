#include "search/journal.h"

#include <set>
#include <string_view>
#include <utility>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/paths.h"
#include "base/system_files.h"

namespace bitpress::search {
namespace {

using Json = nlohmann::ordered_json;

std::string Line(const Json& json) {
  // Names come from the model and may be no UTF-8.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

constexpr std::string_view kStart = "{\"bitpress_journal\":";

// Reads the records that follow the header, up to the first line that is none, because the rest of
// it was cut off. Calls `add` with each name, record and line.
template <typename Add>
void ReadRecords(std::ifstream& file, const Add& add) {
  std::string line;
  while (std::getline(file, line) && !file.eof()) {
    Json record = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!record.is_array() || record.size() != 2 || !record[0].is_string()) return;
    add(record[0].get<std::string>(), std::move(record[1]), line);
  }
}

}  // namespace

bool IsJournal(const std::filesystem::path& path) {
  std::ifstream file(SystemPath(path), std::ios::binary);
  std::string start(kStart.size(), '\0');
  file.read(start.data(), static_cast<std::streamsize>(start.size()));
  return file.good() && start == kStart;
}

size_t MergeJournals(std::span<const std::filesystem::path> paths,
                     const std::filesystem::path& output) {
  std::string header;
  std::string lines;
  std::set<std::string> names;
  for (const std::filesystem::path& path : paths) {
    std::ifstream file(SystemPath(path), std::ios::binary);
    if (!file) Fail(ErrorCode::kIo, "cannot read '{}'", PathText(path));
    std::string line;
    if (!std::getline(file, line) || file.eof() || !line.starts_with(kStart)) {
      Fail(ErrorCode::kInvalidArgument, "'{}': this is no journal of a sensitivity",
           PathText(path));
    }
    if (header.empty()) header = line;
    if (line != header) {
      Fail(ErrorCode::kInvalidArgument,
           "'{}' and '{}': they are of different models, samples, candidates or options",
           PathText(paths[0]), PathText(path));
    }
    ReadRecords(file, [&](const std::string& name, const Json&, const std::string& record) {
      if (names.insert(name).second) lines += record + "\n";
    });
  }
  WriteFile(output, header + "\n" + lines);
  return names.size();
}

MeasurementJournal::MeasurementJournal(std::filesystem::path path, const std::string& key)
    : path_(std::move(path)) {
  if (path_.empty()) return;
  const std::string header = Line(Json{{"bitpress_journal", 2}, {"key", key}});
  uint64_t good = 0;
  {
    std::ifstream file(SystemPath(path_), std::ios::binary);
    std::string line;
    if (std::getline(file, line) && !file.eof() && line + "\n" == header) {
      good = header.size();
      ReadRecords(file, [&](std::string name, Json record, const std::string& text) {
        found_.insert_or_assign(std::move(name), std::move(record));
        good += text.size() + 1;
      });
    }
  }
  const bool is_new = good == 0;
  const bool is_cut = is_new || !ResizeFile(path_, good);
  file_.open(path_, std::ios::binary | (is_new ? std::ios::trunc : std::ios::app));
  if (is_new) file_ << header;
  if (!is_cut || !file_.flush()) {
    Fail(ErrorCode::kIo, "cannot write the journal '{}'", PathText(path_));
  }
}

void MeasurementJournal::Add(const std::string& name, const Json& record) {
  if (path_.empty()) return;
  file_ << Line(Json::array({name, record}));
  if (!file_.flush()) Fail(ErrorCode::kIo, "cannot write the journal '{}'", PathText(path_));
}

void MeasurementJournal::FailDamaged(const std::string& name, const std::string& why) const {
  Fail(ErrorCode::kInvalidArgument,
       "the journal '{}' has a damaged record of '{}': {}; remove the file to measure again",
       PathText(path_), name, why);
}

}  // namespace bitpress::search
