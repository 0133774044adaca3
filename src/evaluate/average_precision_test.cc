#include "evaluate/average_precision.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace bitpress::evaluate {
namespace {

using Labels = std::vector<LabelledBox>;
using Boxes = std::vector<Box>;

MatchedImage Match(const Labels& wanted, const Boxes& found, int64_t id = 0) {
  return MatchObjects(id, wanted, found,
                      [&](size_t j, size_t i) { return BoxOverlap(found[j], wanted[i]); });
}

double Precision(const MatchedImage& image, size_t num_thresholds = 1) {
  return AveragePrecision({&image, 1}, num_thresholds);
}

TEST(AveragePrecision, IsThatOfCoco) {
  const Box near = {0, 0, 10, 10, 0.9, 0}, miss = {50, 50, 60, 60, 0.8, 0};
  const Box half = {0, 0, 10, 7, 0.7, 0};
  const LabelledBox wanted = {{0, 0, 10, 10, 1, 0}}, other = {{20, 20, 30, 30, 1, 0}};
  // One of two labels is found first: precision 1 up to a recall of one half, 51 of 101 points.
  EXPECT_DOUBLE_EQ(Precision(Match({wanted, other}, {near, miss})), 51.0 / 101);
  // Below a miss, the precision is one half. The IoU of 0.7 is enough for the first five of the ten
  // thresholds.
  const MatchedImage late = Match({wanted}, {{50, 50, 60, 60, 0.8, 0}, half});
  EXPECT_DOUBLE_EQ(Precision(late), 0.5);
  EXPECT_DOUBLE_EQ(Precision(late, kNumThresholds), 0.25);
  // Objects in a crowd count neither way.
  LabelledBox crowd = {{45, 45, 65, 65, 1, 0}};
  crowd.is_crowd = true;
  EXPECT_DOUBLE_EQ(Precision(Match({wanted, crowd}, {{50, 50, 60, 60, 0.95, 0}, near})), 1);
  EXPECT_DOUBLE_EQ(Precision(Match({}, {near})), 0);
}

TEST(AveragePrecision, CountsAHundredObjectsOfAClass) {
  const LabelledBox wanted = {{0, 0, 10, 10, 1, 0}};
  Boxes found(100, {50, 50, 60, 60, 0.8, 0});
  found.push_back({0, 0, 10, 10, 0.7, 0});
  EXPECT_DOUBLE_EQ(Precision(Match({wanted}, found)), 0);
  found.erase(found.begin());
  EXPECT_DOUBLE_EQ(Precision(Match({wanted}, found)), 1.0 / 100);
}

// Equal scores count in the order of the images' ids, however these come.
TEST(AveragePrecision, DoesNotDependOnTheOrderOfImages) {
  const LabelledBox wanted = {{0, 0, 10, 10, 1, 0}};
  const Box right = {0, 0, 10, 10, 0.5, 0}, wrong = {50, 50, 60, 60, 0.5, 0};
  std::vector<MatchedImage> images = {Match({wanted}, {right}, 1), Match({wanted}, {wrong}, 2)};
  EXPECT_DOUBLE_EQ(AveragePrecision(images, 1), 51.0 / 101);
  std::ranges::reverse(images);
  EXPECT_DOUBLE_EQ(AveragePrecision(images, 1), 51.0 / 101);
  std::swap(images[0].id, images[1].id);
  EXPECT_DOUBLE_EQ(AveragePrecision(images, 1), 51.0 / 101 / 2);
}

}  // namespace
}  // namespace bitpress::evaluate
