#include "evaluate/coco_labels.h"

#include <array>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/paths.h"

namespace bitpress::evaluate {
namespace {

using Json = nlohmann::json;

std::map<int64_t, int64_t> ClassesOf(const Json& categories) {
  std::map<int64_t, int64_t> classes;
  for (const Json& category : categories) classes.emplace(category.at("id").get<int64_t>(), 0);
  int64_t number = 0;
  for (auto& [id, label] : classes) label = number++;
  return classes;
}

// Reads polygons, [[x, y, ...], ...], or runs, {"size": [height, width], "counts": ...}, which may
// be a text.
CocoSegmentation SegmentationOf(const Json& annotation) {
  CocoSegmentation segmentation;
  const auto found = annotation.find("segmentation");
  if (found == annotation.end() || found->is_null()) return segmentation;
  if (found->is_array()) {
    segmentation.polygons = found->get<std::vector<std::vector<double>>>();
    return segmentation;
  }
  segmentation.size = found->at("size").get<std::array<int64_t, 2>>();
  const Json& counts = found->at("counts");
  if (counts.is_string()) {
    segmentation.counts = CountsOfText(counts.get_ref<const std::string&>());
    return segmentation;
  }
  for (const int64_t count : counts.get<std::vector<int64_t>>()) {
    if (count < 0 || count > RunLengthMask::kMostPixels) {
      Fail(ErrorCode::kInvalidArgument, "its mask has a run of {} pixels", count);
    }
    segmentation.counts.push_back(static_cast<uint32_t>(count));
  }
  return segmentation;
}

void AddAnnotation(const Json& annotation, const std::map<int64_t, int64_t>& classes,
                   CocoImage& image) {
  const auto box = annotation.at("bbox").get<std::array<double, 4>>();
  LabelledBox labelled;
  static_cast<Box&>(labelled) = {
      box[0],          box[1], box[0] + box[2],
      box[1] + box[3], 1,      classes.at(annotation.at("category_id").get<int64_t>())};
  labelled.is_crowd = annotation.value("iscrowd", 0) != 0;
  image.boxes.push_back(labelled);
  const int64_t id = annotation.value("id", int64_t{0});
  image.annotations.push_back(
      {id, WithContext(fmt::format("label {}", id), [&] { return SegmentationOf(annotation); })});
}

// Returns the width or height of an image in pixels; 0: the file does not say.
int64_t SideOf(const Json& image, const char* key) {
  const double side = image.value(key, 0.0);
  if (!(side >= 0 && side <= static_cast<double>(RunLengthMask::kMostPixels))) {
    Fail(ErrorCode::kInvalidArgument, "an image has a {} of {:g} pixels", key, side);
  }
  return static_cast<int64_t>(side);
}

void ReadInto(const Json& coco, CocoLabels& labels) {
  const std::map<int64_t, int64_t> classes = ClassesOf(coco.at("categories"));
  std::map<int64_t, std::string> names;
  for (const Json& image : coco.at("images")) {
    const auto name = image.at("file_name").get<std::string>();
    const auto id = image.at("id").get<int64_t>();
    names.emplace(id, name);
    labels.images[name] = {
        .id = id, .width = SideOf(image, "width"), .height = SideOf(image, "height")};
  }
  for (const Json& annotation : coco.at("annotations")) {
    CocoImage& image = labels.images.at(names.at(annotation.at("image_id").get<int64_t>()));
    AddAnnotation(annotation, classes, image);
    labels.has_masks = labels.has_masks || image.annotations.back().segmentation.IsGiven();
  }
}

}  // namespace

const CocoImage* CocoLabels::Of(const std::string& sample) const {
  auto image = images.find(sample);
  if (image == images.end()) image = images.find(PathText(PathOf(sample).filename()));
  return image == images.end() ? nullptr : &image->second;
}

std::vector<RunLengthMask> CocoLabels::MasksOf(const CocoImage& image) const {
  std::vector<RunLengthMask> masks;
  for (const auto& [id, segmentation] : image.annotations) {
    masks.push_back(WithContext(fmt::format("'{}', label {}", file, id), [&] {
      if (!segmentation.IsGiven()) {
        Fail(ErrorCode::kInvalidArgument,
             "it has no segmentation, and others have: masks are measured with all or none");
      }
      if (!segmentation.polygons.empty()) {
        return RunLengthMask::FromPolygons(image.height, image.width, segmentation.polygons);
      }
      if (segmentation.size != std::array{image.height, image.width}) {
        Fail(ErrorCode::kInvalidArgument, "its mask has {}x{} pixels, its image {}x{}",
             segmentation.size[1], segmentation.size[0], image.width, image.height);
      }
      return RunLengthMask::FromCounts(image.height, image.width, segmentation.counts);
    }));
  }
  return masks;
}

CocoLabels ReadCocoLabels(const std::string& file) {
  CocoLabels labels{.file = file};
  const std::string text = ReadFile(PathOf(file));
  try {
    WithContext(fmt::format("'{}'", file), [&] { ReadInto(Json::parse(text), labels); });
  } catch (const Json::exception& error) {
    Fail(ErrorCode::kInvalidArgument, "'{}' holds no labels in the form of COCO: {}", file,
         error.what());
  } catch (const std::out_of_range&) {
    Fail(ErrorCode::kInvalidArgument,
         "'{}': an annotation names an image or a category that is not listed", file);
  }
  return labels;
}

}  // namespace bitpress::evaluate
