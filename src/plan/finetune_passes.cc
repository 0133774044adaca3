#include "plan/finetune_passes.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "plan/words.h"

namespace bitpress::plan {
namespace {

constexpr std::array<std::pair<std::string_view, FinetunePass>, 8> kPasses{
    {{"awq", FinetunePass::kAwq},
     {"clip_search", FinetunePass::kClipSearch},
     {"least_squares", FinetunePass::kLeastSquares},
     {"gptq", FinetunePass::kGptq},
     {"adaround", FinetunePass::kAdaRound},
     {"adaquant", FinetunePass::kAdaQuant},
     {"bias_correction", FinetunePass::kBiasCorrection},
     {"blocks", FinetunePass::kBlocks}}};

}  // namespace

std::vector<FinetunePass> ParseFinetunePasses(std::string_view text) {
  const std::string trimmed = ToLower(Trim(text));
  if (trimmed.empty() || trimmed == "none") return {};
  std::vector<FinetunePass> passes;
  for (const std::string& word : Split(trimmed, '+')) {
    passes.push_back(ParseWord<FinetunePass>(kPasses, Trim(word)));
  }
  if (std::find(passes.begin() + 1, passes.end(), FinetunePass::kAwq) != passes.end()) {
    Fail(ErrorCode::kInvalidArgument,
         "awq scales the model's channels before anything is learned: put it first, not as in '{}'",
         trimmed);
  }
  if (std::find(passes.begin(), passes.end() - 1, FinetunePass::kBlocks) != passes.end() - 1) {
    Fail(ErrorCode::kInvalidArgument,
         "blocks goes on from the weights that the other passes learned: put it last, not as in "
         "'{}'",
         trimmed);
  }
  const bool is_whole_recipe =
      passes[0] == FinetunePass::kBiasCorrection || passes[0] == FinetunePass::kBlocks;
  if (passes.size() > 1 || is_whole_recipe) return passes;
  if (passes[0] == FinetunePass::kAdaQuant) {
    passes = {FinetunePass::kLeastSquares, FinetunePass::kGptq, FinetunePass::kAdaQuant};
  }
  if (passes[0] == FinetunePass::kAwq) passes.push_back(FinetunePass::kClipSearch);
  passes.push_back(FinetunePass::kBiasCorrection);
  return passes;
}

std::string FinetunePassNames(const std::vector<FinetunePass>& passes) {
  if (passes.empty()) return "none";
  std::vector<std::string> words;
  for (const FinetunePass pass : passes) {
    words.emplace_back(WordOf<FinetunePass>(kPasses, pass));
  }
  return Join(words, "+");
}

std::string FinetunePassWords() { return "none|" + JoinWords<FinetunePass>(kPasses); }

}  // namespace bitpress::plan
