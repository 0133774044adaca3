#include "evaluate/average_precision.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <optional>
#include <set>

#include "base/check.h"

namespace bitpress::evaluate {
namespace {

constexpr size_t kMostFound = 100;  // objects of a class in an image

// Matches the objects of one class at one threshold: each found one, the best first, takes the
// wanted one that it overlaps most. No two found objects take the same wanted one, unless it is a
// crowd. Crowds come last.
void MatchClass(std::span<const size_t> found, std::span<const size_t> wanted,
                std::span<const LabelledBox> labels,
                const std::vector<std::vector<double>>& overlaps, size_t threshold,
                std::vector<MatchedObject>& objects) {
  const auto bit = static_cast<uint16_t>(1u << threshold);
  std::vector<bool> is_taken(wanted.size());
  for (size_t j = 0; j < found.size(); ++j) {
    double best = std::min(OverlapThresholds()[threshold], 1 - 1e-10);
    std::optional<size_t> match;
    for (size_t i = 0; i < wanted.size(); ++i) {
      const bool is_crowd = labels[wanted[i]].is_crowd;
      if (is_taken[i] && !is_crowd) continue;
      if (match && !labels[wanted[*match]].is_crowd && is_crowd) break;
      if (overlaps[j][i] < best) continue;
      best = overlaps[j][i];
      match = i;
    }
    if (!match) continue;
    MatchedObject& object = objects[j];
    if (labels[wanted[*match]].is_crowd) {
      object.is_in_crowd |= bit;
    } else {
      object.is_right |= bit;
      is_taken[*match] = true;
    }
  }
}

// Returns the positions of the boxes of a class.
template <typename Boxes>
std::vector<size_t> OfClass(const Boxes& boxes, int64_t label) {
  std::vector<size_t> positions;
  for (size_t i = 0; i < boxes.size(); ++i) {
    if (boxes[i].label == label) positions.push_back(i);
  }
  return positions;
}

// A found object that counts, at one threshold.
struct Verdict {
  double score = 0;
  bool is_right = false;
};

// Returns the mean precision at 101 recalls. Equal scores stay in their order.
double PrecisionOf(std::vector<Verdict> verdicts, uint64_t num_wanted) {
  std::ranges::stable_sort(verdicts, std::greater<>(), &Verdict::score);
  std::vector<double> precisions, recalls;
  size_t num_right = 0;
  for (size_t i = 0; i < verdicts.size(); ++i) {
    if (verdicts[i].is_right) ++num_right;
    precisions.push_back(static_cast<double>(num_right) / static_cast<double>(i + 1));
    recalls.push_back(static_cast<double>(num_right) / static_cast<double>(num_wanted));
  }
  for (size_t i = precisions.size(); i-- > 1;) {
    precisions[i - 1] = std::max(precisions[i - 1], precisions[i]);
  }
  double sum = 0;
  for (int step = 0; step <= 100; ++step) {
    const auto at = std::ranges::lower_bound(recalls, 0.01 * step);
    if (at != recalls.end()) sum += precisions[static_cast<size_t>(at - recalls.begin())];
  }
  return sum / 101;
}

}  // namespace

std::array<double, kNumThresholds> OverlapThresholds() {
  constexpr double kFirst = 0.5, kLast = 0.95;
  std::array<double, kNumThresholds> thresholds = {};
  for (size_t i = 0; i < kNumThresholds; ++i) {
    const double step = (kLast - kFirst) / static_cast<double>(kNumThresholds - 1);
    thresholds[i] = kFirst + static_cast<double>(i) * step;
  }
  thresholds.back() = kLast;
  return thresholds;
}

double BoxOverlap(const Box& found, const LabelledBox& wanted) {
  return wanted.is_crowd ? ShareWithin(found, wanted) : Iou(found, wanted);
}

MatchedImage MatchObjects(int64_t id, std::span<const LabelledBox> wanted,
                          std::span<const Box> found, const Overlap& overlap) {
  MatchedImage image{.id = id};
  std::set<int64_t> labels;
  for (const LabelledBox& box : wanted) {
    if (!box.is_crowd) ++image.num_wanted[box.label];
    labels.insert(box.label);
  }
  for (const Box& box : found) labels.insert(box.label);
  for (const int64_t label : labels) {
    std::vector<size_t> of_found = OfClass(found, label), of_wanted = OfClass(wanted, label);
    of_found.resize(std::min(of_found.size(), kMostFound));
    std::ranges::stable_sort(of_wanted, {}, [&](size_t i) { return wanted[i].is_crowd; });
    std::vector<std::vector<double>> overlaps;
    std::vector<MatchedObject> objects;
    for (const size_t j : of_found) {
      std::vector<double>& row = overlaps.emplace_back();
      for (const size_t i : of_wanted) row.push_back(overlap(j, i));
      objects.push_back({found[j].score, label});
    }
    for (size_t t = 0; t < kNumThresholds; ++t) {
      MatchClass(of_found, of_wanted, wanted, overlaps, t, objects);
    }
    image.found.insert(image.found.end(), objects.begin(), objects.end());
  }
  return image;
}

void WriteMatches(std::span<const MatchedImage> images, ByteWriter& writer) {
  std::vector<const MatchedImage*> sorted;
  for (const MatchedImage& image : images) sorted.push_back(&image);
  std::ranges::sort(sorted, [](const MatchedImage* a, const MatchedImage* b) { return *a < *b; });
  writer.Compact(sorted.size());
  for (const MatchedImage* const image : sorted) {
    writer.Number(image->id);
    writer.Compact(image->found.size());
    for (const MatchedObject& object : image->found) {
      writer.Number(std::bit_cast<uint64_t>(object.score));
      writer.Number(object.label);
      writer.Number(object.is_right);
      writer.Number(object.is_in_crowd);
    }
    writer.Compact(image->num_wanted.size());
    for (const auto& [label, count] : image->num_wanted) {
      writer.Number(label);
      writer.Compact(count);
    }
  }
}

std::vector<MatchedImage> ReadMatches(ByteReader& reader) {
  constexpr size_t kImageBytes = 10, kObjectBytes = 20, kLabelBytes = 9;
  std::vector<MatchedImage> images(reader.Count(kImageBytes));
  for (MatchedImage& image : images) {
    image.id = reader.Number<int64_t>();
    image.found.resize(reader.Count(kObjectBytes));
    for (MatchedObject& object : image.found) {
      object.score = std::bit_cast<double>(reader.Number<uint64_t>());
      if (std::isnan(object.score)) reader.FailDamaged("a score is no number");
      object.label = reader.Number<int64_t>();
      object.is_right = reader.Number<uint16_t>();
      object.is_in_crowd = reader.Number<uint16_t>();
    }
    for (size_t i = reader.Count(kLabelBytes); i > 0; --i) {
      const auto label = reader.Number<int64_t>();
      image.num_wanted[label] = reader.Compact();
    }
  }
  return images;
}

double AveragePrecision(std::span<const MatchedImage> images, size_t num_thresholds) {
  BITPRESS_DCHECK(num_thresholds >= 1 && num_thresholds <= kNumThresholds);
  std::vector<const MatchedImage*> sorted;
  std::map<int64_t, uint64_t> num_wanted;
  for (const MatchedImage& image : images) {
    sorted.push_back(&image);
    for (const auto& [label, count] : image.num_wanted) num_wanted[label] += count;
  }
  std::ranges::stable_sort(sorted, {}, &MatchedImage::id);
  std::map<int64_t, std::vector<const MatchedObject*>> found;
  for (const MatchedImage* const image : sorted) {
    for (const MatchedObject& object : image->found) found[object.label].push_back(&object);
  }
  double sum = 0;
  for (const auto& [label, count] : num_wanted) {
    for (size_t t = 0; t < num_thresholds; ++t) {
      std::vector<Verdict> verdicts;
      for (const MatchedObject* const object : found[label]) {
        if ((object->is_in_crowd >> t & 1) != 0) continue;
        verdicts.push_back({object->score, (object->is_right >> t & 1) != 0});
      }
      sum += PrecisionOf(std::move(verdicts), count);
    }
  }
  const auto count = static_cast<double>(num_wanted.size() * num_thresholds);
  return count > 0 ? sum / count : 0;
}

}  // namespace bitpress::evaluate
