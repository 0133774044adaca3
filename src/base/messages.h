// Words of messages: what the library puts into an Error's text, and what its faces make of it.
// Pure functions.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace bitpress {

// Returns the text with every stretch of white space as one space, and none at its ends: messages
// of other libraries may have several lines.
std::string OneLine(std::string_view text);

// Returns the name of an option as messages of the library hold it: "option 'num_threads'". The
// library does not know how its user gives an option: `--data` on the command line, `data=` in
// Python.
std::string OptionName(std::string_view name);

// Returns the message with every OptionName replaced by what `spell` makes of the name.
std::string SpellOptions(std::string_view message,
                         const std::function<std::string(std::string_view)>& spell);

}  // namespace bitpress
