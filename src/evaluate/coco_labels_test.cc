#include "evaluate/coco_labels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/paths.h"
#include "base/scratch_folder.h"
#include "base/test_support.h"

namespace bitpress::evaluate {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class CocoLabelsTest : public testing::Test {
 protected:
  CocoLabels Read(const std::string& annotations, const std::string& width = "4") {
    const std::string file = PathText(folder_.path() / "labels.json");
    std::ofstream(file)
        << R"({"categories": [{"id": 9}, {"id": 2}], "images": [{"id": 5, "file_name": "a/b.jpg", "height": 2, "width": )"
        << width << R"(}], "annotations": [)" << annotations << "]}";
    return ReadCocoLabels(file);
  }
  static std::string Label(const std::string& more) {
    return R"({"id": 1, "image_id": 5, "category_id": 9, "bbox": [1, 0, 2, 2])" + more + "}";
  }
  std::string Message(const std::string& annotations, const std::string& width = "4") {
    return ExpectError(ErrorCode::kInvalidArgument, [&] {
      const CocoLabels labels = Read(annotations, width);
      labels.MasksOf(labels.images.begin()->second);
    });
  }

 private:
  ScratchFolder folder_;
};

TEST_F(CocoLabelsTest, AreReadInEachForm) {
  const CocoLabels labels =
      Read(Label(R"(, "segmentation": [[1, 0, 3, 0, 3, 2, 1, 2]])") + "," +
           Label(R"(, "iscrowd": 1, "segmentation": {"size": [2, 4], "counts": [2, 4, 2]})") + "," +
           Label(R"(, "segmentation": {"size": [2, 4], "counts": "242"})"));
  EXPECT_TRUE(labels.has_masks);
  EXPECT_EQ(labels.Of("b.jpg"), nullptr);
  const CocoImage& image = *labels.Of("a/b.jpg");
  EXPECT_EQ(image.id, 5);
  ASSERT_EQ(image.boxes.size(), 3u);
  EXPECT_EQ(image.boxes[0].label, 1);  // the second id in their order
  EXPECT_EQ(image.boxes[0].right, 3);
  EXPECT_TRUE(image.boxes[1].is_crowd);
  for (const RunLengthMask& mask : labels.MasksOf(image)) {
    EXPECT_THAT(mask.counts(), ElementsAre(2, 4, 2));
  }
  EXPECT_FALSE(Read(Label("")).has_masks);
  EXPECT_FALSE(Read(Label(R"(, "segmentation": [])")).has_masks);
}

TEST_F(CocoLabelsTest, NameTheLabelThatIsWrong) {
  EXPECT_THAT(Message("{}"), HasSubstr("holds no labels in the form of COCO"));
  EXPECT_THAT(Message(R"({"image_id": 6, "category_id": 9, "bbox": [1, 0, 2, 2]})"),
              HasSubstr("an annotation names an image or a category that is not listed"));
  EXPECT_THAT(Message(Label("")), HasSubstr("labels.json', label 1: it has no segmentation"));
  EXPECT_THAT(Message(Label(R"(, "segmentation": [1, 2])")), HasSubstr("in the form of COCO"));
  EXPECT_THAT(Message(Label(R"(, "segmentation": {"size": [2, 4], "counts": [-2, 10]})")),
              HasSubstr("label 1: its mask has a run of -2 pixels"));
  EXPECT_THAT(Message(Label(R"(, "segmentation": {"size": [2, 4], "counts": "2P"})")),
              HasSubstr("label 1: the text of a mask ends"));
  EXPECT_THAT(Message(Label(R"(, "segmentation": {"size": [4, 2], "counts": [8]})")),
              HasSubstr("its mask has 2x4 pixels, its image 4x2"));
  EXPECT_THAT(Message(Label(R"(, "segmentation": [[1, 0, 3, 0, 3, 2]])"), "0"),
              HasSubstr("a mask has 0 times 2 pixels"));
  EXPECT_THAT(Message(Label(""), "-1"), HasSubstr("an image has a width of -1 pixels"));
}

}  // namespace
}  // namespace bitpress::evaluate
