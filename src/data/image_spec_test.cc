#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/test_support.h"
#include "data/source.h"

namespace bitpress::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string ImageSpecFailure(std::string_view text) {
  return ExpectError(ErrorCode::kInvalidArgument, [&] { ParseImageSpec(text); });
}

TEST(ParseImageSpec, AllKeys) {
  const ImageSpec spec = ParseImageSpec(
      "resize=256, crop=224,mean=0.485/0.456/0.406,std=0.25,layout=NHWC,channels=bgr");
  EXPECT_EQ(spec.resize, 256);
  EXPECT_EQ(spec.crop, 224);
  EXPECT_THAT(spec.mean, ElementsAre(0.485f, 0.456f, 0.406f));
  EXPECT_THAT(spec.std, ElementsAre(0.25f, 0.25f, 0.25f));
  EXPECT_TRUE(spec.nhwc);
  EXPECT_TRUE(spec.bgr);
}

TEST(ParseImageSpec, Defaults) {
  for (const char* text : {"", "  ", "layout=nchw,channels=rgb,resize=0,crop=0"}) {
    const ImageSpec spec = ParseImageSpec(text);
    EXPECT_EQ(spec.resize, 0);
    EXPECT_EQ(spec.crop, 0);
    EXPECT_THAT(spec.mean, ElementsAre(0, 0, 0));
    EXPECT_THAT(spec.std, ElementsAre(1, 1, 1));
    EXPECT_FALSE(spec.nhwc);
    EXPECT_FALSE(spec.bgr);
  }
}

TEST(ParseImageSpecError, SaysWhatIsWrong) {
  EXPECT_THAT(ImageSpecFailure("rezise=256"), HasSubstr("'rezise' (did you mean 'resize'?)"));
  EXPECT_THAT(ImageSpecFailure("quality=5"),
              HasSubstr("there are resize, fit, crop, mean, std, layout, channels"));
  EXPECT_THAT(ImageSpecFailure("crop"), HasSubstr("'crop' has no value"));
  EXPECT_THAT(ImageSpecFailure("crop=224,"), HasSubstr("'' has no value"));
  EXPECT_THAT(ImageSpecFailure("crop=big"), HasSubstr("'big' is not a whole number"));
  EXPECT_THAT(ImageSpecFailure("crop=-1"), HasSubstr("crop=-1 is out of range"));
  EXPECT_THAT(ImageSpecFailure("resize=99999"), HasSubstr("expected 0 to 16384 pixels"));
  EXPECT_THAT(ImageSpecFailure("mean=0.5/0.5"), HasSubstr("has 2 values, expected one or three"));
  EXPECT_THAT(ImageSpecFailure("mean=half"), HasSubstr("'half' is not a number"));
  EXPECT_THAT(ImageSpecFailure("mean=inf"), HasSubstr("not a usable number"));
  EXPECT_THAT(ImageSpecFailure("std=0.5/0/0.5"), HasSubstr("must be above 0"));
  EXPECT_THAT(ImageSpecFailure("layout=nchv"),
              HasSubstr("expected nchw or nhwc (did you mean 'nchw'?"));
  EXPECT_THAT(ImageSpecFailure("resize=640,fit=leterbox"), HasSubstr("did you mean 'letterbox'"));
  EXPECT_THAT(ImageSpecFailure("fit=stretch"), HasSubstr("fit needs the size: add resize=N"));
  EXPECT_THAT(ImageSpecFailure("channels=cmyk"), HasSubstr("expected rgb or bgr"));
  EXPECT_THAT(ImageSpecFailure("crop=8,crop=9"), HasSubstr("crop is given twice"));
  EXPECT_THAT(ImageSpecFailure("resize=224,crop=256"), HasSubstr("crop is larger"));
}

}  // namespace
}  // namespace bitpress::data
