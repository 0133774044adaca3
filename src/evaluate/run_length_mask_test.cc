#include "evaluate/run_length_mask.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/test_support.h"
#include "evaluate/test_coco_masks_golden.h"

namespace bitpress::evaluate {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Counts = std::vector<uint32_t>;

TEST(RunLengthMask, OfPolygonsIsThatOfPycocotools) {
  for (size_t i = 0; i < kGoldenMasks.size(); ++i) {
    const GoldenMask& golden = kGoldenMasks[i];
    const auto mask = RunLengthMask::FromPolygons(golden.height, golden.width, golden.polygons);
    EXPECT_EQ(mask, RunLengthMask::FromCounts(golden.height, golden.width, golden.counts)) << i;
    EXPECT_EQ(CountsOfText(golden.text), golden.counts) << i;
  }
}

TEST(RunLengthMask, HasOneFormForEachMask) {
  const auto mask = RunLengthMask::FromCounts(2, 3, {1, 0, 0, 2, 0, 1, 2});
  EXPECT_THAT(mask.counts(), ElementsAre(1, 3, 2));
  EXPECT_EQ(mask.Area(), 3u);
  RunLengthMask full(2, 3);
  full.Append(4, true);
  full.Append(2, true);
  EXPECT_THAT(full.counts(), ElementsAre(0, 6));
}

TEST(RunLengthMask, IsComparedByItsRuns) {
  // Pixels 1 to 3, 2 to 5, and none.
  const auto a = RunLengthMask::FromCounts(2, 3, {1, 3, 2}),
             b = RunLengthMask::FromCounts(2, 3, {2, 4}),
             none = RunLengthMask::FromCounts(2, 3, {6});
  EXPECT_EQ(SharedArea(a, b), 2u);
  EXPECT_DOUBLE_EQ(MaskIou(a, b, 0), 2.0 / 5);
  EXPECT_DOUBLE_EQ(ShareWithin(a, b), 2.0 / 3);
  EXPECT_DOUBLE_EQ(MaskIou(a, none, 1), 0);
  EXPECT_DOUBLE_EQ(MaskIou(none, none, 1), 1);
  EXPECT_DOUBLE_EQ(ShareWithin(none, a), 0);
}

TEST(RunLengthMask, RefusesWhatIsWrong) {
  const auto message = [](const auto& make) {
    return ExpectError(ErrorCode::kInvalidArgument, make);
  };
  EXPECT_THAT(message([] {
                RunLengthMask::FromCounts(2, 3, {1, 4});
              }),
              HasSubstr("runs of 5 pixels do not make a mask of 3 times 2"));
  EXPECT_THAT(message([] {
                RunLengthMask::FromCounts(2, 3, {1, 0xFFFFFFFF});
              }),
              HasSubstr("runs of 4294967296 pixels"));
  for (const int64_t side : {int64_t{0}, int64_t{-1}, int64_t{1} << 40}) {
    EXPECT_THAT(message([&] { RunLengthMask(side, 8); }), HasSubstr("a mask has 8 times"));
  }
  const auto polygon = [&](std::vector<double> corners) {
    return message([&] { RunLengthMask::FromPolygons(4, 4, {{corners}}); });
  };
  EXPECT_THAT(polygon({1, 2, 3, 4}), HasSubstr("a polygon has 4 numbers, expected 6 or more"));
  EXPECT_THAT(polygon({1, 2, 3, 4, 5, 6, 7}), HasSubstr("an even number"));
  EXPECT_THAT(polygon({1, 2, 3, 4, 5, 1e6}), HasSubstr("the coordinate 1e+06"));
  EXPECT_THAT(polygon({1, 2, 3, 4, 5, NAN}), HasSubstr("the coordinate nan"));
  // Each edge is short enough, and no edge crosses a column of pixels.
  std::vector<double> upright;
  for (int i = 0; i < 206; ++i)
    upright.insert(upright.end(), {-1, i % 2 == 0 ? -131072. : 131072.});
  EXPECT_THAT(polygon(upright),
              HasSubstr("the edges of its polygons are 54001664 pixels long, expected at most"));
  EXPECT_THAT(message([] { CountsOfText("1~"); }), HasSubstr("damaged at run 1"));
  EXPECT_THAT(message([] { CountsOfText("P"); }), HasSubstr("ends within a number"));
  EXPECT_THAT(message([] { CountsOfText("o"); }), HasSubstr("ends within a number"));
  EXPECT_THAT(message([] { CountsOfText("O"); }), HasSubstr("run 0 of a mask has -1 pixels"));
  EXPECT_THAT(message([] { CountsOfText(std::string(64, 'o')); }), HasSubstr("damaged at run 0"));
}

}  // namespace
}  // namespace bitpress::evaluate
