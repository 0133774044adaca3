#include "plan/range_method.h"

#include <algorithm>
#include <charconv>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/text.h"

namespace bitpress::plan {
namespace {

using Kind = RangeMethod::Kind;

// Other tools' words, without case and underscores. With a power-of-two scale min_max rounds the
// scale up, which is what Quark calls non-overflow.
constexpr std::pair<std::string_view, Kind> kAliases[] = {
    {"minmse", Kind::kMse},
    {"nonoverflow", Kind::kMinMax},
    {"kl", Kind::kEntropy},
    {"calibmovingaverage", Kind::kMovingAverage},
};

std::string Plain(std::string_view word) {
  std::string plain = ToLower(Trim(word));
  std::erase(plain, '_');
  return plain;
}

double ParsePercentile(std::string_view text) {
  double value = 0;
  const std::string_view trimmed = Trim(text);
  const auto [end, error] = std::from_chars(trimmed.data(), trimmed.data() + trimmed.size(), value);
  if (error != std::errc() || end != trimmed.data() + trimmed.size() || !(value > 50) ||
      value > 100) {
    Fail(ErrorCode::kInvalidArgument, "'{}' is no percentile; it is above 50 and at most 100",
         trimmed);
  }
  return value;
}

}  // namespace

RangeMethod ParseRangeMethod(std::string_view word) {
  const size_t open = word.find('(');
  const bool has_parameter = open != std::string_view::npos && word.ends_with(')');
  const std::string plain = Plain(word.substr(0, open));
  RangeMethod method;
  bool is_known = false;
  std::vector<std::string> names;
  for (const RangeMethodWord& row : kRangeMethods) {
    names.emplace_back(row.word);
    if (Plain(row.word) != plain) continue;
    method.kind = row.kind;
    is_known = true;
  }
  for (const auto& [name, kind] : kAliases) {
    if (name != plain) continue;
    method.kind = kind;
    is_known = true;
  }
  if (!is_known || (open != std::string_view::npos && !has_parameter)) {
    Fail(ErrorCode::kInvalidArgument, "'{}' is no range method{}; the methods are {}", word,
         DidYouMean(ToLower(Trim(word.substr(0, open))), names), Join(names, ", "));
  }
  if (!has_parameter) return method;
  const std::string_view parameter = word.substr(open + 1, word.size() - open - 2);
  if (method.kind == Kind::kPercentile) {
    method.percentile = ParsePercentile(parameter);
  } else if (method.kind == Kind::kLayerwisePercentile && Plain(parameter) == "mae") {
    method.error = RangeMethod::Error::kMae;
  } else if (method.kind == Kind::kLayerwisePercentile && Plain(parameter) == "mse") {
    method.error = RangeMethod::Error::kMse;
  } else {
    Fail(ErrorCode::kInvalidArgument,
         "'{}': only percentile(P) and layerwise_percentile(mae|mse) have a parameter", word);
  }
  return method;
}

std::string RangeMethodName(const RangeMethod& method) {
  const std::string name(
      std::ranges::find(kRangeMethods, method.kind, &RangeMethodWord::kind)->word);
  if (method.kind == Kind::kPercentile) return fmt::format("{}({})", name, method.percentile);
  if (method.kind == Kind::kLayerwisePercentile) {
    return name + (method.error == RangeMethod::Error::kMse ? "(mse)" : "(mae)");
  }
  return name;
}

std::string RangeMethodWords() {
  std::vector<std::string> names;
  for (const RangeMethodWord& row : kRangeMethods) {
    names.push_back(fmt::format("{}{}", row.word, row.parameter));
  }
  return Join(names, "|");
}

}  // namespace bitpress::plan
