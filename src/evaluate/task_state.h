// The measure of a task in parts of the samples: what a meter counted, as the files of evaluations
// have it. States of different samples add up exactly: they are sums without rounding, or sets.
#pragma once

#include <string>

#include "base/byte_stream.h"
#include "evaluate/task.h"

namespace bitpress::evaluate {

struct TaskState {
  Task task = Task::kClasses;
  std::string settings;  // of the user, see SettingsText
  std::string output;    // that is measured; "": all together
  std::string counts;    // as TaskMeter writes them

  // Adds the samples of another state. Throws Error(kInvalidArgument) if it is of another task,
  // output or settings.
  void Merge(const TaskState& other);
  TaskReport Report() const;
  void Write(ByteWriter& writer) const;
  // Throws Error(kInvalidArgument) if the bytes are damaged.
  static TaskState Read(ByteReader& reader);
  bool operator==(const TaskState&) const = default;
};

// Returns the settings of a task by which parts have to be measured alike. Files count by being
// given: other machines may have them elsewhere.
std::string SettingsText(const TaskSpec& spec);

}  // namespace bitpress::evaluate
