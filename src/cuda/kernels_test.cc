// The kernels of block formats, run on the processor, against the scalar reference.
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "cuda/launch.h"
#include "cuda/test_cases.h"
#include "cuda/test_ptx_machine.h"

namespace bitpress::cuda {
namespace {

using formats::FormatSpec;

const TranslatedKernel& FindKernel(std::string_view name) {
  for (const TranslatedKernel& kernel : TranslatedKernels()) {
    if (kernel.name == name) return kernel;
  }
  throw std::runtime_error("there is no kernel " + std::string(name));
}

uint64_t RunOnProcessor(const Launch& launch, std::span<const Region> regions) {
  if (launch.is_empty()) return 0;
  Machine machine;
  return machine.Launch(FindKernel(launch.kernel), static_cast<uint32_t>(launch.num_blocks),
                        launch.block_size, launch.parameters(), regions);
}

// Runs a format's kernel on a tensor and returns the result. Memory begins at a multiple of 16
// bytes, or an element behind one. `change` may spoil the launch.
template <class T>
std::vector<T> RunKernel(const FormatSpec& spec, const Shape& shape, const std::vector<T>& x,
                         bool in_place, size_t misalignment,
                         const std::function<void(Launch&)>& change = {}) {
  constexpr size_t kMargin = 16 / sizeof(T);
  const auto aligned = [&](std::vector<T>& buffer) {
    auto address = reinterpret_cast<uintptr_t>(buffer.data());
    address = (address + 15) / 16 * 16;
    return reinterpret_cast<T*>(address) + misalignment;
  };
  std::vector<T> input(x.size() + 2 * kMargin), output(x.size() + 2 * kMargin, T{77});
  T* const from = aligned(input);
  T* const to = in_place ? from : aligned(output);
  std::copy(x.begin(), x.end(), from);
  std::vector<Region> regions = {{to, x.size() * sizeof(T), sizeof(T), true}};
  if (!in_place) regions.push_back({from, x.size() * sizeof(T), sizeof(T), false});
  Launch launch = PlanFakeQuantize(spec, shape, sizeof(T) == 2, from, to);
  if (change) change(launch);
  RunOnProcessor(launch, regions);
  return {to, to + x.size()};
}

template <class T>
testing::AssertionResult SameBits(const std::vector<T>& expected, const std::vector<T>& found) {
  for (size_t i = 0; i < expected.size(); ++i) {
    if (expected[i] != found[i]) {
      return testing::AssertionFailure()
             << fmt::format("element {}: {:#x} instead of {:#x}", i, found[i], expected[i]);
    }
  }
  return testing::AssertionSuccess();
}

void ExpectTheReference(const FormatSpec& spec, const Shape& shape, bool special, bool in_place,
                        size_t misalignment, std::mt19937& random) {
  SCOPED_TRACE(fmt::format("{} shape [{}, {}, {}] special {} in place {} misaligned {}",
                           cases::Describe(spec), shape.outer, shape.length, shape.inner, special,
                           in_place, misalignment));
  const auto count = static_cast<size_t>(shape.outer * shape.length * shape.inner);
  const std::vector<float> values = cases::Values(count, special, random);
  std::vector<uint32_t> x(count);
  std::memcpy(x.data(), values.data(), count * sizeof(float));
  ASSERT_TRUE(SameBits(cases::Expected(spec, shape, values),
                       RunKernel(spec, shape, x, in_place, misalignment)));

  const std::vector<uint16_t> half = cases::Halves(values);
  std::vector<float> wide(count);
  kernels::HalfToFloat(half, wide.data());
  formats::ref::FakeQuantize(spec, wide, wide, shape.outer, shape.length, shape.inner);
  std::vector<uint16_t> expected(count);
  kernels::FloatToHalf(wide, expected.data());
  ASSERT_TRUE(SameBits(expected, RunKernel(spec, shape, half, in_place, misalignment)))
      << "float16";
}

// Every option of every format goes through all kernels that it has.
TEST(CudaKernels, EqualTheReference) {
  std::mt19937 random(1);
  for (const FormatSpec& spec : cases::AllSpecs()) {
    for (const Shape& shape : cases::SomeShapes()) {
      const bool in_place = random() % 2 == 0;
      ExpectTheReference(spec, shape, random() % 2 == 0, in_place, random() % 4 == 0 ? 1 : 0,
                         random);
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

TEST(WholeCudaKernels, EqualTheReferenceInManyShapes) {
  std::mt19937 random(2);
  for (const FormatSpec& spec : cases::AllSpecs()) {
    for (const Shape& shape : cases::ManyShapes()) {
      const bool special = random() % 2 == 0, in_place = random() % 2 == 0;
      ExpectTheReference(spec, shape, special, in_place, random() % 4 == 0 ? 1 : 0, random);
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

TEST(CudaKernels, ABlockIsPlannedForEveryKernel) {
  std::map<std::string, int> used;
  for (const FormatSpec& spec : cases::AllSpecs()) {
    for (const Shape& shape : cases::SomeShapes()) {
      for (const bool is_half : {false, true}) {
        ++used[PlanFakeQuantize(spec, shape, is_half, nullptr, nullptr).kernel];
      }
    }
  }
  std::vector<std::string> names;
  for (const auto& [name, count] : used) names.push_back(name);
  EXPECT_EQ(names, (std::vector<std::string>{"bitpress_any_rows", "bitpress_columns",
                                             "bitpress_elements_f16", "bitpress_elements_f32",
                                             "bitpress_rows"}));
  EXPECT_TRUE(
      PlanFakeQuantize(formats::FindFormat("mx6"), {0, 4, 1}, false, nullptr, nullptr).is_empty());
}

// A mistake in what the arithmetic reads changes some value, or the machine notices it.
TEST(CudaKernels, MistakesAreFound) {
  struct Mistake {
    const char* what;
    const char* format;
    Shape shape;
    std::function<void(BlockArgs&)> make;
  };
  constexpr uint32_t kOne = 1u << 23;
  const std::vector<Mistake> mistakes = {
      {"a step twice as large",
       "mxint8",
       {4, 64, 1},
       [](BlockArgs& a) { a.format.magic_offset += kOne; }},
      {"another limit",
       "mxfp8_e4m3",
       {4, 64, 1},
       [](BlockArgs& a) { a.format.limit_mantissa += 1u << 20; }},
      {"subnormals begin later",
       "mxfp4_e2m1",
       {4, 64, 1},
       [](BlockArgs& a) { a.format.subnormal_offset -= kOne; }},
      {"a shuffle too few", "mxfp8_e4m3", {4, 64, 1}, [](BlockArgs& a) { a.group_lanes /= 2; }},
      {"blocks that are too short",
       "mxint8",
       {1, 64, 9},
       [](BlockArgs& a) { a.format.block_size = 31; }},
      {"zeros that lose their sign",
       "mxfp8_e5m2",
       {2, 64, 3},
       [](BlockArgs& a) { a.format.way = kFloatsPositive; }},
      {"another rounding",
       "bfp16",
       {3, 24, 5},
       [](BlockArgs& a) {
         a.format.rounding = kHalfUp;
         a.format.way = kOther;
       }},
      {"another scale choice",
       "mxfp6_e2m3",
       {3, 32, 5},
       [](BlockArgs& a) { a.format.choice = kMse; }},
      {"sub-blocks that do not shift",
       "mx6",
       {8, 16, 1},
       [](BlockArgs& a) {
         a.format.max_shift_field = 0;
         a.format.max_shift = 0;
       }},
      {"an axis too long", "mxint8", {4, 40, 3}, [](BlockArgs& a) { ++a.length; }},
      {"too many columns", "mxint8", {4, 40, 3}, [](BlockArgs& a) { ++a.inner; }},
      {"too many rows", "mxint8", {4, 64, 1}, [](BlockArgs& a) { ++a.outer; }},
      {"float16 for float32", "mxint8", {4, 64, 1}, [](BlockArgs& a) { a.is_half = 1; }},
  };
  std::mt19937 random(3);
  for (const Mistake& mistake : mistakes) {
    const FormatSpec spec = formats::FindFormat(mistake.format);
    const Shape& shape = mistake.shape;
    const auto count = static_cast<size_t>(shape.outer * shape.length * shape.inner);
    const std::vector<float> values = cases::Values(count, false, random);
    std::vector<uint32_t> x(count);
    std::memcpy(x.data(), values.data(), count * sizeof(float));
    bool is_found = false;
    try {
      const auto found = RunKernel(spec, shape, x, false, 0, [&](Launch& launch) {
        mistake.make(std::get<BlockArgs>(launch.args));
      });
      is_found = found != cases::Expected(spec, shape, values);
    } catch (const std::runtime_error&) {
      is_found = true;
    }
    EXPECT_TRUE(is_found) << mistake.what;
  }
}

// Executed instructions for each value, which is what a change of the kernels must not raise
// unseen.
TEST(CudaKernels, TakeFewInstructions) {
  std::mt19937 random(4);
  struct Case {
    const char* format;
    Shape shape;
    double bound;
  };
  for (const Case& of : {Case{"mxint8", {64, 256, 1}, 40},
                         {"mxfp8_e4m3", {64, 256, 1}, 40},
                         {"mxfp4_e2m1", {64, 256, 1}, 40},
                         {"bfp16", {64, 256, 1}, 40},
                         {"mx6", {64, 256, 1}, 60},
                         {"mxint8", {4, 64, 64}, 60},
                         {"mxfp8_e4m3", {4, 64, 64}, 60}}) {
    const auto count = static_cast<size_t>(of.shape.outer * of.shape.length * of.shape.inner);
    std::vector<float> x(count + 4);
    float* const aligned =
        reinterpret_cast<float*>((reinterpret_cast<uintptr_t>(x.data()) + 15) / 16 * 16);
    const std::vector<float> values = cases::Values(count, false, random);
    std::copy(values.begin(), values.end(), aligned);
    const Launch launch =
        PlanFakeQuantize(formats::FindFormat(of.format), of.shape, false, aligned, aligned);
    const Region region{aligned, count * sizeof(float), sizeof(float), true};
    const uint64_t executed = RunOnProcessor(launch, {&region, 1});
    const double each = static_cast<double>(executed) / static_cast<double>(count);
    RecordProperty(fmt::format("{}_inner_{}", of.format, of.shape.inner),
                   fmt::format("{:.1f}", each));
    EXPECT_LE(each, of.bound) << of.format << " inner " << of.shape.inner;
    fmt::print("{:12} inner {:3}: {:5.1f} instructions a value\n", of.format, of.shape.inner, each);
  }
}

}  // namespace
}  // namespace bitpress::cuda
