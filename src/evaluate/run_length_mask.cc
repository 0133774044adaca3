#include "evaluate/run_length_mask.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/error.h"

namespace bitpress::evaluate {
namespace {

// Polygons are drawn on a grid that is finer than the pixels by this factor.
constexpr double kFiner = 5;
// The most crossings of columns by the edges of one polygon.
constexpr size_t kMostCrossings = size_t{1} << 24;

struct GridPoint {
  int64_t x = 0, y = 0;
};

// Rounds half up, as a cast of x + 0.5 does for numbers that are not negative. Negative ones lie
// outside of the image, where only their sign counts.
int64_t Rounded(double x) { return static_cast<int64_t>(x + 0.5); }

// Calls `visit` for the points of an edge on the fine grid, one for each step along its longer
// side, from `from` to `to`. The other coordinate is computed from the end with the lower
// coordinate along that side, whichever end comes first.
template <typename Visit>
void WalkEdge(GridPoint from, GridPoint to, const Visit& visit) {
  const int64_t width = std::abs(to.x - from.x), height = std::abs(to.y - from.y);
  const bool is_flat = width >= height;
  const bool is_reversed = is_flat ? from.x > to.x : from.y > to.y;
  if (is_reversed) std::swap(from, to);
  const int64_t length = std::max(width, height);
  const double slope = length == 0 ? 0
                                   : static_cast<double>(is_flat ? to.y - from.y : to.x - from.x) /
                                         static_cast<double>(length);
  for (int64_t i = 0; i <= length; ++i) {
    const int64_t step = is_reversed ? length - i : i;
    const double other = slope * static_cast<double>(step);
    visit(is_flat ? GridPoint{from.x + step, Rounded(static_cast<double>(from.y) + other)}
                  : GridPoint{Rounded(static_cast<double>(from.x) + other), from.y + step});
  }
}

// Returns where the outline of a polygon crosses the middles of pixel columns: the numbers of the
// first pixels below the crossings, in any order. Inside and outside change at each.
std::vector<uint32_t> CrossingsOf(std::span<const double> polygon, int64_t height, int64_t width) {
  std::vector<GridPoint> corners;
  for (size_t i = 0; i + 1 < polygon.size(); i += 2) {
    corners.push_back({Rounded(kFiner * polygon[i]), Rounded(kFiner * polygon[i + 1])});
  }
  corners.push_back(corners.front());
  std::vector<uint32_t> crossings;
  std::optional<GridPoint> last;
  const auto visit = [&](const GridPoint& point) {
    const GridPoint before = std::exchange(last, point).value_or(point);
    if (point.x == before.x) return;
    const int64_t left = point.x < before.x ? point.x : point.x - 1;
    const double x = (static_cast<double>(left) + 0.5) / kFiner - 0.5;
    if (std::floor(x) != x || x < 0 || x > static_cast<double>(width - 1)) return;
    const double y = (static_cast<double>(std::min(point.y, before.y)) + 0.5) / kFiner - 0.5;
    const double row = std::ceil(std::clamp(y, 0.0, static_cast<double>(height)));
    if (crossings.size() == kMostCrossings) {
      Fail(ErrorCode::kInvalidArgument, "a polygon crosses columns of pixels more than {} times",
           kMostCrossings);
    }
    crossings.push_back(static_cast<uint32_t>(static_cast<int64_t>(x) * height) +
                        static_cast<uint32_t>(row));
  };
  for (size_t i = 0; i + 1 < corners.size(); ++i) WalkEdge(corners[i], corners[i + 1], visit);
  return crossings;
}

// Checks a polygon, and returns the steps on the fine grid that WalkEdge takes for its edges.
double CheckPolygon(std::span<const double> polygon) {
  constexpr size_t kLeastNumbers = 6;  // three corners
  if (polygon.size() < kLeastNumbers || polygon.size() % 2 != 0) {
    Fail(ErrorCode::kInvalidArgument,
         "a polygon has {} numbers, expected {} or more, an even number", polygon.size(),
         kLeastNumbers);
  }
  for (const double x : polygon) {
    if (!(std::abs(x) <= RunLengthMask::kMostCoordinate)) {
      Fail(ErrorCode::kInvalidArgument, "a polygon has the coordinate {:g}, expected -{} to {}", x,
           RunLengthMask::kMostCoordinate, RunLengthMask::kMostCoordinate);
    }
  }
  double num_steps = 0;
  for (size_t i = 0; i < polygon.size(); i += 2) {
    const size_t next = (i + 2) % polygon.size();
    num_steps += kFiner * std::max(std::abs(polygon[next] - polygon[i]),
                                   std::abs(polygon[next + 1] - polygon[i + 1]));
  }
  return num_steps;
}

// Checks the polygons of one mask. Edges cost time by their length also where they cross no column
// of the image.
void CheckPolygons(std::span<const std::vector<double>> polygons) {
  double num_steps = 0;
  for (const std::vector<double>& polygon : polygons) num_steps += CheckPolygon(polygon);
  if (num_steps > RunLengthMask::kMostSteps) {
    Fail(ErrorCode::kInvalidArgument,
         "the edges of its polygons are {:.0f} pixels long, expected at most {:.0f}",
         num_steps / kFiner, RunLengthMask::kMostSteps / kFiner);
  }
}

RunLengthMask MaskOfPolygon(std::span<const double> polygon, int64_t height, int64_t width) {
  std::vector<uint32_t> crossings = CrossingsOf(polygon, height, width);
  crossings.push_back(static_cast<uint32_t>(height * width));
  std::ranges::sort(crossings);
  RunLengthMask mask(height, width);
  bool is_object = false;
  uint32_t last = 0;
  for (const uint32_t crossing : crossings) {
    mask.Append(crossing - last, is_object);
    is_object = !is_object;
    last = crossing;
  }
  return mask;
}

// Calls `visit(count, of_a, of_b)` for the runs of pixels in which neither mask changes.
template <typename Visit>
void ForEachCommonRun(const RunLengthMask& a, const RunLengthMask& b, const Visit& visit) {
  size_t i = 0, j = 0;
  uint32_t left_a = 0, left_b = 0;
  const auto next = [](const std::vector<uint32_t>& counts, size_t& at, uint32_t& left) {
    while (left == 0 && at < counts.size()) left = counts[at++];
    return left > 0;
  };
  while (next(a.counts(), i, left_a) && next(b.counts(), j, left_b)) {
    const uint32_t count = std::min(left_a, left_b);
    visit(count, i % 2 == 0, j % 2 == 0);  // runs of objects have odd numbers, which were passed
    left_a -= count;
    left_b -= count;
  }
}

RunLengthMask Union(const RunLengthMask& a, const RunLengthMask& b) {
  RunLengthMask both(a.height(), a.width());
  ForEachCommonRun(a, b,
                   [&](uint32_t count, bool of_a, bool of_b) { both.Append(count, of_a || of_b); });
  return both;
}

}  // namespace

RunLengthMask::RunLengthMask(int64_t height, int64_t width) : height_(height), width_(width) {
  if (height < 1 || width < 1 || height > kMostPixels / width) {
    Fail(ErrorCode::kInvalidArgument,
         "a mask has {} times {} pixels, expected 1 or more and at most {}", width, height,
         kMostPixels);
  }
}

RunLengthMask RunLengthMask::FromCounts(int64_t height, int64_t width,
                                        std::vector<uint32_t> counts) {
  RunLengthMask mask(height, width);
  uint64_t sum = 0;
  for (const uint32_t count : counts) sum += count;
  if (sum != static_cast<uint64_t>(height * width)) {
    Fail(ErrorCode::kInvalidArgument, "runs of {} pixels do not make a mask of {} times {}", sum,
         width, height);
  }
  for (size_t i = 0; i < counts.size(); ++i) mask.Append(counts[i], i % 2 == 1);
  return mask;
}

RunLengthMask RunLengthMask::FromPolygons(int64_t height, int64_t width,
                                          std::span<const std::vector<double>> polygons) {
  RunLengthMask mask(height, width);
  CheckPolygons(polygons);
  mask.Append(static_cast<uint64_t>(height * width), false);
  for (const std::vector<double>& polygon : polygons) {
    mask = Union(mask, MaskOfPolygon(polygon, height, width));
  }
  return mask;
}

void RunLengthMask::Append(uint64_t count, bool is_object) {
  BITPRESS_DCHECK(num_pixels_ + count <= static_cast<uint64_t>(height_ * width_));
  if (count == 0) return;
  num_pixels_ += count;
  if (counts_.empty() && is_object) counts_.push_back(0);
  const bool continues = !counts_.empty() && (counts_.size() % 2 == 0) == is_object;
  if (continues) {
    counts_.back() += static_cast<uint32_t>(count);
  } else {
    counts_.push_back(static_cast<uint32_t>(count));
  }
}

uint64_t RunLengthMask::Area() const {
  uint64_t area = 0;
  for (size_t i = 1; i < counts_.size(); i += 2) area += counts_[i];
  return area;
}

uint64_t SharedArea(const RunLengthMask& a, const RunLengthMask& b) {
  BITPRESS_DCHECK(a.height() == b.height() && a.width() == b.width());
  uint64_t shared = 0;
  ForEachCommonRun(a, b, [&](uint32_t count, bool of_a, bool of_b) {
    if (of_a && of_b) shared += count;
  });
  return shared;
}

double MaskIou(const RunLengthMask& a, const RunLengthMask& b, double of_none) {
  const uint64_t shared = SharedArea(a, b), either = a.Area() + b.Area() - shared;
  return either == 0 ? of_none : static_cast<double>(shared) / static_cast<double>(either);
}

double ShareWithin(const RunLengthMask& mask, const RunLengthMask& other) {
  const uint64_t area = mask.Area();
  return area == 0 ? 0 : static_cast<double>(SharedArea(mask, other)) / static_cast<double>(area);
}

std::vector<uint32_t> CountsOfText(std::string_view text) {
  // A character has five bits of a number, the lowest first, and a sixth that says that more
  // follow. The sign is the highest bit of the last one. From the fourth number on, it is the
  // difference to the last but one.
  constexpr char kFirst = 48;
  constexpr int kBits = 5, kMostShift = 40;
  std::vector<uint32_t> counts;
  int64_t number = 0;
  int shift = 0;
  for (const char c : text) {
    const int bits = c - kFirst;
    if (bits < 0 || bits >= 64 || shift > kMostShift) {
      Fail(ErrorCode::kInvalidArgument, "the text of a mask is damaged at run {}", counts.size());
    }
    number |= static_cast<int64_t>(bits & 31) << shift;
    shift += kBits;
    if ((bits & 32) != 0) continue;
    if ((bits & 16) != 0) number -= int64_t{1} << shift;
    if (counts.size() > 2) number += counts[counts.size() - 2];
    if (number < 0 || number > std::numeric_limits<uint32_t>::max()) {
      Fail(ErrorCode::kInvalidArgument, "run {} of a mask has {} pixels", counts.size(), number);
    }
    counts.push_back(static_cast<uint32_t>(number));
    number = 0;
    shift = 0;
  }
  if (shift > 0) Fail(ErrorCode::kInvalidArgument, "the text of a mask ends within a number");
  return counts;
}

}  // namespace bitpress::evaluate
