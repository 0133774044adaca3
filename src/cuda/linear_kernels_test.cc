// The kernels of codes with scale and zero point, run on the processor, against the operators' own
// code for it.
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "cuda/launch.h"
#include "cuda/test_cases.h"
#include "cuda/test_ptx_machine.h"
#include "kernels/extended_codes.h"

namespace bitpress::cuda {
namespace {

void RunLinear(const Launch& launch, std::span<const Region> regions) {
  for (const TranslatedKernel& kernel : TranslatedKernels()) {
    if (kernel.name != launch.kernel) continue;
    Machine().Launch(kernel, static_cast<uint32_t>(launch.num_blocks), launch.block_size,
                     launch.parameters(), regions);
    return;
  }
  FAIL() << "there is no kernel " << launch.kernel;
}

template <class T>
Region ReadOnly(const std::vector<T>& memory) {
  return {memory.data(), memory.size() * sizeof(T), sizeof(T), false};
}

struct Layout {
  size_t outer, num_scales, inner;
};
constexpr Layout kLayouts[] = {{1, 1, 1001}, {3, 5, 7}, {2, 64, 1}, {1, 3, 160}};

template <class CodeType, Code kCode>
class Codes {
 public:
  explicit Codes(uint32_t seed) : random_(seed) {}

  void Check() {
    for (const Layout& layout : kLayouts) {
      for (int round = 0; round < 6; ++round) {
        SCOPED_TRACE(fmt::format("code {} layout {}x{}x{}", static_cast<int>(kCode), layout.outer,
                                 layout.num_scales, layout.inner));
        Draw(layout);
        CheckQuantize<float>(layout);
        CheckQuantize<kernels::Half>(layout);
        CheckDequantize(layout);
        if (testing::Test::HasFatalFailure()) return;
      }
    }
  }

 private:
  CodeType AnyCode() {
    const uint32_t draw = static_cast<uint32_t>(random_());
    CodeType code;
    std::memcpy(&code, &draw, sizeof code);
    return code;
  }

  void Draw(const Layout& layout) {
    scales_.resize(layout.num_scales);
    zeros_.resize(layout.num_scales);
    for (size_t i = 0; i < layout.num_scales; ++i) {
      scales_[i] = std::ldexp(static_cast<float>(1 + random_() % 1000),
                              static_cast<int>(random_() % 20) - 20);
      if (random_() % 20 == 0) scales_[i] = std::ldexp(1.0f, random_() % 2 == 0 ? -149 : 127);
      zeros_[i] = random_() % 3 == 0 ? CodeType{} : AnyCode();
    }
    values_ = cases::Values(layout.outer * layout.num_scales * layout.inner, true, random_);
  }

  LinearTensors Tensors(const Layout& layout, const void* x, void* y) const {
    LinearTensors tensors;
    tensors.x = x;
    tensors.y = y;
    tensors.scales = scales_.data();
    tensors.zero_points = zeros_.data();
    tensors.count = static_cast<int64_t>(values_.size());
    tensors.inner = static_cast<int64_t>(layout.inner);
    tensors.num_scales = static_cast<int64_t>(layout.num_scales);
    tensors.code = kCode;
    return tensors;
  }

  template <class Function>
  void ForEachRun(const Layout& layout, const Function& function) {
    for (size_t run = 0; run < layout.outer * layout.num_scales; ++run) {
      function(run * layout.inner, layout.inner, scales_[run % layout.num_scales],
               zeros_[run % layout.num_scales]);
    }
  }

  template <class Input>
  void CheckQuantize(const Layout& layout) {
    std::vector<Input> x(values_.size());
    if constexpr (sizeof(Input) == 2) {
      const std::vector<uint16_t> half = cases::Halves(values_);
      std::memcpy(x.data(), half.data(), half.size() * 2);
    } else {
      x.assign(values_.begin(), values_.end());
    }
    std::vector<CodeType> expected(x.size()), found(x.size());
    ForEachRun(layout, [&](size_t begin, size_t size, float scale, CodeType zero) {
      kernels::QuantizeExtended(x.data() + begin, expected.data() + begin, size, scale, zero);
    });
    const std::vector<Region> regions = {
        ReadOnly(x),
        ReadOnly(scales_),
        ReadOnly(zeros_),
        {found.data(), found.size() * sizeof(CodeType), sizeof(CodeType), true}};
    RunLinear(PlanQuantize(Tensors(layout, x.data(), found.data()), sizeof(Input) == 2), regions);
    for (size_t i = 0; i < x.size(); ++i) {
      uint32_t a = 0, b = 0;
      std::memcpy(&a, &expected[i], sizeof(CodeType));
      std::memcpy(&b, &found[i], sizeof(CodeType));
      ASSERT_EQ(a, b) << "element " << i << " of " << values_[i] << " scale "
                      << scales_[i / layout.inner % layout.num_scales];
    }
  }

  void CheckDequantize(const Layout& layout) {
    std::vector<CodeType> x(values_.size());
    for (CodeType& code : x) code = AnyCode();
    std::vector<float> expected(x.size()), found(x.size());
    ForEachRun(layout, [&](size_t begin, size_t size, float scale, CodeType zero) {
      kernels::DequantizeExtended(x.data() + begin, expected.data() + begin, size, scale, zero);
    });
    const std::vector<Region> regions = {
        ReadOnly(x),
        ReadOnly(scales_),
        ReadOnly(zeros_),
        {found.data(), found.size() * sizeof(float), sizeof(float), true}};
    RunLinear(PlanDequantize(Tensors(layout, x.data(), found.data())), regions);
    for (size_t i = 0; i < x.size(); ++i) {
      ASSERT_EQ(std::bit_cast<uint32_t>(expected[i]), std::bit_cast<uint32_t>(found[i]))
          << "element " << i;
    }
  }

  std::mt19937 random_;
  std::vector<float> scales_, values_;
  std::vector<CodeType> zeros_;
};

TEST(CudaLinear, UInt8) { Codes<uint8_t, kUInt8>(1).Check(); }
TEST(CudaLinear, Int8) { Codes<int8_t, kInt8>(2).Check(); }
TEST(CudaLinear, UInt16) { Codes<uint16_t, kUInt16>(3).Check(); }
TEST(CudaLinear, Int16) { Codes<int16_t, kInt16>(4).Check(); }
TEST(CudaLinear, UInt32) { Codes<uint32_t, kUInt32>(5).Check(); }
TEST(CudaLinear, Int32) { Codes<int32_t, kInt32>(6).Check(); }
TEST(CudaLinear, Half) { Codes<kernels::Half, kHalf>(7).Check(); }
TEST(CudaLinear, BFloat16) { Codes<kernels::BFloat16, kBFloat16>(8).Check(); }

}  // namespace
}  // namespace bitpress::cuda
