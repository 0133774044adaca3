#include "data/token_inputs.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "base/error.h"

namespace bitpress::data {
namespace {

// Names of exporters. A cache is any input whose name begins with "past".
struct KnownName {
  std::string_view name;
  TokenInputKind kind;
};
constexpr KnownName kKnownNames[] = {
    {"input_ids", TokenInputKind::kIds},
    {"attention_mask", TokenInputKind::kMask},
    {"position_ids", TokenInputKind::kPositions},
    {"token_type_ids", TokenInputKind::kSegments},
    {"use_cache_branch", TokenInputKind::kUseCache},
    {"total_sequence_length", TokenInputKind::kTotalLength},
    {"total_seq_len", TokenInputKind::kTotalLength},
    {"seqlens_k", TokenInputKind::kLastPosition},
};

std::optional<TokenInputKind> KindOf(const std::string& name, const graph::ValueInfo& info) {
  for (const KnownName& known : kKnownNames) {
    if (name == known.name) return known.kind;
  }
  const bool is_float = info.type == DataType::kFloat || info.type == DataType::kFloat16 ||
                        info.type == DataType::kBFloat16;
  const bool is_codes = info.type == DataType::kInt8 || info.type == DataType::kUInt8;
  if (name.starts_with("past") && (is_float || is_codes) && info.shape.size() >= 3) {
    return TokenInputKind::kCache;
  }
  return std::nullopt;
}

size_t WantedRank(TokenInputKind kind) {
  return kind == TokenInputKind::kUseCache || kind == TokenInputKind::kLastPosition ? 1 : 2;
}

std::string ShapeText(const std::vector<int64_t>& dims) {
  std::vector<std::string> words;
  for (const int64_t dim : dims) words.push_back(dim < 0 ? "?" : std::to_string(dim));
  return fmt::format("[{}]", fmt::join(words, ", "));
}

[[noreturn]] void FailShape(const TokenInput& input, std::string_view wanted) {
  Fail(ErrorCode::kUnsupported,
       "input '{}' has the shape {}, expected {}; give samples of all inputs in a folder instead "
       "of tokens",
       input.name, ShapeText(input.dims), wanted);
}

// Returns the axis of a cache that counts samples: the one whose symbol the ids have too, else the
// first one.
size_t BatchAxis(const graph::ValueInfo& cache, const graph::ValueInfo& ids) {
  const std::string& symbol = ids.shape[0].symbol;
  for (size_t i = 0; !symbol.empty() && i < cache.shape.size(); ++i) {
    if (cache.shape[i].symbol == symbol) return i;
  }
  return 0;
}

// Returns a tensor of `type` whose element i is value(i).
template <typename Value>
Tensor Fill(DataType type, std::vector<int64_t> dims, Value&& value) {
  Tensor tensor{.type = type, .dims = std::move(dims), .bytes = {}};
  const int64_t count = tensor.num_elements();
  tensor.bytes.resize(NumBytes(type, count));
  const auto fill = [&]<typename T>(std::span<T> values) {
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<T>(value(static_cast<int64_t>(i)));
    }
  };
  switch (type) {
    case DataType::kInt64:
      fill(tensor.values<int64_t>());
      break;
    case DataType::kInt32:
      fill(tensor.values<int32_t>());
      break;
    case DataType::kFloat:
      fill(tensor.values<float>());
      break;
    case DataType::kBool:
      fill(tensor.values<uint8_t>());
      break;
    default:
      BITPRESS_DCHECK(count == 0);  // the constructor lets no other type pass but for caches
  }
  return tensor;
}

void CheckShape(const TokenInput& input) {
  const size_t rank = input.dims.size();
  switch (input.kind) {
    case TokenInputKind::kTotalLength:
      if (rank > 1) FailShape(input, "a scalar or one element");
      return;
    case TokenInputKind::kCache: {
      size_t num_free = 0;
      for (size_t i = 0; i < rank; ++i) num_free += i != input.batch_axis && input.dims[i] < 0;
      if (num_free != 1) FailShape(input, "one free dimension beside that of the samples");
      return;
    }
    default:
      if (rank != WantedRank(input.kind)) {
        FailShape(input, WantedRank(input.kind) == 1 ? "one dimension" : "[samples, tokens]");
      }
  }
}

}  // namespace

