#include "plan/finetune_settings.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "plan/quant_config.h"
#include "plan/words.h"

namespace bitpress::plan {
namespace {

Setting CountSetting(std::string_view key, std::string_view help, int64_t least,
                     int64_t FinetuneSettings::*field) {
  return {key, fmt::format("N>={}", least), help,
          [least, field](QuantConfig& config, std::string_view value) {
            const int64_t count = ParseInt(value, "a whole number");
            if (count < least) {
              Fail(ErrorCode::kInvalidArgument, "{} is less than {}", count, least);
            }
            config.finetune_settings.*field = count;
          },
          [field](const QuantConfig& config) {
            return std::to_string(config.finetune_settings.*field);
          }};
}

Setting TruthSetting(std::string_view key, std::string_view help, bool FinetuneSettings::*field) {
  return {key, JoinWords<bool>(kTruths), help,
          [field](QuantConfig& config, std::string_view value) {
            config.finetune_settings.*field = ParseWord<bool>(kTruths, ToLower(value));
          },
          [field](const QuantConfig& config) {
            return std::string(WordOf<bool>(kTruths, config.finetune_settings.*field));
          }};
}

using enum OptionFate;

constexpr std::string_view kNoGradients =
    "weights are learned on a quadratic form, by descent without gradients";
constexpr std::string_view kNoBatches =
    "samples are added up one by one; results do not depend on a batch";
constexpr std::string_view kNoActivations =
    "no activations are kept, so there is nothing to save memory at";

constexpr std::array kOptions = std::to_array<FinetuneOption>({
    {"OptimAlgorithm", kHonoured, "finetune", ""},
    {"DataSize", kHonoured, "finetune_samples", ""},
    {"NumIterations", kHonoured, "finetune_rounds", ""},
    {"TargetOpType", kHonoured, "finetune_op_types", ""},
    {"PercDamp", kHonoured, "finetune_ridge", ""},
    {"ActOrder", kHonoured, "finetune_activation_order", ""},
    {"FixedSeed", kHonoured, "finetune_seed", ""},
    {"BatchSize", kAccepted, "", kNoBatches},
    {"NumBatches", kAccepted, "", kNoBatches},
    {"DynamicBatch", kAccepted, "", kNoBatches},
    {"LearningRate", kAccepted, "", kNoGradients},
    {"LRAdjust", kAccepted, "", kNoGradients},
    {"RegParam", kAccepted, "", kNoGradients},
    {"BetaRange", kAccepted, "", kNoGradients},
    {"WarmStart", kAccepted, "", kNoGradients},
    {"EarlyStop", kAccepted, "", "the descent always ends when no weight changes"},
    {"SelectiveUpdate", kAccepted, "",
     "layers always keep what they learned only where held-back samples say that it is better"},
    {"UpdateBias", kAccepted, "", "biases follow from pass bias_correction, part of every recipe"},
    {"OutputQDQ", kAccepted, "", "the loss is that of the outputs before they are quantized"},
    {"OutputIndex", kAccepted, "", "each layer has a loss of its own; no output is chosen"},
    {"DropRatio", kAccepted, "", "inputs are always the quantized ones"},
    {"BlockSize", kAccepted, "",
     "gptq solves the whole row at once; blocks of weights are weight_block_size"},
    {"OptimDevice", kAccepted, "", "fine-tuning runs on the CPU"},
    {"InferDevice", kAccepted, "", "fine-tuning runs on the CPU"},
    {"Parallel", kAccepted, "", "all cores are used, or as many as option threads says"},
    {"NumWorkers", kAccepted, "", "all cores are used, or as many as option threads says"},
    {"MemOptLevel", kAccepted, "", kNoActivations},
    {"SelectMaxMemLayer", kAccepted, "", kNoActivations},
    {"CacheDir", kAccepted, "", kNoActivations},
    {"PinMemory", kAccepted, "", kNoActivations},
    {"UseGDS", kAccepted, "", kNoActivations},
    {"LogPeriod", kAccepted, "", "progress is reported layer by layer"},
    {"RefModelPath", kRefused, "",
     "the float model that is quantized is the reference; quantize that one"},
    {"MSE", kRefused, "",
     "scales are searched by a pass of their own: finetune=clip_search+gptq+bias_correction"},
    {"PerChannel", kRefused, "", "say it of the weights: weight_granularity=per_axis"},
});

std::string Folded(std::string_view name) {
  std::string folded = ToLower(name);
  std::erase(folded, '_');
  return folded;
}

}  // namespace

void AddFinetuneSettings(std::vector<Setting>& settings) {
  settings.push_back(
      {"finetune_ridge", "X>0",
       "how much learned weights are held where they were, in parts of the mean square of the "
       "inputs; it grows where samples are few or noisy (default 0.01)",
       [](QuantConfig& config, std::string_view value) {
         const double ridge = ParseDouble(value, "a number");
         if (!(ridge > 0 && ridge < 1e6)) {
           Fail(ErrorCode::kInvalidArgument, "'{}' is no number over 0", value);
         }
         config.finetune_settings.ridge = ridge;
       },
       [](const QuantConfig& config) {
         return fmt::format("{}", config.finetune_settings.ridge);
       }});
  settings.push_back(CountSetting("finetune_rounds",
                                  "adaround, adaquant: rounds over all weights at most; they end "
                                  "when no weight changes (default 20)",
                                  0, &FinetuneSettings::num_rounds));
  settings.push_back(
      TruthSetting("finetune_activation_order",
                   "gptq: weights of inputs with large squares are rounded first (default true)",
                   &FinetuneSettings::activation_order));
  settings.push_back(TruthSetting(
      "finetune_refresh_scales",
      "gptq: each block's scale is chosen for the weights that it has when its turn comes, in the "
      "order of the inputs; where no two outputs share a scale (default false)",
      &FinetuneSettings::refresh_scales));
  settings.push_back(CountSetting("finetune_hold_back",
                                  "one of so many samples judges what was learned from the others; "
                                  "fewer than four times as many are halved, and each half judges "
                                  "the other; 0: none judges (default 8)",
                                  0, &FinetuneSettings::hold_back_every));
  settings.push_back(CountSetting("finetune_samples",
                                  "samples to learn from, at most (default 0: as many as the run "
                                  "is limited to, otherwise 100)",
                                  0, &FinetuneSettings::num_samples));
  settings.push_back(CountSetting("finetune_positions",
                                  "of the positions of one layer in one sample, so many are "
                                  "learned from, spread over the sample; 0: all (default)",
                                  0, &FinetuneSettings::num_positions));
  settings.push_back(CountSetting("finetune_seed",
                                  "decides which positions finetune_positions takes (default 0)", 0,
                                  &FinetuneSettings::seed));
  settings.push_back(CountSetting("finetune_activation",
                                  "adaround, adaquant: positions of each layer that are kept to "
                                  "learn what its activation function makes of the outputs; 0: "
                                  "the outputs themselves are learned (default)",
                                  0, &FinetuneSettings::num_kept));
  settings.push_back(CountSetting("finetune_groups",
                                  "groups of layers, from the inputs on, each of which learns from "
                                  "a network that is quantized up to it, with a pass of the "
                                  "samples (default 1: from the float network)",
                                  1, &FinetuneSettings::num_groups));
  settings.push_back(TruthSetting("finetune_add_biases",
                                  "bias_correction: convolutions and Gemm without a bias get one "
                                  "where that makes them more accurate (default true)",
                                  &FinetuneSettings::adds_biases));
  settings.push_back(CountSetting("finetune_memory",
                                  "megabytes for the sums that one pass of the samples gathers and "
                                  "for learning from them; with less there are more passes "
                                  "(default 512)",
                                  1, &FinetuneSettings::memory_mb));
  settings.push_back(TruthSetting("finetune_spill",
                                  "one pass whatever finetune_memory is: sums beyond it lie in "
                                  "temporary files (default false)",
                                  &FinetuneSettings::spills));
  settings.push_back(
      {"finetune_op_types", "OP_TYPE[;OP_TYPE...]",
       "only layers of these types are tuned (default: all)",
       [](QuantConfig& config, std::string_view value) {
         config.finetune_settings.op_types.clear();
         for (const std::string& word : Split(value, ';')) {
           if (!Trim(word).empty()) {
             config.finetune_settings.op_types.emplace_back(Trim(word));
           }
         }
       },
       [](const QuantConfig& config) { return Join(config.finetune_settings.op_types, ";"); }});
}

std::span<const FinetuneOption> AllFinetuneOptions() { return kOptions; }

const FinetuneOption& FindFinetuneOption(std::string_view name) {
  const std::string wanted = Folded(Trim(name));
  std::vector<std::string> names;
  for (const FinetuneOption& option : kOptions) {
    if (Folded(option.name) == wanted) return option;
    names.emplace_back(option.name);
  }
  Fail(ErrorCode::kInvalidArgument, "there is no fine-tuning option '{}'{}; the options are {}",
       name, DidYouMean(name, names), Join(names, ", "));
}

std::string ApplyFinetuneOption(QuantConfig& config, std::string_view name,
                                std::string_view value) {
  const FinetuneOption& option = FindFinetuneOption(name);
  switch (option.fate) {
    case kHonoured:
      ApplySetting(config, option.setting, value);
      return "";
    case kAccepted:
      return fmt::format("{}={} changes nothing: {}", option.name, value, option.reason);
    case kRefused:
      break;
  }
  Fail(ErrorCode::kInvalidArgument, "fine-tuning option {}={} is not taken: {}", option.name, value,
       option.reason);
}

}  // namespace bitpress::plan
