#include "evaluate/outputs.h"

#include <algorithm>

#include "formats/reference.h"

namespace bitpress::evaluate {
namespace {

// Returns elements [begin, begin + count); nothing if they are no floats.
std::vector<double> ToDoubles(const Tensor& tensor, size_t begin, size_t count) {
  const auto decode = [&](formats::ElementType type) {
    std::vector<double> values;
    values.reserve(count);
    for (const uint16_t code : tensor.values<uint16_t>().subspan(begin, count)) {
      values.push_back(formats::ref::DecodeFloat(code, type));
    }
    return values;
  };
  const auto copy = [&](auto all) {
    const auto values = all.subspan(begin, count);
    return std::vector<double>(values.begin(), values.end());
  };
  switch (tensor.type) {
    case DataType::kFloat16:
      return decode(formats::ElementType::kFloat16);
    case DataType::kBFloat16:
      return decode(formats::ElementType::kBFloat16);
    case DataType::kDouble:
      return copy(tensor.values<double>());
    case DataType::kFloat:
      return copy(tensor.values<float>());
    default:
      return {};
  }
}

// Returns the elements of a tensor of integers; nothing if it is none.
std::vector<int64_t> ToIntegers(const Tensor& tensor) {
  const auto copy = [](auto values) {
    std::vector<int64_t> integers;
    integers.reserve(values.size());
    for (const auto value : values) integers.push_back(static_cast<int64_t>(value));
    return integers;
  };
  switch (tensor.type) {
    case DataType::kBool:
    case DataType::kUInt8:
      return copy(tensor.values<uint8_t>());
    case DataType::kInt8:
      return copy(tensor.values<int8_t>());
    case DataType::kInt16:
      return copy(tensor.values<int16_t>());
    case DataType::kUInt16:
      return copy(tensor.values<uint16_t>());
    case DataType::kInt32:
      return copy(tensor.values<int32_t>());
    case DataType::kInt64:
      return copy(tensor.values<int64_t>());
    default:
      return {};
  }
}

}  // namespace

bool Output::HasClassScores(size_t batch_size) const {
  return !values.empty() && dims.size() >= 2 && IsPerSample(batch_size) && dims[1] >= 2 &&
         std::all_of(dims.begin() + 2, dims.end(), [](int64_t dim) { return dim == 1; });
}

std::vector<double> RowOf(const Tensor& tensor, size_t row, size_t size) {
  BITPRESS_DCHECK(IsFloat(tensor.type));
  return ToDoubles(tensor, row * size, size);
}

Output ToOutput(const Tensor& tensor) {
  if (!IsFloat(tensor.type)) return {tensor.dims, {}, ToIntegers(tensor)};
  return {tensor.dims, ToDoubles(tensor, 0, static_cast<size_t>(tensor.num_elements()))};
}

}  // namespace bitpress::evaluate
