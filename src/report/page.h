// The files of page/ as texts, from which a report's page is made. cmake/EmbedText.cmake embeds
// them.
#pragma once

#include <string_view>

namespace bitpress::report {

extern const std::string_view kPageHtml;
extern const std::string_view kPageCss;
extern const std::string_view kChartsJs;
extern const std::string_view kPageJs;

}  // namespace bitpress::report
