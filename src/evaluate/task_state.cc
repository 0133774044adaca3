#include "evaluate/task_state.h"

#include <algorithm>

#include "base/atomic_file.h"
#include "base/content_hash.h"
#include "base/error.h"
#include "base/paths.h"
#include "evaluate/task_meters.h"

namespace bitpress::evaluate {
namespace {

constexpr std::string_view kKind = "evaluation file";

std::unique_ptr<TaskMeter> MeterOf(const TaskState& state) {
  ByteReader reader(state.counts, kKind);
  std::unique_ptr<TaskMeter> meter = ReadMeter(state.task, reader);
  reader.ExpectEnd();
  return meter;
}

// Returns whether the value of a setting is the path of a file.
bool IsFile(std::string_view key) { return key == "labels" || key == "vocabulary"; }

}  // namespace

void TaskState::Merge(const TaskState& other) {
  const auto word = [](const TaskState& state) {
    return fmt::format("{}{}{}", WordOf<Task>(kTaskWords, state.task),
                       state.settings.empty() ? "" : ":", state.settings);
  };
  if (task != other.task || settings != other.settings) {
    Fail(ErrorCode::kInvalidArgument, "they measure different tasks: {} and {}", word(*this),
         word(other));
  }
  if (output != other.output) {
    Fail(ErrorCode::kInvalidArgument,
         "they measure the task {} by different outputs: '{}' and '{}'; name one ({}:output=...)",
         word(*this), output, other.output, WordOf<Task>(kTaskWords, task));
  }
  if (files != other.files) {
    Fail(ErrorCode::kInvalidArgument,
         "they measure the task {} by files with different contents: measure all parts with copies "
         "of the same labels and vocabulary",
         word(*this));
  }
  const std::unique_ptr<TaskMeter> sum = MeterOf(*this);
  sum->Merge(*MeterOf(other));
  ByteWriter writer;
  sum->Write(writer);
  counts = std::move(writer.bytes());
}

TaskReport TaskState::Report() const { return MeterOf(*this)->Result(); }

void TaskState::Write(ByteWriter& writer) const {
  writer.Number(static_cast<uint8_t>(task));
  for (const std::string* const text : {&settings, &output, &counts}) writer.Text(*text);
  writer.Number(files);
}

TaskState TaskState::Read(ByteReader& reader) {
  TaskState state;
  const auto number = reader.Number<uint8_t>();
  const bool is_task = std::ranges::any_of(kTaskWords, [&](const auto& row) {
    return static_cast<uint8_t>(row.second) == number && row.second != Task::kFind &&
           row.second != Task::kNone;
  });
  if (!is_task) reader.FailDamaged(fmt::format("invalid value {} of 'task'", number));
  state.task = static_cast<Task>(number);
  for (std::string* const text : {&state.settings, &state.output, &state.counts}) {
    *text = reader.Text();
  }
  state.files = reader.Number<uint64_t>();
  MeterOf(state);  // refuses damaged counts
  return state;
}

std::string SettingsText(const TaskSpec& spec) {
  std::string text;
  for (const auto& [key, value] : spec.settings) {
    text += fmt::format("{}{}{}", text.empty() ? "" : ",", key, IsFile(key) ? "" : "=" + value);
  }
  return text;
}

uint64_t FilesContent(const TaskSpec& spec) {
  ContentHash content;
  bool has_files = false;
  for (const auto& [key, value] : spec.settings) {
    if (!IsFile(key)) continue;
    content.Add(key);
    content.Add(ReadFile(PathOf(value)));
    has_files = true;
  }
  return has_files ? content.value() : 0;
}

}  // namespace bitpress::evaluate
