// Which algorithms learn weights after planning, in which order. Plain data; what they do is in
// finetune/.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace bitpress::plan {

enum class FinetunePass {
  kAwq,             // channels of the inputs scaled, for weights only; comes first
  kClipSearch,      // scales with the least error in the outputs
  kLeastSquares,    // the best real weights for the quantized inputs, in closed form
  kGptq,            // rounding with error feedback
  kAdaRound,        // learned rounding up or down
  kAdaQuant,        // learned codes and scales
  kBiasCorrection,  // the float model's mean output
};

// "none" (or empty): no passes. One word is a recipe:
//   awq            awq+clip_search+bias_correction
//   clip_search    clip_search+bias_correction
//   least_squares  least_squares+bias_correction
//   gptq           gptq+bias_correction
//   adaround       adaround+bias_correction
//   adaquant       least_squares+gptq+adaquant+bias_correction
// Passes joined by '+' are taken as they are. Throws Error(kInvalidArgument) with the nearest word,
// and where awq is not the first.
std::vector<FinetunePass> ParseFinetunePasses(std::string_view text);
// The passes joined by '+', or "none".
std::string FinetunePassNames(const std::vector<FinetunePass>& passes);
// For help texts.
std::string FinetunePassWords();

}  // namespace bitpress::plan
