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
  CocoLabels Read(const std::string& annotations, const std::string& width = "4",
                  const std::string& height = "2") {
    const std::string file = PathText(folder_.path() / "labels.json");
    std::ofstream(file)
        << R"({"categories": [{"id": 9}, {"id": 2}], "images": [{"id": 5, "file_name": "a/b.jpg", "height": )"
        << height << R"(, "width": )" << width << R"(}], "annotations": [)" << annotations << "]}";
    return ReadCocoLabels(file);
  }
  static std::string Label(const std::string& more) {
    return R"({"id": 1, "image_id": 5, "category_id": 9, "bbox": [1, 0, 2, 2])" + more + "}";
  }
  std::string Message(const std::string& annotations, const std::string& width = "4",
                      const std::string& height = "2") {
    return ExpectError(ErrorCode::kInvalidArgument, [&] {
      const CocoLabels labels = Read(annotations, width, height);
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
  EXPECT_THAT(Message("{}"),
              HasSubstr("labels.json': annotation at index 0: it is not in the form of COCO"));
  EXPECT_THAT(Message(R"({"image_id": 6, "category_id": 9, "bbox": [1, 0, 2, 2]})"),
              HasSubstr("annotation at index 0: it names image 6, which is not listed"));
  EXPECT_THAT(Message(R"({"id": 7, "image_id": 5, "category_id": 8, "bbox": [1, 0, 2, 2]})"),
              HasSubstr("annotation 7: it names category 8, which is not listed"));
  EXPECT_THAT(Message("], []"), HasSubstr("holds no labels in the form of COCO"));
  EXPECT_THAT(Message(Label("")), HasSubstr("labels.json', annotation 1: it has no segmentation"));
  EXPECT_THAT(Message(Label(R"(, "segmentation": [1, 2])")),
              HasSubstr("annotation 1: it is not in the form of COCO"));
  EXPECT_THAT(Message(Label(R"(, "segmentation": {"size": [2, 4], "counts": [-2, 10]})")),
              HasSubstr("annotation 1: a run of its mask is -2, expected an integer from 0"));
  EXPECT_THAT(Message(Label(R"(, "segmentation": {"size": [2, 4], "counts": "2P"})")),
              HasSubstr("annotation 1: the text of a mask ends"));
  EXPECT_THAT(Message(Label(R"(, "segmentation": {"size": [4, 2], "counts": [8]})")),
              HasSubstr("its mask has 2x4 pixels, its image 4x2"));
  EXPECT_THAT(Message(Label(R"(, "segmentation": [[1, 0, 3, 0, 3, 2]])"), "0"),
              HasSubstr("a mask has 0 times 2 pixels"));
  EXPECT_THAT(Message(Label(""), "-1"), HasSubstr("image 'a/b.jpg': its width is -1"));
}

TEST_F(CocoLabelsTest, HaveMasksWithAllLabelsOrNone) {
  const std::string with = Label(R"(, "segmentation": [[1, 0, 3, 0, 3, 2]])"),
                    empty = Label(R"(, "segmentation": [])"), without = Label("");
  EXPECT_TRUE(Read(with + "," + with).has_masks);
  EXPECT_FALSE(Read(with + "," + without).has_masks);
  EXPECT_FALSE(Read(empty + "," + with).has_masks);
  EXPECT_FALSE(Read(with, "0").has_masks);
  EXPECT_FALSE(Read("").has_masks);
}

TEST_F(CocoLabelsTest, HaveImagesOfLimitedSize) {
  EXPECT_THAT(Message(Label(""), "131073"),
              HasSubstr("labels.json': image 'a/b.jpg': its width is 131073, expected an integer "
                        "from 0 to 131072"));
  EXPECT_THAT(Message(Label(""), "131072", "2049"),
              HasSubstr("image 'a/b.jpg': it has 131072x2049 pixels, expected at most 268435456"));
}

TEST_F(CocoLabelsTest, RefuseNumbersThatAreNoIntegers) {
  for (const std::string number : {"1e300", "4.5", "18446744073709551615", "\"4\"", "null"}) {
    EXPECT_THAT(Message("", number), HasSubstr("image 'a/b.jpg': its width is ")) << number;
  }
  EXPECT_EQ(Read("", "4.0").images.begin()->second.width, 4);
  EXPECT_THAT(Message(R"({"id": 1, "image_id": 9007199254740993})"),
              HasSubstr("annotation 1: its image_id is 9007199254740993, expected an integer"));
  EXPECT_THAT(Message(R"({"id": 1, "image_id": 5, "category_id": 9, "bbox": [1, 0, 2, 2, 3]})"),
              HasSubstr("annotation 1: its bbox is an array of 5, expected an array of 4"));
  EXPECT_THAT(Message(Label(R"(, "segmentation": {"size": [2, 4, 1], "counts": [8]})")),
              HasSubstr("annotation 1: the size of its mask is an array of 3"));
}

}  // namespace
}  // namespace bitpress::evaluate
