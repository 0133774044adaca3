// The measure of a task in parts of the samples: what a meter counted, as the files of evaluations
// have it. States of different samples add up exactly: they are sums without rounding, or sets.
#pragma once

#include <cstdint>
#include <string>

#include "base/byte_stream.h"
#include "evaluate/task.h"

namespace bitpress::evaluate {

struct TaskState {
  Task task = Task::kClasses;
  std::string settings;  // of the user, see SettingsText
  std::string output;    // that is measured; "": all together
  std::string counts;    // as TaskMeter writes them
  uint64_t files = 0;    // the content of the files that settings name, see FilesContent

  // Adds the samples of another state. Throws Error(kInvalidArgument) if it is of another task,
  // output, settings or files.
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

// Returns a number for the content of the files that the settings name, by which labels of one set
// are told from those of another; 0 without any. Throws Error if a file cannot be read.
uint64_t FilesContent(const TaskSpec& spec);

}  // namespace bitpress::evaluate
