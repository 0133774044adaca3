// For the tests in Python: ranges of the float32 elements of an .npy file.
//   choose_ranges X.npy METHOD[:asymmetric] ...  prints "range_min range_max scale zero_point" a
//   method, for int8 or uint8 choose_ranges X.npy entropy=BINS             the same for entropy on
//   so many bins and 128 quantized ones: two edges choose_ranges COUNTS.npy divergence=N first and
//   last bin of the least divergence, N quantized bins choose_ranges X.npy fp8=METHOD the scale of
//   fp8_e4m3
#include <chrono>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "calibrate/entropy_range.h"
#include "calibrate/range_methods.h"
#include "data/npy.h"

namespace {

using namespace bitpress;

std::vector<float> ReadFloats(const char* path) {
  const Tensor tensor = data::NpyFile(path).Read();
  if (tensor.type != DataType::kFloat) Fail(ErrorCode::kInvalidArgument, "{}: no float32", path);
  std::vector<float> values(tensor.bytes.size() / sizeof(float));
  std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
  return values;
}

void Answer(const std::vector<float>& values, const calibrate::TensorStatistics& statistics,
            std::string_view question) {
  const size_t equals = question.find('=');
  const std::string_view word = question.substr(0, equals);
  const std::string value(equals == question.npos ? "" : question.substr(equals + 1));
  if (word == "divergence") {
    calibrate::UniformHistogram histogram{1, {values.begin(), values.end()}};
    const auto range = calibrate::LeastDivergence(histogram, std::stoul(value));
    std::printf("%zu %zu\n", range.first, range.last);
  } else if (word == "entropy" && !value.empty()) {
    const auto histogram = calibrate::ToUniform(statistics, std::stoul(value));
    const auto range = calibrate::LeastDivergence(histogram, 128);
    std::printf("%.9g %.9g\n", histogram.Edge(range.first), histogram.Edge(range.last));
  } else if (word == "fp8") {
    std::printf("%.9g\n", calibrate::ChooseFloatScale(statistics, plan::ParseRangeMethod(value),
                                                      formats::FindFormat("fp8_e4m3")));
  } else {
    const size_t colon = question.find(':');
    const auto method = plan::ParseRangeMethod(question.substr(0, colon));
    const bool is_symmetric = colon == question.npos;
    const formats::IntegerSpec spec{
        is_symmetric ? formats::ElementType::kInt8 : formats::ElementType::kUInt8, is_symmetric};
    const auto params = calibrate::ChooseQParams(statistics, method, spec);
    calibrate::Range range;
    try {
      range = calibrate::ChooseRange(statistics, method, spec);
    } catch (const Error&) {  // a method that chooses scales
      const formats::FloatRange floats = formats::RangeOf(params, spec);
      range = {floats.min, floats.max};
    }
    std::printf("%.9g %.9g %.9g %lld\n", range.min, range.max, params.scale,
                static_cast<long long>(params.zero_point));
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const std::vector<float> values = ReadFloats(argc > 1 ? argv[1] : "");
    calibrate::TensorStatistics statistics;
    statistics.Add(values);
    for (int i = 2; i < argc; ++i) {
      const auto start = std::chrono::steady_clock::now();
      Answer(values, statistics, argv[i]);
      const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
      std::fprintf(stderr, "%s: %.3f ms\n", argv[i], seconds.count() * 1e3);
    }
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
