// The settings of fine-tuning, and a table of the words that other tools have for theirs. The
// algorithms are in finetune/. Plain data.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace bitpress::plan {

struct QuantConfig;

// The number of samples that fine-tuning learns from unless told otherwise.
inline constexpr int64_t kDefaultFinetuneSamples = 100;

// The settings of all passes of fine-tuning, `finetune_...`.
struct FinetuneSettings {
#define BITPRESS_FINETUNE_SETTING(type, field, key, value, ...) type field = value;
#include "plan/settings.inc"

  bool operator==(const FinetuneSettings&) const = default;
};

// The treatment of an option that a script for another tool sets.
enum class OptionFate {
  kHonoured,  // it is one of our settings
  kAccepted,  // it changes nothing here, and a notice says why
  kRefused,   // we have nothing like it, and an error says what to do instead
};

// An option of another tool.
struct FinetuneOption {
  std::string_view name;  // its name in AMD Quark's or Neural Compressor's documentation
  OptionFate fate;
  std::string_view setting;  // honoured: the key in AllSettings
  std::string_view reason;   // accepted: why it changes nothing; refused: why, and what to do
};

// Returns all options, in the order of docs/finetuning.md.
std::span<const FinetuneOption> AllFinetuneOptions();

// Returns the option of that name. Case and underscores do not count: "num_iterations" is
// NumIterations. Throws Error(kInvalidArgument) with the nearest name.
const FinetuneOption& FindFinetuneOption(std::string_view name);

// Applies the option to `config`. Returns "", or the notice that it changes nothing. Throws
// Error(kInvalidArgument) if it is refused, unknown, or has no such value.
std::string ApplyFinetuneOption(QuantConfig& config, std::string_view name, std::string_view value);

}  // namespace bitpress::plan
