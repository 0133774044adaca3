// Text of Windows, which is UTF-16, and ours, which is UTF-8. For base/windows/ only.
#pragma once

#include <string>
#include <string_view>

namespace bitpress::windows {

std::wstring Wide(std::string_view text);
std::string Narrow(std::wstring_view text);

}  // namespace bitpress::windows
