// The settings of the guard, which leaves activations float that lose too much as integers.
#include <charconv>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "plan/model_settings.h"
#include "plan/quant_config.h"
#include "plan/range_method.h"

namespace bitpress::plan {
namespace {

// Returns the number that a whole text is, if it lies between `least` and `most`.
std::optional<double> NumberIn(std::string_view text, double least, double most) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_number = error == std::errc() && end == text.data() + text.size();
  return is_number && number >= least && number <= most ? std::optional(number) : std::nullopt;
}

std::vector<RangeMethod> ParseMethods(std::string_view text) {
  std::vector<RangeMethod> methods;
  if (text == "none") return methods;
  for (const std::string& word : Split(text, '+')) {
    methods.push_back(ParseRangeMethod(word));
    if (methods.back().is_dynamic()) {
      Fail(ErrorCode::kInvalidArgument, "'{}' gives no ranges before the model runs", word);
    }
  }
  return methods;
}

std::string MethodNames(const std::vector<RangeMethod>& methods) {
  if (methods.empty()) return "none";
  std::vector<std::string> words;
  for (const RangeMethod& method : methods) words.push_back(RangeMethodName(method));
  return Join(words, "+");
}

// Beyond this, the rounding of float32 itself counts.
constexpr double kMostDb = 100;

}  // namespace

void AddGuardSettings(std::vector<Setting>& settings) {
  settings.push_back(
      {"guard", "off|DB",
       "static integers: leave the activations float whose rounding brings the error of an output "
       "closer to the output than this many dB, measured on some of the samples (default off; 20 "
       "in INT8)",
       [](QuantConfig& config, std::string_view value) {
         if (value == "off") {
           config.guard_db.reset();
           return;
         }
         const std::optional<double> db = NumberIn(value, 0, kMostDb);
         if (!db) {
           Fail(ErrorCode::kInvalidArgument, "'{}' is neither off nor a number of dB from 0 to {}",
                value, kMostDb);
         }
         config.guard_db = db;
       },
       [](const QuantConfig& config) {
         return config.guard_db ? fmt::format("{}", *config.guard_db) : std::string("off");
       },
       /*is_derived=*/false, /*is_quiet=*/true});
  settings.push_back(
      {"guard_share", "SHARE",
       "the most of the products of integers that the guard may make floats, from 0 to 1 (default "
       "0.5; 1 in INT8)",
       [](QuantConfig& config, std::string_view value) {
         const std::optional<double> share = NumberIn(value, 0, 1);
         if (!share) {
           Fail(ErrorCode::kInvalidArgument, "'{}' is no number from 0 to 1", value);
         }
         config.guard_share = *share;
       },
       [](const QuantConfig& config) { return fmt::format("{}", config.guard_share); },
       /*is_derived=*/false, /*is_quiet=*/true});
  settings.push_back(
      {"guard_ranges", "none|METHOD+METHOD",
       "range methods that the guard tries for all activations if an output comes close to its "
       "bound; it takes one only if the outputs gain (default none; mse+min_max in INT8; setting "
       "activation_range makes it none)",
       [](QuantConfig& config, std::string_view value) {
         config.guard_ranges = ParseMethods(value);
       },
       [](const QuantConfig& config) { return MethodNames(config.guard_ranges); },
       /*is_derived=*/false, /*is_quiet=*/true});
}

}  // namespace bitpress::plan
