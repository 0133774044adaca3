#include "task_option.h"

#include <fmt/format.h>

#include <optional>
#include <vector>

#include "base/error.h"
#include "plan/target_profile.h"
#include "tasks/passes.h"

namespace bitpress::apps {

tasks::OptionRow OptionCalled(std::string_view key) {
  std::optional<tasks::OptionRow> found;
  QuantizeChoices choices;
  tasks::RunOptions run;
  tasks::VisitOptions(choices, run, [&](const tasks::OptionRow& row, auto& /*value*/) {
    if (row.key == key) found = row;
  });
  if (!found) Fail(ErrorCode::kInvalidArgument, "there is no option '{}'", key);
  return *found;
}

std::string WithDefault(std::string_view meaning, std::string_view value) {
  return fmt::format("{} (default {})", meaning, value);
}

void AddTaskOption(CLI::App& command, const tasks::OptionRow& row, std::filesystem::path& value) {
  command.add_option(Spelt(row.key), value, std::string(row.meaning))->type_name("FILE");
}

void AddTaskOption(CLI::App& command, const tasks::OptionRow& row, size_t& value) {
  constexpr int kMost = 1024;  // CLI11 would read -2 as a very large number
  command.add_option(Spelt(row.key), value, WithDefault(row.meaning, fmt::format("{}", value)))
      ->check(CLI::Range(0, kMost))
      ->type_name("N");
}

void AddTaskOption(CLI::App& command, const tasks::OptionRow& row, std::string& value) {
  command.add_option(Spelt(row.key), value, WithDefault(row.meaning, value))->type_name("TEXT");
}

void AddTaskOption(CLI::App& command, const tasks::OptionRow& row, bool& value) {
  if (value) {
    AddWordOption<bool>(command, Spelt(row.key), value, kSwitchWords,
                        WithDefault(row.meaning, "on"));
  } else {
    command.add_flag(Spelt(row.key), value, std::string(row.meaning));
  }
}

void AddTaskOption(CLI::App& command, const tasks::OptionRow& row, Preparation& value) {
  command.add_flag_callback(
      Spelt(row.key), [&value] { value = Preparation::kAsIs; }, std::string(row.meaning));
}

void AddTaskOption(CLI::App& command, const tasks::OptionRow& row, Target& value) {
  AddTargetOption(command, Spelt(row.key), value, WithDefault(row.meaning, value.text()));
}

void AddTargetOption(CLI::App& command, const std::string& name, Target& value,
                     const std::string& help) {
  const auto read = [name, &value](const std::string& word) {
    try {
      plan::ProfileOf(word);  // throws if it is none
      value = word;
    } catch (const Error& error) {
      throw CLI::ValidationError(name, error.what());
    }
  };
  command.add_option_function<std::string>(name, read, help)->type_name("NAME|FILE");
}

void AddTaskOption(CLI::App& command, const tasks::OptionRow& row, PassNames& value) {
  const auto add = [&value](const std::vector<std::string>& names) {
    value.insert(names.begin(), names.end());
  };
  // allow_extra_args(false) gives each option one value. Else it would take all words that follow.
  command
      .add_option_function<std::vector<std::string>>(
          Spelt(row.key), add,
          fmt::format("{}; may be repeated: {}", row.meaning, fmt::join(tasks::AllPasses(), " ")))
      ->type_name("NAME")
      ->allow_extra_args(false);
}

}  // namespace bitpress::apps
