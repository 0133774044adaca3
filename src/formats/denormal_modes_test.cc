// ONNX Runtime may set the processor to treat subnormal floats as zero. The reference gives the
// same bits then.
#include <gtest/gtest.h>

#include <vector>

#include "formats/float_bits.h"
#include "formats/format_spec.h"
#include "formats/reference.h"
#include "formats/test_block_cases.h"

#if defined(__x86_64__) || defined(_M_X64)
#include <xmmintrin.h>

namespace bitpress::formats {
namespace {

using testing_cases::BlockCases;

// A guard that makes the processor take denormals as zero and flush results to zero while it lives.
class DenormalsAreZero {
 public:
  DenormalsAreZero() : saved_(_mm_getcsr()) {
    constexpr unsigned kFlushToZero = 0x8000;
    constexpr unsigned kDenormalsAreZero = 0x0040;
    _mm_setcsr(saved_ | kFlushToZero | kDenormalsAreZero);
  }
  ~DenormalsAreZero() { _mm_setcsr(saved_); }
  DenormalsAreZero(const DenormalsAreZero&) = delete;
  DenormalsAreZero& operator=(const DenormalsAreZero&) = delete;

 private:
  unsigned saved_;
};

TEST(DenormalModes, TheModeIsOnInTheseTests) {
  volatile float tiny = 0x1p-140f;
  const volatile float one = 1.0f;
  EXPECT_NE(tiny * one, 0.0f);
  const DenormalsAreZero guard;
  EXPECT_EQ(tiny * one, 0.0f);
}

// Returns blocks of small exponents and of the ends, with subnormal outputs, scales or errors.
std::vector<std::vector<float>> Blocks(const FormatSpec& spec) {
  BlockCases cases(spec, 31);
  std::vector<std::vector<float>> blocks;
  for (const int exponent : {-149, -140, -131, -127, -126, -125, -120, -112, -90, -64, 0, 127}) {
    for (const float amax : cases.Edges(exponent)) {
      blocks.push_back(cases.Fill(amax, static_cast<size_t>(spec.block_size)));
    }
  }
  return blocks;
}

std::vector<uint32_t> Results(const FormatSpec& spec,
                              const std::vector<std::vector<float>>& blocks) {
  std::vector<uint32_t> results;
  for (const std::vector<float>& x : blocks) {
    const ref::BlockCodes codes = ref::QuantizeBlock(spec, x);
    std::vector<float> y(x.size());
    ref::DequantizeBlock(spec, codes, y);
    results.push_back(ref::ScaleCode(spec, codes));
    for (size_t i = 0; i < x.size(); ++i) {
      results.push_back(codes.codes[i]);
      results.push_back(FloatBits(y[i]));
    }
    ref::FakeQuantizeBlock(spec, x, y);
    for (const float value : y) results.push_back(FloatBits(value));
  }
  return results;
}

TEST(DenormalModes, BlockFormatsGiveTheSameBits) {
  for (const FormatSpec& row : testing_cases::TestedFormats()) {
    for (const ScaleChoice choice : testing_cases::ScaleChoices()) {
      FormatSpec spec = row;
      spec.scale_choice = choice;
      const auto blocks = Blocks(spec);
      const std::vector<uint32_t> expected = Results(spec, blocks);
      std::vector<uint32_t> actual;
      {
        const DenormalsAreZero guard;
        actual = Results(spec, blocks);
      }
      EXPECT_EQ(actual, expected) << spec.name << " " << ScaleChoiceName(choice);
    }
  }
}

TEST(DenormalModes, FloatFormatsGiveTheSameBits) {
  std::vector<float> x;
  for (uint32_t bits = 1; bits < 0x7F800000u; bits += 70001) x.push_back(FloatFromBits(bits));
  for (uint32_t bits = 1; bits < 0x02000000u; bits += 5003) x.push_back(-FloatFromBits(bits));
  for (const char* name : {"fp16", "bf16", "fp8_e4m3", "fp8_e5m2"}) {
    const FormatSpec spec = FindFormat(name);
    std::vector<float> expected(x.size());
    std::vector<float> actual(x.size());
    ref::FakeQuantizeBlock(spec, x, expected);
    {
      const DenormalsAreZero guard;
      ref::FakeQuantizeBlock(spec, x, actual);
    }
    for (size_t i = 0; i < x.size(); ++i) {
      ASSERT_EQ(FloatBits(actual[i]), FloatBits(expected[i])) << name << " " << FloatBits(x[i]);
    }
  }
}

TEST(DenormalModes, IntegersGiveTheSameCodesAndValues) {
  const CodeRange range = IntegerRange(ElementType::kInt8);
  const auto results = [&] {
    std::vector<int64_t> all;
    for (const float scale : {0x1p-149f, 0x1.8p-130f, 0x1p-127f, 0x1p-126f, 0x1p-120f, 0x1p120f}) {
      for (uint32_t bits = 0; bits < 0x04000000u; bits += 100003) {
        all.push_back(ref::QuantizeInteger(FloatFromBits(bits), scale, 3, range));
      }
      for (int64_t code = range.quant_min; code <= range.quant_max; ++code) {
        all.push_back(FloatBits(ref::DequantizeInteger(code, scale, 3)));
      }
    }
    return all;
  };
  const std::vector<int64_t> expected = results();
  std::vector<int64_t> actual;
  {
    const DenormalsAreZero guard;
    actual = results();
  }
  EXPECT_EQ(actual, expected);
}

}  // namespace
}  // namespace bitpress::formats

#endif
