// Prepares batches for the models of an evaluation: matches inputs by name, fills batches up, and
// reads token ids as numbers of one type.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "base/tensor.h"
#include "data/token_inputs.h"
#include "runtime/session.h"

namespace bitpress::evaluate {

// Returns, for each value of `wanted`, the index of the value of `found` with its name. If a name
// is missing, values are matched by position. Throws Error(kInvalidArgument) if their numbers
// differ too. `what` is for messages: "input".
std::vector<size_t> MatchByName(const std::vector<runtime::ValueDescription>& wanted,
                                const std::vector<runtime::ValueDescription>& found,
                                std::string_view what);

// Fills a batch up to `size` samples with copies of its last one.
void PadBatch(std::vector<Tensor>& inputs, size_t num_samples, size_t size);

// Returns the token ids of a batch as INT64.
Tensor IdsOf(const data::TokenInputs& tokens, const std::vector<Tensor>& inputs);

}  // namespace bitpress::evaluate
