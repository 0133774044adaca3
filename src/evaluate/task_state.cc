#include "evaluate/task_state.h"

#include <algorithm>

#include "base/error.h"
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
  MeterOf(state);  // refuses damaged counts
  return state;
}

std::string SettingsText(const TaskSpec& spec) {
  std::string text;
  for (const auto& [key, value] : spec.settings) {
    const bool is_file = key == "labels" || key == "vocabulary";
    text += fmt::format("{}{}{}", text.empty() ? "" : ",", key, is_file ? "" : "=" + value);
  }
  return text;
}

}  // namespace bitpress::evaluate
