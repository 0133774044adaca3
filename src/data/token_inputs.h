// The inputs of a language model that follow from token ids: the ids themselves, the attention
// mask, positions, empty caches. With them, a text is all that a user has to give. For example:
//
//   const TokenInputs inputs(model);
//   const std::vector<Tensor> values = inputs.Make(ids);  // ids: [2, 256]
//
// Inputs are known by the names that exporters (Optimum, ONNX Runtime GenAI, torch) give them.
// Immutable; any thread may use it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/tensor.h"
#include "graph/model.h"

namespace bitpress::data {

enum class TokenInputKind {
  kIds,           // [N, S] token ids
  kMask,          // [N, past + S] ones
  kPositions,     // [N, S] past, past + 1, ...
  kSegments,      // [N, S] zeros, as encoders have them (token_type_ids)
  kCache,         // keys or values of the positions before; one dimension is 0
  kUseCache,      // [1] false, the switch of Optimum's merged decoders
  kTotalLength,   // past + S, a scalar or [1]
  kLastPosition,  // [N] past + S - 1
};

struct TokenInput {
  std::string name;
  TokenInputKind kind = TokenInputKind::kIds;
  DataType type = DataType::kUndefined;
  std::vector<int64_t> dims;  // -1: free
  size_t batch_axis = 0;      // axis of `dims` that counts samples; meaningful for caches
};

class TokenInputs {
 public:
  // Throws Error(kUnsupported) naming the input that does not follow from token ids, or whose
  // shape is not that of its kind.
  explicit TokenInputs(const graph::Model& model);

  const std::vector<TokenInput>& inputs() const { return inputs_; }
  // Returns the index of the token ids among the inputs.
  size_t ids_index() const { return ids_index_; }
  // Returns the number of tokens of a sample if the model fixes it, else 0.
  int64_t fixed_length() const;
  // Returns the number of samples of a run if the model fixes it, else 0.
  int64_t fixed_batch() const;

  // Returns the value of each input for the tokens that follow `past` others. Caches are empty: a
  // caller with others puts them in their place. REQUIRES: `ids` is INT64 [N, S].
  std::vector<Tensor> Make(const Tensor& ids, int64_t past = 0) const;

 private:
  std::vector<TokenInput> inputs_;
  size_t ids_index_ = 0;
};

}  // namespace bitpress::data
