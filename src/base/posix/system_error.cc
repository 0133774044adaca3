#include "base/system_error.h"

#include <cerrno>

namespace bitpress {

std::string ErrorText(const std::error_code& error) { return error.message(); }

std::error_code LastError() { return {errno, std::generic_category()}; }

}  // namespace bitpress
