// The text that the system has for a failure, as a piece of a message.
#pragma once

#include <string>
#include <system_error>

namespace bitpress {

// Returns the text of an error, in English, UTF-8 and in the same words on every system where it
// means the same: "No such file or directory".
std::string ErrorText(const std::error_code& error);

// Returns the error that the last call of the system left.
std::error_code LastError();

}  // namespace bitpress
