// Tests of the scales of blocks, each kind against its definition.
#include "formats/block_scale.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/error.h"

namespace bitpress::formats {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

FormatSpec WithChoice(const char* name, ScaleChoice choice) {
  FormatSpec spec = FindFormat(name);
  spec.scale_choice = choice;
  return spec;
}

TEST(PowerOfTwoScales, CodesAreBiasedExponents) {
  for (const FormatSpec& spec : AllFormats()) {
    if (!spec.has_exponent_scales()) continue;
    SCOPED_TRACE(spec.name);
    EXPECT_EQ(WhyNoScales(spec), "");
    EXPECT_EQ(NanScaleCode(spec), 255u);
    EXPECT_EQ(LeastScale(spec), 0x1p-127);
    for (uint32_t code = 0; code < 255; ++code) {
      const double scale = DecodeScale(spec, code);
      EXPECT_EQ(scale, std::ldexp(1.0, static_cast<int>(code) - 127));
      EXPECT_EQ(EncodeScale(spec, scale), code);
    }
    EXPECT_TRUE(std::isnan(DecodeScale(spec, 255)));
  }
  const FormatSpec narrow = FindFormat("bfp(bits=9, block=8, exponent_bits=5)");
  EXPECT_EQ(LeastScale(narrow), 0x1p-15);
  EXPECT_EQ(EncodeScale(narrow, 0x1p15), 30u);
  for (const uint32_t code : {31u, 32u, 255u}) {
    EXPECT_TRUE(std::isnan(DecodeScale(narrow, code)));
  }
}

TEST(PowerOfTwoScales, CandidatesFollowTheChoice) {
  const auto scales = [](ScaleChoice choice, double amax) {
    return ref::CandidateScales(WithChoice("mxfp4_e2m1", choice), amax).scales;
  };
  // Elements reach 6; the largest power of two among them is 4.
  EXPECT_THAT(scales(ScaleChoice::kFloor, 7.0), ElementsAre(1.0));
  EXPECT_THAT(scales(ScaleChoice::kCeil, 7.0), ElementsAre(2.0));
  EXPECT_THAT(scales(ScaleChoice::kEven, 7.0), ElementsAre(2.0));
  EXPECT_THAT(scales(ScaleChoice::kEven, 6.9), ElementsAre(1.0));
  EXPECT_THAT(scales(ScaleChoice::kMse, 7.0), ElementsAre(0.5, 1.0, 2.0));
  EXPECT_EQ(ref::CandidateScales(WithChoice("mxfp4_e2m1", ScaleChoice::kMse), 70.0).error_unit, 16);
  // E8M0 ends at 2^-127.
  EXPECT_THAT(scales(ScaleChoice::kFloor, 0x1p-130), ElementsAre(0x1p-127));
}

TEST(PowerOfTwoScales, PackingTakesTheSmallestThatHoldsAllValues) {
  const FormatSpec spec = FindFormat("mxint8");
  EXPECT_THAT(ref::ScalesToPack(spec, std::vector<float>{-2.0F, 0.5F}), ElementsAre(1.0));
  EXPECT_THAT(ref::ScalesToPack(spec, std::vector<float>{2.0F, 0.5F}), ElementsAre(2.0));
  EXPECT_THAT(ref::ScalesToPack(spec, std::vector<float>{0.0F}), ElementsAre(0x1p-127));
}

TEST(BlockScales, OthersAreRefused) {
  FormatSpec spec = FindFormat("mxint8");
  spec.scale_bits = 9;
  EXPECT_THAT(WhyNoScales(spec), HasSubstr("exponent_bits is 9"));
  spec.scale_type = ElementType::kInt8;
  EXPECT_THAT(WhyNoScales(spec), HasSubstr("INT8"));
  EXPECT_THROW(Validate(spec), Error);
}

}  // namespace
}  // namespace bitpress::formats
