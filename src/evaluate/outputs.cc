#include "evaluate/outputs.h"

#include <algorithm>

#include "formats/reference.h"

namespace bitpress::evaluate {
namespace {

std::vector<double> ToDoubles(const Tensor& tensor) {
  const auto decode = [&](formats::ElementType type) {
    std::vector<double> values;
    for (const uint16_t code : tensor.values<uint16_t>()) {
      values.push_back(formats::ref::DecodeFloat(code, type));
    }
    return values;
  };
  const auto copy = [](auto values) { return std::vector<double>(values.begin(), values.end()); };
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

}  // namespace

bool Output::HasClassScores(size_t batch_size) const {
  return !values.empty() && dims.size() >= 2 && IsPerSample(batch_size) && dims[1] >= 2 &&
         std::all_of(dims.begin() + 2, dims.end(), [](int64_t dim) { return dim == 1; });
}

Output ToOutput(const Tensor& tensor) { return {tensor.dims, ToDoubles(tensor)}; }

}  // namespace bitpress::evaluate
