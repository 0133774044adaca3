// The table of settings: the rows of settings.inc, and how texts are read for each kind of value.
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "base/text.h"
#include "plan/joined_operators.h"
#include "plan/name_pattern.h"
#include "plan/quant_config.h"
#include "plan/words.h"

namespace bitpress::plan {
namespace {

// The way of a value from text and back.
template <typename T>
struct SettingKind {
  std::string allowed;
  std::function<T(std::string_view)> read;
  std::function<std::string(const T&)> write;
  bool has_fraction = false;
  std::function<void(QuantConfig&)> then = {};  // what else changes
};

// The kinds of values, by the names that settings.inc has for them.
namespace kinds {

constexpr std::array<std::pair<std::string_view, std::optional<bool>>, 3> kSymmetric{
    {{"true", true}, {"false", false}, {"default", std::nullopt}}};
constexpr std::array<std::pair<std::string_view, std::optional<bool>>, 3> kEqualize{
    {{"on", true}, {"off", false}, {"default", std::nullopt}}};
constexpr std::array<std::pair<std::string_view, Network>, 2> kNetworks{
    {{"given", Network::kGiven}, {"float16", Network::kFloat16}}};
constexpr std::array<std::pair<std::string_view, ClipHandling>, 2> kClipHandlings{
    {{"bound", ClipHandling::kBound}, {"keep", ClipHandling::kKeep}}};

template <typename T>
SettingKind<T> Word(Words<T> words) {
  return {JoinWords(words), [words](std::string_view text) { return ParseWord(words, text); },
          [words](const T& value) { return std::string(WordOf(words, value)); }};
}

SettingKind<bool> Truth() {
  SettingKind<bool> kind = Word<bool>(kTruths);
  kind.read = [](std::string_view text) { return ParseWord<bool>(kTruths, ToLower(text)); };
  return kind;
}

SettingKind<int64_t> Whole(std::string allowed, int64_t least,
                           int64_t most = std::numeric_limits<int64_t>::max()) {
  return {std::move(allowed),
          [least, most](std::string_view text) {
            const int64_t number = ParseInt(text, "a whole number");
            if (number < least || number > most) {
              Fail(ErrorCode::kInvalidArgument, "{} is {} than {}", number,
                   number < least ? "less" : "more", number < least ? least : most);
            }
            return number;
          },
          [](int64_t number) { return std::to_string(number); }};
}

// Returns the number that a whole text is, if it lies between `least` and `most`.
std::optional<double> NumberIn(std::string_view text, double least, double most) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_number = error == std::errc() && end == text.data() + text.size();
  return is_number && number >= least && number <= most ? std::optional(number) : std::nullopt;
}

// The largest number is finite.
SettingKind<double> Real(std::string allowed, std::string_view what, double least,
                         double most = std::numeric_limits<double>::max()) {
  return {std::move(allowed),
          [what, least, most](std::string_view text) {
            const std::optional<double> number = NumberIn(text, least, most);
            if (!number) Fail(ErrorCode::kInvalidArgument, "'{}' is no {}", text, what);
            return *number;
          },
          [](double number) { return fmt::format("{}", number); }, /*has_fraction=*/true};
}

SettingKind<double> Positive(std::string allowed, double below) {
  return Real(std::move(allowed), "number over 0", std::numeric_limits<double>::denorm_min(),
              std::nextafter(below, 0.0));
}

// Beyond the most, the rounding of float32 itself counts.
SettingKind<std::optional<double>> Decibels() {
  static constexpr double kMostDb = 100;
  return {"off|DB",
          [](std::string_view text) -> std::optional<double> {
            if (text == "off") return std::nullopt;
            const std::optional<double> db = NumberIn(text, 0, kMostDb);
            if (db) return db;
            Fail(ErrorCode::kInvalidArgument, "'{}' is neither off nor a number of dB from 0 to {}",
                 text, kMostDb);
          },
          [](const std::optional<double>& db) { return db ? fmt::format("{}", *db) : "off"; }};
}

SettingKind<double> BiasShare() {
  return {"true|false|SHARE",
          [](std::string_view text) {
            if (text == "true") return 1.0;
            if (text == "false") return 0.0;
            const std::optional<double> share = NumberIn(text, 0, 1);
            if (share) return *share;
            Fail(ErrorCode::kInvalidArgument,
                 "'{}' is neither true, false nor a number from 0 to 1", text);
          },
          [](double share) {
            return share == 1 ? "true" : share == 0 ? "false" : fmt::format("{}", share);
          },
          /*has_fraction=*/true};
}

SettingKind<std::optional<SmoothRequest>> Smooth() {
  return {"none|auto|ALPHA",
          [](std::string_view text) -> std::optional<SmoothRequest> {
            if (text == "none") return std::nullopt;
            if (text == "auto") return SmoothRequest{.alpha = std::nullopt};
            const std::optional<double> alpha = NumberIn(text, 0, 1);
            if (alpha) return SmoothRequest{.alpha = alpha};
            Fail(ErrorCode::kInvalidArgument, "'{}' is neither none, auto nor a number from 0 to 1",
                 text);
          },
          [](const std::optional<SmoothRequest>& smooth) -> std::string {
            if (!smooth) return "none";
            return smooth->alpha ? fmt::format("{}", *smooth->alpha) : "auto";
          }};
}

SettingKind<int64_t> BlockOrOff() {
  static constexpr int64_t kLargest = 1024;
  return {"off|SIZE",
          [](std::string_view text) -> int64_t {
            if (text == "off") return 0;
            const int64_t size = ParseInt(text, "a size");
            if (size >= 2 && size <= kLargest && std::has_single_bit(static_cast<uint64_t>(size))) {
              return size;
            }
            Fail(ErrorCode::kInvalidArgument, "'{}' is neither off nor a power of two from 2 to {}",
                 text, kLargest);
          },
          [](int64_t size) { return size == 0 ? "off" : std::to_string(size); }};
}

SettingKind<std::optional<int64_t>> Axis() {
  return {
      "N|default",
      [](std::string_view text) -> std::optional<int64_t> {
        if (text == "default") return std::nullopt;
        return ParseInt(text, "an axis");
      },
      [](const std::optional<int64_t>& axis) { return axis ? std::to_string(*axis) : "default"; }};
}

// A format's name in its canonical spelling, or "none".
SettingKind<std::string> Format() {
  return {"FORMAT|none",
          [](std::string_view text) -> std::string {
            const std::string_view name = Trim(text);
            return ToLower(name) == "none" ? "none" : formats::FindFormat(name).name;
          },
          [](const std::string& format) { return format; }};
}

// A format that follows from other settings unless the user says one.
SettingKind<std::string> DefaultedFormat() {
  SettingKind<std::string> kind = Format();
  kind.allowed = "FORMAT|none|default";
  kind.read = [read = kind.read](std::string_view text) {
    return ToLower(Trim(text)) == "default" ? "default" : read(text);
  };
  return kind;
}

SettingKind<std::optional<formats::ScaleChoice>> Scale() {
  using Choice = std::optional<formats::ScaleChoice>;
  return {"floor|ceil|even|mse|default",
          [](std::string_view text) {
            return text == "default" ? Choice() : formats::ParseScaleChoice(text);
          },
          [](const Choice& choice) {
            return std::string(choice ? formats::ScaleChoiceName(*choice) : "default");
          }};
}

SettingKind<formats::RoundingMode> Rounding() {
  return {"half_to_even|half_away_from_zero|half_up", formats::ParseRoundingMode,
          [](formats::RoundingMode mode) { return std::string(formats::RoundingModeName(mode)); }};
}

SettingKind<formats::ScaleKind> KindOfScale() {
  return {"float|power_of_two|int16", formats::ParseScaleKind,
          [](formats::ScaleKind kind) { return std::string(formats::ScaleKindName(kind)); }};
}

// Who asks for a method of activations gets it.
SettingKind<RangeMethod> ActivationRange() {
  return {.allowed = RangeMethodWords(),
          .read = ParseRangeMethod,
          .write = RangeMethodName,
          .then = [](QuantConfig& config) { config.guard_ranges.clear(); }};
}

SettingKind<RangeMethod> WeightRange() {
  return {RangeMethodWords(),
          [](std::string_view text) {
            const RangeMethod method = ParseRangeMethod(text);
            if (!method.is_dynamic()) return method;
            Fail(ErrorCode::kInvalidArgument, "weights do not change from inference to inference");
          },
          RangeMethodName};
}

SettingKind<RangeMethod> CacheRange() {
  return {"mse|min_max",
          [](std::string_view text) {
            const RangeMethod method = ParseRangeMethod(text);
            const bool is_known =
                method.kind == RangeMethod::Kind::kMse || method.kind == RangeMethod::Kind::kMinMax;
            if (is_known) return method;
            Fail(ErrorCode::kInvalidArgument, "caches take mse or min_max, not {}", text);
          },
          RangeMethodName};
}

SettingKind<std::vector<RangeMethod>> Ranges() {
  return {"none|METHOD+METHOD",
          [](std::string_view text) {
            std::vector<RangeMethod> methods;
            if (text == "none") return methods;
            for (const std::string& word : Split(text, '+')) {
              methods.push_back(ParseRangeMethod(word));
              if (!methods.back().is_dynamic()) continue;
              Fail(ErrorCode::kInvalidArgument, "'{}' gives no ranges before the model runs", word);
            }
            return methods;
          },
          [](const std::vector<RangeMethod>& methods) -> std::string {
            if (methods.empty()) return "none";
            std::vector<std::string> words;
            for (const RangeMethod& method : methods) words.push_back(RangeMethodName(method));
            return Join(words, "+");
          }};
}

SettingKind<Granularity> CacheGranularity() {
  return {"per_axis|per_tensor",
          [](std::string_view text) {
            const Granularity granularity = ParseGranularity(text);
            if (granularity != Granularity::kPerBlock) return granularity;
            Fail(ErrorCode::kInvalidArgument, "caches have no blocks: per_axis or per_tensor");
          },
          [](Granularity granularity) { return std::string(GranularityName(granularity)); }};
}

SettingKind<std::vector<FinetunePass>> Passes() {
  return {.allowed = FinetunePassWords(),
          .read = ParseFinetunePasses,
          .write = FinetunePassNames,
          .then = [](QuantConfig& config) { config.finetune_settings.is_optional = false; }};
}

// Lists are separated by semicolons: names of nodes may hold commas, and so do regular expressions.
SettingKind<std::vector<std::string>> List(std::string allowed,
                                           void (*check)(const std::string&) = nullptr) {
  return {std::move(allowed),
          [check](std::string_view text) {
            std::vector<std::string> items;
            for (const std::string& item : Split(text, ';')) {
              if (Trim(item).empty()) continue;
              items.emplace_back(Trim(item));
              if (check != nullptr) check(items.back());
            }
            return items;
          },
          [](const std::vector<std::string>& items) { return Join(items, ";"); }};
}

SettingKind<std::vector<std::string>> Patterns() {
  // The constructor throws for a text that is no pattern.
  return List("REGEX[;REGEX...]", [](const std::string& text) { NamePattern{text}; });
}

SettingKind<std::vector<std::string>> JoinedPairs() {
  return List("OP_TYPE>OP_TYPE[;...]", [](const std::string& pair) { CheckJoinedPair(pair); });
}

}  // namespace kinds

// Makes the row of a setting; `access` gives its field of a configuration.
template <typename T, typename Access>
Setting MakeRow(SettingKind<T> kind, Access access) {
  return {.key = {},
          .allowed = kind.allowed,
          .help = {},
          .set =
              [kind, access](QuantConfig& config, std::string_view text) {
                access(config) = kind.read(text);
                if (kind.then) kind.then(config);
              },
          .get = [kind, access](const QuantConfig& config) { return kind.write(access(config)); },
          .has_fraction = kind.has_fraction};
}

// Makes the row of a setting that sets two fields, and shows the second one.
template <typename T>
Setting MakeRowOfBoth(SettingKind<T> kind, T QuantConfig::*one, T QuantConfig::*other) {
  Setting row = MakeRow(
      kind, [other](auto& config) -> auto& { return config.*other; });
  row.set = [kind, one, other](QuantConfig& config, std::string_view text) {
    config.*one = config.*other = kind.read(text);
  };
  return row;
}

Setting ScaleOfBoth() {
  return MakeRowOfBoth(kinds::Scale(), &QuantConfig::activation_scale, &QuantConfig::weight_scale);
}

Setting RoundingOfBoth() {
  return MakeRowOfBoth(kinds::Rounding(), &QuantConfig::activation_rounding,
                       &QuantConfig::weight_rounding);
}

Setting ReduceRange() {
  return {.key = {},
          .allowed = JoinWords<bool>(kTruths),
          .help = {},
          .set =
              [](QuantConfig& config, std::string_view text) {
                if (kinds::Truth().read(text)) {
                  config.integer_kernels = IntegerKernels::kReduceRange;
                } else if (config.integer_kernels == IntegerKernels::kReduceRange) {
                  config.integer_kernels = IntegerKernels::kSafe;
                }
              },
          .get = [](const QuantConfig& config) -> std::string {
            return config.integer_kernels == IntegerKernels::kReduceRange ? "true" : "false";
          }};
}

enum class Echo { kAlways, kChanged };

void AddRow(std::vector<Setting>& settings, Setting row, std::string_view key, SettingScope scope,
            std::string_view help) {
  row.key = key;
  row.scope = scope;
  row.help = help;
  const std::string value = row.get(QuantConfig());
  // Help says itself what "default" means, and what an empty list does.
  if (!row.is_derived && !value.empty() && value != "default") {
    row.help += fmt::format(" (default {})", value);
  }
  settings.push_back(std::move(row));
}

Setting Echoed(Setting row, Echo echo) {
  row.is_quiet = echo == Echo::kChanged;
  return row;
}

Setting Derived(Setting row) {
  row.is_derived = true;
  return row;
}

std::vector<Setting> MakeSettings() {
  using namespace kinds;
  using enum Echo;
  using enum SettingScope;
  std::vector<Setting> settings;
#define BITPRESS_ROW(type, place, key, scope, echo, kind, help)                \
  AddRow(settings,                                                             \
         Echoed(MakeRow<type>(                                                 \
                    kind, [](auto& config) -> auto& { return config.place; }), \
                echo),                                                         \
         #key, scope, help);
#define BITPRESS_SETTING(type, key, value, scope, echo, kind, help) \
  BITPRESS_ROW(type, key, key, scope, echo, kind, help)
#define BITPRESS_EQUALIZE_SETTING(type, field, key, value, scope, echo, kind, help) \
  BITPRESS_ROW(type, equalization.field, key, scope, echo, kind, help)
#define BITPRESS_FINETUNE_SETTING(type, field, key, value, scope, echo, kind, help) \
  BITPRESS_ROW(type, finetune_settings.field, key, scope, echo, kind, help)
#define BITPRESS_DERIVED_SETTING(key, scope, maker, help) \
  AddRow(settings, Derived(maker()), #key, scope, help);
#include "plan/settings.inc"
#undef BITPRESS_ROW
  return settings;
}

}  // namespace

std::span<const Setting> AllSettings() {
  static const std::vector<Setting> settings = MakeSettings();
  return settings;
}

std::span<const std::pair<std::string_view, std::string_view>> RemovedSettings() {
  using Row = std::pair<std::string_view, std::string_view>;
  static constexpr std::array kRemoved{Row{"finetune_activation", "0"},
                                       Row{"finetune_groups", "1"}};
  return kRemoved;
}

const Setting& FindSetting(std::string_view key) {
  for (const auto& [removed, value] : RemovedSettings()) {
    if (key != removed) continue;
    Fail(ErrorCode::kInvalidArgument,
         "setting '{}' is gone, because it gained too little: leave it out, which is what its "
         "default {} meant",
         key, value);
  }
  std::vector<std::string> keys;
  for (const Setting& setting : AllSettings()) {
    if (setting.key == key) return setting;
    keys.emplace_back(setting.key);
  }
  Fail(ErrorCode::kInvalidArgument, "there is no setting '{}'{}; the settings are {}", key,
       DidYouMean(key, keys), Join(keys, ", "));
}

void ApplySetting(QuantConfig& config, std::string_view key, std::string_view value) {
  const Setting& setting = FindSetting(key);
  WithContext(fmt::format("setting {} ({})", key, setting.allowed),
              [&] { setting.set(config, value); });
}

void ApplySetting(QuantConfig& config, std::string_view assignment) {
  const size_t equals = assignment.find('=');
  if (equals == std::string_view::npos) {
    Fail(ErrorCode::kInvalidArgument, "setting '{}' is not of the form key=value", assignment);
  }
  ApplySetting(config, Trim(assignment.substr(0, equals)), Trim(assignment.substr(equals + 1)));
}

}  // namespace bitpress::plan
