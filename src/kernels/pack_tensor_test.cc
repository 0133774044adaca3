// Tests of fast packing against the reference: the same bytes, the same values, the same refusals,
// for any number of threads and in every mode of the processor.
#include "kernels/pack_tensor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <string>
#include <vector>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "base/error.h"
#include "formats/float_bits.h"
#include "formats/pack.h"
#include "formats/reference.h"
#include "formats/test_packing_cases.h"
#include "kernels/packed_plane.h"
#include "kernels/test_shapes.h"

namespace bitpress::kernels {
namespace {

using formats::FloatBits;
using formats::FormatSpec;
using formats::PackedTensor;
using formats::packing_cases::Describe;

constexpr formats::ScaleChoice kScaleChoices[] = {
    formats::ScaleChoice::kFloor, formats::ScaleChoice::kCeil, formats::ScaleChoice::kEven,
    formats::ScaleChoice::kMse};

// Returns shapes with short last blocks, odd counts, strides around vectors and chunks of columns,
// and no elements at all.
const std::vector<Shape>& PackedShapes() {
  static const std::vector<Shape> shapes = {
      {1, 1, 1},   {3, 5, 1},  {1, 32, 1},  {7, 33, 1},   {5, 64, 1},  {2, 200, 1}, {1, 4099, 1},
      {9, 100, 1}, {1, 32, 2}, {2, 3, 7},   {1, 31, 15},  {1, 33, 16}, {2, 40, 17}, {3, 64, 49},
      {5, 1, 9},   {1, 1, 40}, {1, 70, 64}, {1, 32, 515}, {0, 3, 4},   {3, 0, 4},   {3, 4, 0}};
  return shapes;
}

PackedTensor Pack(const FormatSpec& spec, const Shape& shape, const std::vector<float>& y,
                  ThreadPool& pool) {
  PackedTensor packed(formats::SizesOf(spec, shape.outer, shape.axis, shape.inner));
  for (auto* part : {&packed.codes, &packed.low_codes, &packed.scales, &packed.shifts}) {
    std::fill(part->begin(), part->end(), uint8_t{0xA5});
  }
  PackTensor(spec, shape.outer, shape.axis, shape.inner, y, packed.spans(), pool);
  return packed;
}

std::vector<float> Unpack(const FormatSpec& spec, const Shape& shape, const PackedTensor& packed,
                          ThreadPool& pool) {
  std::vector<float> y(shape.count(), 12345.0f);
  UnpackTensor(spec, shape.outer, shape.axis, shape.inner, packed.view(), y, pool);
  return y;
}

void ExpectUnpacks(const FormatSpec& spec, const Shape& shape, const PackedTensor& packed,
                   const std::vector<float>& y, ThreadPool& pool) {
  ASSERT_TRUE(SameValues(y, Unpack(spec, shape, packed, pool).data()))
      << Describe(spec) << shape.name();
}

std::string RefusalOf(const auto& function) {
  try {
    function();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    return error.what();
  }
  return "";
}

TEST(PackedPlane, CodesArePackedAsTheReferencePacksThem) {
  std::mt19937 random(1);
  for (int bits = 1; bits <= 8; ++bits) {
    for (size_t count = 0; count < 70; ++count) {
      std::vector<uint8_t> codes(count), unpacked(count);
      for (uint8_t& code : codes) code = static_cast<uint8_t>(random() & ((1u << bits) - 1));
      std::vector<uint8_t> expected(formats::PackedBytes(count, bits)),
          found(expected.size(), 0xA5);
      formats::PackCodes(codes, bits, expected);
      PackCodes(codes, bits, found);
      ASSERT_EQ(found, expected) << bits << " bits, " << count << " codes";
      UnpackCodes(found, bits, unpacked);
      ASSERT_EQ(unpacked, codes) << bits << " bits, " << count << " codes";
    }
  }
}

TEST(PackedPlane, BatchesMayEndInsideAGroup) {
  std::mt19937 random(2);
  ThreadPool pool(2);
  for (const int bits : {3, 4, 6, 8}) {
    std::vector<uint8_t> codes(200003);
    for (uint8_t& code : codes) code = static_cast<uint8_t>(random() & ((1u << bits) - 1));
    std::vector<uint8_t> expected(formats::PackedBytes(codes.size(), bits)), found(expected.size());
    formats::PackCodes(codes, bits, expected);
    PlaneWriter writer(bits, found);
    PlaneReader reader(bits, expected);
    for (size_t first = 0; first < codes.size();) {
      const size_t count = std::min<size_t>(random() % 3 == 0 ? random() % 5 : random() % 150000,
                                            codes.size() - first);
      std::copy_n(codes.begin() + static_cast<std::ptrdiff_t>(first), count, writer.Begin(count));
      const uint8_t* const read = reader.Read(first, count, pool);
      ASSERT_TRUE(std::equal(read, read + count, codes.data() + first));
      first += count;
      writer.Finish(first == codes.size(), pool);
    }
    ASSERT_EQ(found, expected) << bits;
  }
}

void ExpectTheReferencesBytes(const std::vector<FormatSpec>& formats) {
  std::mt19937 random(3);
  ThreadPool pool(1);
  for (const FormatSpec& base : formats) {
    // Packing does not know the choice of the scales, but each gives other values.
    int choice = 0;
    for (const Shape& shape : PackedShapes()) {
      for (const bool all_exponents : {false, true}) {
        FormatSpec spec = base;
        if (spec.is_blocked()) spec.scale_choice = kScaleChoices[++choice % 4];
        const std::string where =
            fmt::format("{} {} {}", Describe(spec), shape.name(), all_exponents);
        const std::vector<float> y = formats::packing_cases::Quantized(
            spec, shape.outer, shape.axis, shape.inner, all_exponents, random);
        const PackedTensor expected =
            formats::ref::PackTensor(spec, shape.outer, shape.axis, shape.inner, y);
        const PackedTensor found = Pack(spec, shape, y, pool);
        ASSERT_EQ(found.scales, expected.scales) << where;
        ASSERT_EQ(found.shifts, expected.shifts) << where;
        ASSERT_EQ(found.codes, expected.codes) << where;
        ASSERT_EQ(found.low_codes, expected.low_codes) << where;
        ExpectUnpacks(spec, shape, found, y, pool);
      }
    }
  }
}

bool IsOfTheTable(const FormatSpec& spec) {
  return std::ranges::any_of(formats::AllFormats(),
                             [&](const FormatSpec& row) { return row == spec; });
}

TEST(PackTensor, EqualsTheReference) {
  std::vector<FormatSpec> formats = formats::packing_cases::Specs();
  std::erase_if(formats, [](const FormatSpec& spec) { return !IsOfTheTable(spec); });
  ExpectTheReferencesBytes(formats);
}

TEST(WholePackTensor, EqualsTheReferenceInOtherFormats) {
  std::vector<FormatSpec> formats = formats::packing_cases::Specs();
  std::erase_if(formats, IsOfTheTable);
  ExpectTheReferencesBytes(formats);
}

// Tensors that are more than one batch of a thread, but not a whole number of batches, and many
// tasks of three threads.
void ExpectAnyThreadsPack(const char* name, const std::vector<Shape>& shapes) {
  std::mt19937 random(4);
  ThreadPool one(1), three(3);
  const FormatSpec spec = formats::FindFormat(name);
  for (const Shape& shape : shapes) {
    const std::vector<float> y = formats::packing_cases::Quantized(spec, shape.outer, shape.axis,
                                                                   shape.inner, false, random);
    const PackedTensor expected =
        formats::ref::PackTensor(spec, shape.outer, shape.axis, shape.inner, y);
    for (ThreadPool* pool : {&one, &three}) {
      ASSERT_TRUE(Pack(spec, shape, y, *pool) == expected) << name << shape.name();
      ExpectUnpacks(spec, shape, expected, y, *pool);
    }
  }
}

TEST(PackTensor, ALargeTensorOnAnyNumberOfThreadsEqualsTheReference) {
  ExpectAnyThreadsPack("mx6", {{271, 1003, 1}});
}

TEST(WholePackTensor, LargeTensorsOnAnyNumberOfThreadsEqualTheReference) {
  for (const char* const name : {"mx6", "mxfp4_e2m1", "bfp(bits=20, block=32)", "fp16"}) {
    ExpectAnyThreadsPack(name, {{1, 270001, 1}, {271, 1003, 1}, {1, 97, 2801}, {3, 5, 20001}});
  }
}

TEST(PackTensor, AnyBytesHaveTheReferencesValues) {
  std::mt19937 random(5);
  ThreadPool pool(1);
  for (const FormatSpec& spec : formats::packing_cases::Specs()) {
    for (const Shape& shape : {Shape{7, 33, 1}, Shape{2, 40, 17}, Shape{1, 4099, 1}}) {
      PackedTensor packed(formats::SizesOf(spec, shape.outer, shape.axis, shape.inner));
      for (auto* part : {&packed.codes, &packed.low_codes, &packed.scales, &packed.shifts}) {
        for (uint8_t& byte : *part) byte = static_cast<uint8_t>(random());
      }
      std::vector<float> expected(shape.count());
      formats::ref::UnpackTensor(spec, shape.outer, shape.axis, shape.inner, packed.view(),
                                 expected);
      ExpectUnpacks(spec, shape, packed, expected, pool);
    }
  }
}

// Breaks quantized tensors in three places, with values of every kind that has no code.
void ExpectSameRefusals(const FormatSpec& spec, const Shape& shape, ThreadPool& pool,
                        std::mt19937& random) {
  SCOPED_TRACE(Describe(spec) + shape.name());
  const auto refusal_of_reference = [&](const std::vector<float>& y) {
    return RefusalOf(
        [&] { formats::ref::PackTensor(spec, shape.outer, shape.axis, shape.inner, y); });
  };
  const std::vector<float> y =
      formats::packing_cases::Quantized(spec, shape.outer, shape.axis, shape.inner, false, random);
  constexpr uint32_t kBad[] = {0x7FC00000u, 0xFF800000u, 0x7F7FFFFFu, 0x00000001u,
                               0x80000000u, 0x3F800001u, 0x6F123456u, 0x00800000u};
  for (const uint32_t bad : kBad) {
    std::vector<float> broken = y;
    for (int times = 0; times < 3; ++times) {
      broken[random() % broken.size()] = formats::FloatFromBits(bad);
    }
    const std::string expected = refusal_of_reference(broken);
    ASSERT_EQ(RefusalOf([&] { Pack(spec, shape, broken, pool); }), expected);
    const bool is_special = (bad >> 23 & 0xFF) == 0xFF;
    ASSERT_TRUE(!is_special || !expected.empty());
  }
  // These values are not quantized at all.
  const std::vector<float> raw = formats::packing_cases::Values(shape.count(), false, random);
  const std::string expected = refusal_of_reference(raw);
  ASSERT_NE(expected, "");
  ASSERT_EQ(RefusalOf([&] { Pack(spec, shape, raw, pool); }), expected);
}

TEST(PackTensor, RefusesWhatTheReferenceRefusesWithTheSameIndex) {
  std::mt19937 random(6);
  ThreadPool one(1);
  for (const FormatSpec& spec : formats::packing_cases::Specs()) {
    ExpectSameRefusals(spec, {5, 333, 1}, one, random);
    ExpectSameRefusals(spec, {9, 64, 5}, one, random);
  }
}

// Threads find bad values in any order, in elements of every kind.
TEST(WholePackTensor, ThreadsRefuseTheSameIndex) {
  std::mt19937 random(7);
  ThreadPool three(3);
  for (const char* const name : {"mxfp4_e2m1", "mxint8", "mx6", "bfp(bits=20, block=32)", "fp16"}) {
    ExpectSameRefusals(formats::FindFormat(name), {70, 333, 1}, three, random);
    ExpectSameRefusals(formats::FindFormat(name), {1, 40, 700}, three, random);
  }
}

TEST(PackTensor, WrongSizesAreRefused) {
  ThreadPool pool(1);
  const FormatSpec spec = formats::FindFormat("mx6");
  const std::vector<float> y(64);
  PackedTensor packed(formats::SizesOf(spec, 2, 32, 1));
  EXPECT_NE(RefusalOf([&] { PackTensor(spec, 2, 31, 1, y, packed.spans(), pool); }), "");
  packed.shifts.push_back(0);
  EXPECT_NE(RefusalOf([&] { PackTensor(spec, 2, 32, 1, y, packed.spans(), pool); }), "");
  std::vector<float> found(64);
  EXPECT_NE(RefusalOf([&] { UnpackTensor(spec, 2, 32, 1, packed.view(), found, pool); }), "");
  EXPECT_NE(RefusalOf([&] { Pack(formats::FindFormat("int8"), {2, 32, 1}, y, pool); }), "");
}

#if defined(__x86_64__)
TEST(PackTensor, FlushingDenormalsChangesNothing) {
  std::mt19937 random(7);
  ThreadPool pool(1);
  for (const FormatSpec& spec : formats::packing_cases::Specs()) {
    for (const Shape& shape : {Shape{2, 33, 20}, Shape{3, 50, 1}}) {
      const std::vector<float> y = formats::packing_cases::Quantized(spec, shape.outer, shape.axis,
                                                                     shape.inner, true, random);
      const PackedTensor expected =
          formats::ref::PackTensor(spec, shape.outer, shape.axis, shape.inner, y);
      const unsigned old = _mm_getcsr();
      _mm_setcsr(old | 0x8040u);
      const PackedTensor found = Pack(spec, shape, y, pool);
      const std::vector<float> back = Unpack(spec, shape, found, pool);
      _mm_setcsr(old);
      ASSERT_TRUE(found == expected) << Describe(spec);
      ASSERT_TRUE(SameValues(y, back.data())) << Describe(spec);
    }
  }
}
#endif

}  // namespace
}  // namespace bitpress::kernels
