// The source of samples of a language model that are made from token ids (token_inputs.h).
//
// Ids are a file .npy of integers. One dimension is a text: it is cut into pieces of `length`
// tokens, and the rest of the last piece is left out. Two dimensions are a text in each row, cut
// likewise. A text that is shorter than one piece is a sample by itself. A prefix and a suffix,
// such as <bos>, are put around each piece; they count among its tokens. A model that fixes the
// number of samples of a run gets whole runs only.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>

#include "data/source.h"
#include "data/token_inputs.h"

namespace bitpress::data {

// The number of tokens of a sample where neither the user nor the model says one.
inline constexpr int64_t kDefaultTokens = 512;

// Returns the number of tokens of a sample: `asked` (0: not said), else what the model fixes, else
// the length of the rows of a two-dimensional file, else kDefaultTokens. Throws
// Error(kInvalidArgument) if the model fixes another one than `asked`.
int64_t TokensOfSample(const TokenInputs& inputs, size_t asked, const std::filesystem::path& file);

// Makes the source for the model of `options.tokens->inputs`. Unless the model fixes the number of
// samples of a run, batches have few tokens, because the logits of a batch have a row of the
// vocabulary for each token. Only the options `tokens` and `limit` count. Throws Error naming the
// file or the input.
std::unique_ptr<Source> MakeTokenSource(const SourceOptions& options);

}  // namespace bitpress::data
