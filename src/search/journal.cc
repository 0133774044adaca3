#include "search/journal.h"

#include <system_error>
#include <utility>

#include "base/error.h"

namespace bitpress::search {
namespace {

using Json = nlohmann::ordered_json;

std::string Line(const Json& json) {
  // Names come from the model and may be no UTF-8.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

MeasurementJournal::MeasurementJournal(std::filesystem::path path, const std::string& key)
    : path_(std::move(path)) {
  if (path_.empty()) return;
  const std::string header = Line(Json{{"bitpress_journal", 2}, {"key", key}});
  uint64_t good = 0;
  {
    std::ifstream file(path_, std::ios::binary);
    std::string line;
    while (std::getline(file, line) && !file.eof()) {
      if (good == 0) {
        if (line + "\n" != header) break;
      } else {
        const Json record = Json::parse(line, nullptr, /*allow_exceptions=*/false);
        if (!record.is_array() || record.size() != 2 || !record[0].is_string()) break;
        found_.insert_or_assign(record[0].get<std::string>(), record[1]);
      }
      good += line.size() + 1;
    }
  }
  std::error_code error;
  if (good > 0) std::filesystem::resize_file(path_, good, error);
  const bool is_new = good == 0 || error;
  if (is_new) found_.clear();
  file_.open(path_, std::ios::binary | (is_new ? std::ios::trunc : std::ios::app));
  if (is_new) file_ << header;
  if (!file_.flush()) Fail(ErrorCode::kIo, "cannot write the journal '{}'", path_.string());
}

void MeasurementJournal::Add(const std::string& name, const Json& record) {
  if (path_.empty()) return;
  file_ << Line(Json::array({name, record}));
  if (!file_.flush()) Fail(ErrorCode::kIo, "cannot write the journal '{}'", path_.string());
}

void MeasurementJournal::FailDamaged(const std::string& name, const std::string& why) const {
  Fail(ErrorCode::kInvalidArgument,
       "the journal '{}' has a damaged record of '{}': {}; remove the file to measure again",
       path_.string(), name, why);
}

}  // namespace bitpress::search
