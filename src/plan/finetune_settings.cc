#include "plan/finetune_settings.h"

#include <array>

#include "base/error.h"
#include "base/text.h"
#include "plan/quant_config.h"

namespace bitpress::plan {
namespace {

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
