#include "evaluate/batches.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace bitpress::evaluate {

std::vector<size_t> MatchByName(const std::vector<runtime::ValueDescription>& wanted,
                                const std::vector<runtime::ValueDescription>& found,
                                std::string_view what) {
  std::vector<size_t> result;
  for (const runtime::ValueDescription& value : wanted) {
    const auto match = std::find_if(found.begin(), found.end(),
                                    [&](const auto& other) { return other.name == value.name; });
    if (match == found.end()) break;
    result.push_back(static_cast<size_t>(match - found.begin()));
  }
  if (result.size() == wanted.size()) return result;
  if (wanted.size() != found.size()) {
    Fail(ErrorCode::kInvalidArgument,
         "the model and its reference have {} and {} {}s with other names; compare models of the "
         "same network",
         found.size(), wanted.size(), what);
  }
  for (size_t i = 0; i < result.size(); ++i) result[i] = i;
  for (size_t i = result.size(); i < wanted.size(); ++i) result.push_back(i);
  return result;
}

void PadBatch(std::vector<Tensor>& inputs, size_t num_samples, size_t size) {
  for (Tensor& input : inputs) {
    if (input.dims.empty() || input.dims[0] != static_cast<int64_t>(num_samples)) continue;
    const size_t row_bytes = input.bytes.size() / num_samples;
    input.bytes.resize(row_bytes * size);
    for (size_t i = num_samples; i < size; ++i) {
      std::memcpy(input.bytes.data() + i * row_bytes,
                  input.bytes.data() + (num_samples - 1) * row_bytes, row_bytes);
    }
    input.dims[0] = static_cast<int64_t>(size);
  }
}

Tensor IdsOf(const data::TokenInputs& tokens, const std::vector<Tensor>& inputs) {
  const Tensor& ids = inputs[tokens.ids_index()];
  if (ids.type == DataType::kInt64) return ids;
  const std::span<const int32_t> narrow = ids.values<int32_t>();
  Tensor result{.type = DataType::kInt64, .dims = ids.dims, .bytes = {}};
  result.bytes.resize(narrow.size() * sizeof(int64_t));
  std::copy(narrow.begin(), narrow.end(), result.values<int64_t>().begin());
  return result;
}

}  // namespace bitpress::evaluate
