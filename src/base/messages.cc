#include "base/messages.h"

#include <fmt/format.h>

namespace bitpress {
namespace {

constexpr std::string_view kBefore = "option '";

}  // namespace

std::string OneLine(std::string_view text) {
  std::string line;
  for (const char c : text) {
    const bool is_space = c == '\n' || c == '\r' || c == '\t' || c == ' ';
    if (!is_space) {
      line += c;
    } else if (!line.empty() && line.back() != ' ') {
      line += ' ';
    }
  }
  if (!line.empty() && line.back() == ' ') line.pop_back();
  return line;
}

std::string OptionName(std::string_view name) { return fmt::format("{}{}'", kBefore, name); }

std::string SpellOptions(std::string_view message,
                         const std::function<std::string(std::string_view)>& spell) {
  std::string spelt;
  while (true) {
    const size_t start = message.find(kBefore);
    const size_t end =
        start == std::string_view::npos ? start : message.find('\'', start + kBefore.size());
    if (end == std::string_view::npos) return spelt.append(message);
    spelt.append(message.substr(0, start));
    spelt += spell(message.substr(start + kBefore.size(), end - start - kBefore.size()));
    message.remove_prefix(end + 1);
  }
}

}  // namespace bitpress
