#include <string_view>

#include "report/page.h"
#include "report/report.h"

namespace bitpress::report {
namespace {

// Returns text for an element.
std::string EscapeText(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    switch (c) {
      case '<':
        escaped += "&lt;";
        break;
      case '&':
        escaped += "&amp;";
        break;
      default:
        escaped += c;
    }
  }
  return escaped;
}

// Returns JSON for a script element. It ends at the first "</script", which names of a model may
// hold.
std::string EscapeJson(const std::string& json) {
  std::string escaped;
  escaped.reserve(json.size());
  for (const char c : json) {
    if (c == '<') {
      escaped += "\\u003c";
    } else {
      escaped += c;
    }
  }
  return escaped;
}

}  // namespace

std::string ToHtml(const Report& report) {
  using Json = nlohmann::ordered_json;
  const std::string data =
      EscapeJson(ToJson(report).dump(-1, ' ', false, Json::error_handler_t::replace));
  // The words in the page, with the texts that replace them. Placeholders in these texts do not
  // count.
  const std::pair<std::string_view, std::string> parts[] = {
      {"{{title}}", EscapeText(report.model) + ": Bitpress report"},
      {"{{style}}", std::string(kPageCss)},
      {"{{data}}", data},
      {"{{script}}", std::string(kChartsJs) + std::string(kPageJs)}};
  std::string html;
  std::string_view rest = kPageHtml;
  for (const auto& [mark, text] : parts) {
    const size_t at = rest.find(mark);
    html += rest.substr(0, at);
    html += text;
    rest.remove_prefix(at + mark.size());
  }
  html += rest;
  return html;
}

}  // namespace bitpress::report
