// Helpers for the text of messages: the library names options in an Error's text, and the command
// line and Python spell them as their users know them. Pure functions.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace bitpress {

// Returns the text with one space for every stretch of white space, and none at its ends. Messages
// of other libraries may have several lines.
std::string OneLine(std::string_view text);

// Returns the name of an option in the form that messages of the library have: "option
// 'num_threads'". The library does not know how its user gives an option: `--data` on the command
// line, `data=` in Python.
std::string OptionName(std::string_view name);

// Returns the message with every OptionName replaced by `spell(name)`.
std::string SpellOptions(std::string_view message,
                         const std::function<std::string(std::string_view)>& spell);

}  // namespace bitpress
