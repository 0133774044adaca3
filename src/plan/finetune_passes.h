// The algorithms that learn weights after planning, and their words in settings. The algorithms
// themselves are in finetune/. Plain data.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace bitpress::plan {

enum class FinetunePass {
  kAwq,           // scaled channels of the inputs, if only weights are quantized; always the first
  kClipSearch,    // scales with the least error in the outputs
  kLeastSquares,  // the best real weights for the quantized inputs, in closed form
  kGptq,          // rounding with error feedback
  kAdaRound,      // learned rounding up or down
  kAdaQuant,      // learned codes and scales
  kBiasCorrection,  // biases with which the mean output is that of the float model
  // Roundings and biases of whole blocks, learned by gradients in the network that is quantized up
  // to them; always the last.
  kBlocks,
};

// Reads a list of passes. "none" and the empty text are no passes. One word is a recipe:
//   awq            awq+clip_search+bias_correction
//   clip_search    clip_search+bias_correction
//   least_squares  least_squares+bias_correction
//   gptq           gptq+bias_correction
//   adaround       adaround+bias_correction
//   adaquant       least_squares+gptq+adaquant+bias_correction
//   blocks         blocks
// Passes joined by '+' are taken as they are. Throws Error(kInvalidArgument) with the nearest word
// if a word is unknown, if awq is not the first, and if blocks is not the last.
std::vector<FinetunePass> ParseFinetunePasses(std::string_view text);
// Returns the passes joined by '+', or "none".
std::string FinetunePassNames(const std::vector<FinetunePass>& passes);
// Returns all words for help texts.
std::string FinetunePassWords();

}  // namespace bitpress::plan