TokenInputs::TokenInputs(const graph::Model& model) {
  const std::vector<std::string> names = model.InputNames();
  const auto ids = std::find(names.begin(), names.end(), "input_ids");
  if (ids == names.end()) {
    Fail(ErrorCode::kUnsupported,
         "the model has no input 'input_ids' for tokens; its inputs are {}",
         fmt::join(names, ", "));
  }
  ids_index_ = static_cast<size_t>(ids - names.begin());
  const graph::ValueInfo ids_info = model.InfoOf(*ids);
  for (const std::string& name : names) {
    const graph::ValueInfo info = model.InfoOf(name);
    const std::optional<TokenInputKind> kind = KindOf(name, info);
    if (!kind) {
      Fail(ErrorCode::kUnsupported,
           "input '{}' does not follow from token ids; give samples of all inputs in a folder "
           "instead of tokens",
           name);
    }
    TokenInput input{.name = name, .kind = *kind, .type = info.type, .dims = {}};
    for (const graph::Dimension& dim : info.shape) {
      input.dims.push_back(dim.value > 0 ? dim.value : -1);
    }
    const bool is_cache = *kind == TokenInputKind::kCache;
    const bool is_integer = info.type == DataType::kInt64 || info.type == DataType::kInt32;
    const bool can_fill =
        is_integer || (*kind != TokenInputKind::kIds &&
                       (info.type == DataType::kFloat || info.type == DataType::kBool));
    if (!is_cache && !can_fill) {
      Fail(ErrorCode::kUnsupported, "input '{}' has the element type {}, expected an integer", name,
           DataTypeName(info.type));
    }
    if (is_cache && ids_info.shape.size() == 2) input.batch_axis = BatchAxis(info, ids_info);
    CheckShape(input);
    inputs_.push_back(std::move(input));
  }
}

int64_t TokenInputs::fixed_length() const {
  return std::max<int64_t>(0, inputs_[ids_index_].dims[1]);
}

int64_t TokenInputs::fixed_batch() const {
  return std::max<int64_t>(0, inputs_[ids_index_].dims[0]);
}

std::vector<Tensor> TokenInputs::Make(const Tensor& ids, int64_t past) const {
  BITPRESS_DCHECK(ids.type == DataType::kInt64 && ids.dims.size() == 2);
  const std::span<const int64_t> tokens = ids.values<int64_t>();
  const int64_t rows = ids.dims[0];
  const int64_t length = ids.dims[1];
  const auto constant = [](int64_t value) { return [value](int64_t) { return value; }; };
  std::vector<Tensor> values;
  for (const TokenInput& input : inputs_) {
    const auto add = [&](std::vector<int64_t> dims, auto value) {
      values.push_back(Fill(input.type, std::move(dims), value));
    };
    switch (input.kind) {
      case TokenInputKind::kIds:
        add(ids.dims, [&](int64_t i) { return tokens[static_cast<size_t>(i)]; });
        break;
      case TokenInputKind::kMask:
        add({rows, past + length}, constant(1));
        break;
      case TokenInputKind::kPositions:
        add(ids.dims, [&](int64_t i) { return past + i % length; });
        break;
      case TokenInputKind::kSegments:
        add(ids.dims, constant(0));
        break;
      case TokenInputKind::kCache: {
        std::vector<int64_t> dims = input.dims;
        for (int64_t& dim : dims) dim = std::max<int64_t>(dim, 0);
        dims[input.batch_axis] = rows;
        add(std::move(dims), constant(0));
        break;
      }
      case TokenInputKind::kUseCache:
        add({1}, constant(past > 0 ? 1 : 0));
        break;
      case TokenInputKind::kTotalLength:
        add(std::vector<int64_t>(input.dims.size(), 1), constant(past + length));
        break;
      case TokenInputKind::kLastPosition:
        add({rows}, constant(past + length - 1));
        break;
    }
  }
  return values;
}

}  // namespace bitpress::data
