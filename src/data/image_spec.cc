#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "base/words.h"
#include "data/source.h"

namespace bitpress::data {
namespace {

// The largest side: far above any network's input, and small enough for products of sizes.
constexpr int64_t kMaxSide = 16384;

constexpr std::array<std::pair<std::string_view, ImageSpec::Fit>, 3> kFitWords{
    {{"shorter", ImageSpec::Fit::kShorter},
     {"letterbox", ImageSpec::Fit::kLetterbox},
     {"stretch", ImageSpec::Fit::kStretch}}};

int ParseSide(std::string_view key, std::string_view value) {
  const int64_t side = ParseInt(value, fmt::format("image option {}", key));
  if (side < 0 || side > kMaxSide) {
    Fail(ErrorCode::kInvalidArgument, "image option {}={} is out of range, expected 0 to {} pixels",
         key, side, kMaxSide);
  }
  return static_cast<int>(side);
}

// Parses one value for all channels, or three.
void ParseChannels(std::string_view key, std::string_view value, float (&result)[3]) {
  const std::vector<std::string> parts = Split(value, '/');
  if (parts.size() != 1 && parts.size() != 3) {
    Fail(ErrorCode::kInvalidArgument,
         "image option {}={} has {} values, expected one or three (red/green/blue)", key, value,
         parts.size());
  }
  for (size_t i = 0; i < 3; ++i) {
    const std::string& part = parts[parts.size() == 1 ? 0 : i];
    const double number = ParseDouble(part, fmt::format("image option {}", key));
    result[i] = static_cast<float>(number);
    if (!std::isfinite(result[i])) {
      Fail(ErrorCode::kInvalidArgument, "image option {}={} is not a usable number", key, value);
    }
  }
}

// Returns true for the second of two words.
bool ParseChoice(std::string_view key, std::string_view value, std::array<std::string, 2> words) {
  const std::string word = ToLower(Trim(value));
  if (word == words[0]) return false;
  if (word == words[1]) return true;
  Fail(ErrorCode::kInvalidArgument, "image option {}={}: expected {} or {}{}", key, value, words[0],
       words[1], DidYouMean(word, words));
}

void ParseOption(std::string_view key, std::string_view value, ImageSpec& spec) {
  if (key == "resize") {
    spec.resize = ParseSide(key, value);
  } else if (key == "fit") {
    spec.fit = ParseWord<ImageSpec::Fit>(kFitWords, value, "image option fit");
  } else if (key == "crop") {
    spec.crop = ParseSide(key, value);
  } else if (key == "mean") {
    ParseChannels(key, value, spec.mean);
  } else if (key == "std") {
    ParseChannels(key, value, spec.std);
    if (*std::min_element(spec.std, spec.std + 3) <= 0) {
      Fail(ErrorCode::kInvalidArgument, "image option std={} must be above 0", value);
    }
  } else if (key == "layout") {
    spec.nhwc = ParseChoice(key, value, {"nchw", "nhwc"});
  } else if (key == "channels") {
    spec.bgr = ParseChoice(key, value, {"rgb", "bgr"});
  } else {
    const std::vector<std::string> keys = {"resize", "fit",    "crop",    "mean",
                                           "std",    "layout", "channels"};
    Fail(ErrorCode::kInvalidArgument, "unknown image option '{}'{}; there are {}", key,
         DidYouMean(key, keys), Join(keys, ", "));
  }
}

}  // namespace

ImageSpec ParseImageSpec(std::string_view text) {
  ImageSpec spec;
  if (Trim(text).empty()) return spec;
  std::set<std::string> seen;
  for (const std::string& option : Split(text, ',')) {
    const size_t equals = option.find('=');
    if (equals == std::string::npos) {
      Fail(ErrorCode::kInvalidArgument, "image option '{}' has no value, expected key=value",
           option);
    }
    const std::string key = ToLower(Trim(std::string_view(option).substr(0, equals)));
    if (!seen.insert(key).second) {
      Fail(ErrorCode::kInvalidArgument, "image option {} is given twice", key);
    }
    ParseOption(key, Trim(std::string_view(option).substr(equals + 1)), spec);
  }
  if (spec.resize > 0 && spec.crop > spec.resize) {
    Fail(ErrorCode::kInvalidArgument,
         "image options crop={} and resize={}: the crop is larger than the picture", spec.crop,
         spec.resize);
  }
  if (spec.fit != ImageSpec::Fit::kShorter && spec.resize == 0) {
    Fail(ErrorCode::kInvalidArgument, "image option fit needs the size: add resize=N");
  }
  return spec;
}

}  // namespace bitpress::data
