#include "evaluate/coco_labels.h"

#include <array>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/paths.h"
#include "base/text.h"

namespace bitpress::evaluate {
namespace {

using Json = nlohmann::json;

// The most pixels of a side of an image. A polygon reaches no farther.
constexpr auto kMostSide = static_cast<int64_t>(RunLengthMask::kMostCoordinate);
// The largest integers that doubles hold without gaps.
constexpr int64_t kMostInteger = int64_t{1} << 53;

// Returns the integer that a JSON value holds, also one that is written with a fraction of zero.
// `what` names it in the message.
int64_t IntegerOf(const Json& json, std::string_view what, int64_t least = -kMostInteger,
                  int64_t most = kMostInteger) {
  if (json.is_number()) {
    const double number = json.get<double>();
    if (number >= static_cast<double>(least) && number <= static_cast<double>(most)) {
      const auto integer = static_cast<int64_t>(number);
      if (json == Json(integer)) return integer;
    }
  }
  Fail(ErrorCode::kInvalidArgument, "{} is {}, expected an integer from {} to {}", what,
       json.is_number() ? json.dump() : "no number", least, most);
}

// Checks that a JSON value is an array of `size` elements.
void CheckArray(const Json& json, std::string_view what, size_t size) {
  if (json.is_array() && json.size() == size) return;
  Fail(ErrorCode::kInvalidArgument, "{} is {}, expected an array of {}", what,
       json.is_array() ? fmt::format("an array of {}", json.size()) : "no array", size);
}

// Calls `read()` for an entry of the file. Each of its exceptions leaves as an Error that names the
// entry.
template <typename Read>
void ReadEntry(const std::string& entry, const Read& read) {
  WithContext(entry, [&] {
    try {
      read();
    } catch (const Json::exception& error) {
      Fail(ErrorCode::kInvalidArgument, "it is not in the form of COCO: {}", error.what());
    }
  });
}

// Returns the name of an image in messages.
std::string NameOfImage(const Json& image, size_t index) {
  const auto name = image.find("file_name");
  return name != image.end() && name->is_string()
             ? fmt::format("image '{}'", name->get_ref<const std::string&>())
             : fmt::format("image at index {}", index);
}

// Returns the name of an annotation in messages.
std::string NameOfAnnotation(const Json& annotation, size_t index) {
  const auto id = annotation.find("id");
  return id != annotation.end() && id->is_number() ? fmt::format("annotation {}", id->dump())
                                                   : fmt::format("annotation at index {}", index);
}

std::map<int64_t, int64_t> ClassesOf(const Json& categories) {
  std::map<int64_t, int64_t> classes;
  for (size_t index = 0; const Json& category : categories) {
    ReadEntry(fmt::format("category at index {}", index++),
              [&] { classes.emplace(IntegerOf(category.at("id"), "its id"), 0); });
  }
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
  const Json& size = found->at("size");
  CheckArray(size, "the size of its mask", segmentation.size.size());
  for (size_t i = 0; i < segmentation.size.size(); ++i) {
    segmentation.size[i] = IntegerOf(size[i], "a side of its mask", 1, kMostSide);
  }
  const Json& counts = found->at("counts");
  if (counts.is_string()) {
    segmentation.counts = CountsOfText(counts.get_ref<const std::string&>());
    return segmentation;
  }
  if (!counts.is_array()) {
    Fail(ErrorCode::kInvalidArgument, "the counts of its mask are neither an array nor a text");
  }
  for (const Json& count : counts) {
    segmentation.counts.push_back(static_cast<uint32_t>(
        IntegerOf(count, "a run of its mask", 0, RunLengthMask::kMostPixels)));
  }
  return segmentation;
}

bool IsCrowd(const Json& annotation) {
  const auto found = annotation.find("iscrowd");
  if (found == annotation.end()) return false;
  return found->is_boolean() ? found->get<bool>() : IntegerOf(*found, "its iscrowd") != 0;
}

// Returns the class of an annotation's category.
int64_t ClassOf(const Json& annotation, const std::map<int64_t, int64_t>& classes) {
  const int64_t category = IntegerOf(annotation.at("category_id"), "its category_id");
  const auto found = classes.find(category);
  if (found == classes.end()) {
    Fail(ErrorCode::kInvalidArgument, "it names category {}, which is not listed", category);
  }
  return found->second;
}

void AddAnnotation(const Json& annotation, const std::map<int64_t, int64_t>& classes,
                   CocoImage& image) {
  CheckArray(annotation.at("bbox"), "its bbox", 4);
  const auto box = annotation.at("bbox").get<std::array<double, 4>>();
  LabelledBox labelled;
  static_cast<Box&>(labelled) = {box[0],          box[1], box[0] + box[2],
                                 box[1] + box[3], 1,      ClassOf(annotation, classes)};
  labelled.is_crowd = IsCrowd(annotation);
  const auto id = annotation.find("id");
  image.annotations.push_back(
      {id == annotation.end() ? 0 : IntegerOf(*id, "its id"), SegmentationOf(annotation)});
  image.boxes.push_back(labelled);
}

// Returns the width or height of an image in pixels; 0: the file does not say.
int64_t SideOf(const Json& image, const char* key) {
  const auto found = image.find(key);
  return found == image.end() ? 0 : IntegerOf(*found, fmt::format("its {}", key), 0, kMostSide);
}

CocoImage ImageOf(const Json& json) {
  CocoImage image{.id = IntegerOf(json.at("id"), "its id"),
                  .width = SideOf(json, "width"),
                  .height = SideOf(json, "height")};
  if (image.width * image.height > RunLengthMask::kMostPixels) {
    Fail(ErrorCode::kInvalidArgument, "it has {}x{} pixels, expected at most {}", image.width,
         image.height, RunLengthMask::kMostPixels);
  }
  return image;
}

// Finds whether masks can be measured. They are with all labels and images or with none, so that
// no evaluation ends at a label that has boxes alone. The found objects of an image without labels
// need its size, too.
void FindMasks(CocoLabels& labels) {
  size_t num_with = 0, num_without = 0, num_without_size = 0;
  for (const auto& [name, image] : labels.images) {
    num_without_size += image.width == 0 || image.height == 0 ? 1 : 0;
    for (const CocoAnnotation& annotation : image.annotations) {
      ++(annotation.segmentation.IsGiven() ? num_with : num_without);
    }
  }
  labels.has_masks = num_with > 0 && num_without + num_without_size == 0;
  if (num_with == 0 || labels.has_masks) return;
  labels.why_no_masks =
      num_without > 0
          ? fmt::format("{} {} no segmentation", WithNoun(num_without, "annotation"),
                        num_without == 1 ? "has" : "have")
          : fmt::format("{} {} no width and height", WithNoun(num_without_size, "image"),
                        num_without_size == 1 ? "has" : "have");
}

void ReadInto(const Json& coco, CocoLabels& labels) {
  const std::map<int64_t, int64_t> classes = ClassesOf(coco.at("categories"));
  std::map<int64_t, std::string> names;
  for (size_t index = 0; const Json& image : coco.at("images")) {
    ReadEntry(NameOfImage(image, index++), [&] {
      const auto name = image.at("file_name").get<std::string>();
      CocoImage& added = labels.images[name] = ImageOf(image);
      names.emplace(added.id, name);
    });
  }
  for (size_t index = 0; const Json& annotation : coco.at("annotations")) {
    ReadEntry(NameOfAnnotation(annotation, index++), [&] {
      const int64_t image = IntegerOf(annotation.at("image_id"), "its image_id");
      const auto name = names.find(image);
      if (name == names.end()) {
        Fail(ErrorCode::kInvalidArgument, "it names image {}, which is not listed", image);
      }
      AddAnnotation(annotation, classes, labels.images.at(name->second));
    });
  }
  FindMasks(labels);
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
    masks.push_back(WithContext(fmt::format("'{}', annotation {}", file, id), [&] {
      if (!segmentation.IsGiven()) {
        Fail(ErrorCode::kInvalidArgument, "it has no segmentation");
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
  }
  return labels;
}

}  // namespace bitpress::evaluate
