#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/test_support.h"
#include "base/test_system.h"
#include "data/source.h"
#include "data/test_files.h"

namespace bitpress::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class PhotoSourceTest : public testing::Test {
 protected:
  // Writes a picture that is `value` in every pixel.
  void WritePhoto(const std::string& name, int value, int width = 8, int height = 8) {
    Photo photo{.width = width, .height = height, .rgb = {}};
    photo.rgb.assign(static_cast<size_t>(width * height * 3), static_cast<uint8_t>(value));
    WriteBytes(folder_ / name, name.ends_with(".png") ? EncodePng(photo) : EncodeJpeg(photo));
  }

  std::unique_ptr<Source> Open(SourceOptions options = {}) {
    options.folder = folder_.path();
    if (!options.image) options.image = ImageSpec{};
    return OpenSource(options);
  }
  std::string OpenFailure(ErrorCode code, SourceOptions options = {}) {
    return ExpectError(code, [&] { Open(std::move(options)); });
  }
  // Returns the first pixel of each sample, as the byte it was.
  static std::vector<int> Values(const Batch& batch) {
    std::vector<int> values;
    const size_t stride = batch.inputs[0].values<float>().size() / batch.num_samples;
    for (size_t i = 0; i < batch.num_samples; ++i) {
      values.push_back(
          static_cast<int>(batch.inputs[0].values<float>()[i * stride] * 255.0f + 0.5f));
    }
    return values;
  }

  TemporaryFolder folder_;
};

TEST_F(PhotoSourceTest, FlatFolderInOrderOfNames) {
  WritePhoto("b.png", 2);
  WritePhoto("a.PNG.png", 1);
  WritePhoto("c.jpeg", 30);
  WriteBytes(folder_ / "notes.txt", "not looked at");
  WriteBytes(folder_ / ".hidden.png", "not looked at");
  for (const bool read_ahead : {false, true}) {
    const auto source = Open({.num_threads = 3, .read_ahead = read_ahead});
    EXPECT_EQ(source->num_samples(), 3u);
    EXPECT_FALSE(source->has_labels());
    for (int round = 0; round < 2; ++round) {
      const auto first = source->Next(2);
      ASSERT_TRUE(first);
      EXPECT_EQ(first->num_samples, 2u);
      EXPECT_THAT(first->inputs[0].dims, ElementsAre(2, 3, 8, 8));
      EXPECT_THAT(Values(*first), ElementsAre(1, 2));
      EXPECT_THAT(first->names, ElementsAre("a.PNG.png", "b.png"));
      EXPECT_THAT(first->labels, IsEmpty());
      if (round == 1) {  // in the middle
        source->Rewind();
        EXPECT_THAT(source->Next(5)->names, ElementsAre("a.PNG.png", "b.png", "c.jpeg"));
      } else {
        EXPECT_THAT(source->Next(2)->names, ElementsAre("c.jpeg"));
      }
      EXPECT_FALSE(source->Next(2));
      EXPECT_FALSE(source->Next(2));
      source->Rewind();
    }
  }
}

TEST_F(PhotoSourceTest, SubfoldersAreClasses) {
  WritePhoto("n02/x.png", 1);
  WritePhoto("n01/y.png", 2);
  WritePhoto("n01/deeper/z.png", 3);
  WritePhoto("n03/x.jpg", 4);
  const auto source = Open();
  EXPECT_TRUE(source->has_labels());
  const auto batch = source->Next(10);
  EXPECT_THAT(batch->names, ElementsAre("n01/deeper/z.png", "n01/y.png", "n02/x.png", "n03/x.jpg"));
  EXPECT_THAT(batch->labels, ElementsAre(0, 0, 1, 2));
}

TEST_F(PhotoSourceTest, CsvChoosesAndOrders) {
  WritePhoto("a.png", 1);
  WritePhoto("b.png", 2);
  WritePhoto("sub/c.png", 3);
  WriteBytes(folder_ / "labels.csv", "file,class\nsub/c.png,30\na.png,10\n");
  const auto source = Open({.labels_csv = folder_ / "labels.csv"});
  EXPECT_EQ(source->num_samples(), 2u);
  const auto batch = source->Next(10);
  EXPECT_THAT(batch->names, ElementsAre("sub/c.png", "a.png"));
  EXPECT_THAT(batch->labels, ElementsAre(30, 10));
  EXPECT_THAT(Values(*batch), ElementsAre(3, 1));
}

TEST_F(PhotoSourceTest, LimitAndLongRuns) {
  for (int i = 0; i < 25; ++i) WritePhoto(fmt::format("{:02}.png", i), i);
  for (const bool read_ahead : {false, true}) {
    const auto source = Open({.limit = 23, .read_ahead = read_ahead});
    EXPECT_EQ(source->num_samples(), 23u);
    std::vector<int> values;
    // Batch sizes change, even while photos are read ahead.
    for (const size_t wanted : {4u, 1u, 9u, 2u, 100u}) {
      const auto batch = source->Next(wanted);
      ASSERT_TRUE(batch);
      EXPECT_LE(batch->num_samples, wanted);
      for (const int value : Values(*batch)) values.push_back(value);
    }
    EXPECT_FALSE(source->Next(1));
    ASSERT_EQ(values.size(), 23u);
    for (int i = 0; i < 23; ++i) EXPECT_EQ(values[static_cast<size_t>(i)], i);
  }
}

TEST_F(PhotoSourceTest, UncroppedSizesEndABatch) {
  WritePhoto("a.png", 1, 8, 8);
  WritePhoto("b.png", 2, 8, 8);
  WritePhoto("c.png", 3, 9, 8);
  WritePhoto("d.png", 4, 8, 8);
  for (const bool read_ahead : {false, true}) {
    const auto source = Open({.read_ahead = read_ahead});
    EXPECT_THAT(source->Next(4)->names, ElementsAre("a.png", "b.png"));
    const auto odd = source->Next(4);
    EXPECT_THAT(odd->names, ElementsAre("c.png"));
    EXPECT_THAT(odd->inputs[0].dims, ElementsAre(1, 3, 8, 9));
    EXPECT_THAT(source->Next(4)->names, ElementsAre("d.png"));
    EXPECT_FALSE(source->Next(4));
    // With a crop they fit together.
    EXPECT_EQ(Open({.image = ImageSpec{.crop = 8}, .read_ahead = read_ahead})->Next(4)->num_samples,
              4u);
  }
}

TEST_F(PhotoSourceTest, DamagedPhotoIsNamedAlsoWhenReadAhead) {
  WritePhoto("a.png", 1);
  WritePhoto("b.png", 2);
  WriteBytes(folder_ / "c.png", "damaged");
  WriteBytes(folder_ / "d.png", "damaged too");
  for (const bool read_ahead : {false, true}) {
    const auto source = Open({.read_ahead = read_ahead});
    EXPECT_EQ(source->Next(2)->num_samples, 2u);
    EXPECT_THAT(ExpectError(ErrorCode::kInvalidArgument, [&] { source->Next(2); }),
                HasSubstr("c.png: the file is neither JPEG, PNG, WebP, BMP nor TIFF"));
    source->Rewind();
    EXPECT_EQ(source->Next(2)->num_samples, 2u);
  }
}

TEST_F(PhotoSourceTest, OpeningErrors) {
  EXPECT_THAT(OpenFailure(ErrorCode::kInvalidArgument), HasSubstr("is empty"));
  WriteBytes(folder_ / "notes.txt", "text");
  EXPECT_THAT(OpenFailure(ErrorCode::kInvalidArgument),
              testing::AllOf(HasSubstr(folder_.path().string()), HasSubstr("holds no .jpg")));
  WritePhoto("a.png", 1);
  EXPECT_THAT(
      ExpectError(ErrorCode::kInvalidArgument, [&] { OpenSource({.folder = folder_.path()}); }),
      HasSubstr("give image options"));
  EXPECT_THAT(OpenFailure(ErrorCode::kInvalidArgument, {.input_names = {"x", "y"}}),
              HasSubstr("the model has 2 inputs (x, y)"));
  WriteBytes(folder_ / "b.npy", "");
  EXPECT_THAT(OpenFailure(ErrorCode::kInvalidArgument),
              HasSubstr("is mixed: it holds 'a.png' and 'b.npy'"));
  EXPECT_THAT(ExpectError(ErrorCode::kIo, [&] { OpenSource({.folder = folder_ / "no"}); }),
              HasSubstr("no' not found"));
  EXPECT_THAT(
      ExpectError(ErrorCode::kInvalidArgument, [&] { OpenSource({.folder = folder_ / "a.png"}); }),
      HasSubstr("is a file"));
}

TEST_F(PhotoSourceTest, NamesThatNoFileHasAreNoFolders) {
  WritePhoto("a.png", 1);
  MakeLink(folder_ / "loop", folder_ / "loop");
  // The name is longer than file systems allow.
  EXPECT_EQ(Open({.input_names = {std::string(300, 'x')}})->num_samples(), 1u);
}

TEST_F(PhotoSourceTest, SubfolderErrors) {
  WritePhoto("n01/x.png", 1);
  std::filesystem::create_directory(folder_ / "n02");
  EXPECT_THAT(
      OpenFailure(ErrorCode::kInvalidArgument),
      HasSubstr(
          "n02' holds no .jpg .jpeg .png .webp .bmp .tif .tiff, .npy, .npz or .pb; remove it"));
  WritePhoto("n02/x.png", 1);
  WritePhoto("top.png", 1);
  EXPECT_THAT(OpenFailure(ErrorCode::kInvalidArgument),
              HasSubstr("is mixed: it holds 'top.png' beside subfolders"));
}

TEST_F(PhotoSourceTest, CsvErrors) {
  WritePhoto("a.png", 1);
  const auto failure = [&](ErrorCode code, const std::string& text) {
    WriteBytes(folder_ / "l.csv", text);
    return OpenFailure(code, {.labels_csv = folder_ / "l.csv"});
  };
  EXPECT_THAT(failure(ErrorCode::kIo, "file,class\na.png,1\nb.png,2\n"),
              testing::AllOf(HasSubstr("l.csv: line 3: file '"), HasSubstr("b.png' not found")));
  EXPECT_THAT(failure(ErrorCode::kInvalidArgument, "file,class\na.png,one\n"),
              HasSubstr("l.csv: line 2: class 'one'"));
  EXPECT_THAT(failure(ErrorCode::kInvalidArgument, "file,class\nl.csv,1\n"),
              HasSubstr("line 2: '"));
  EXPECT_THAT(OpenFailure(ErrorCode::kIo, {.labels_csv = folder_ / "no.csv"}), HasSubstr("no.csv"));
}

TEST_F(PhotoSourceTest, BatchOfNothing) {
  WritePhoto("a.png", 1);
  const auto source = Open();
  ExpectError(ErrorCode::kInvalidArgument, [&] { source->Next(0); });
}

TEST_F(PhotoSourceTest, NumberOfThreadsChangesNothing) {
  for (int i = 0; i < 12; ++i) {
    WriteBytes(folder_ / fmt::format("{:02}.jpg", i), EncodeJpeg(MakePhoto(40 + i, 60 - i)));
  }
  const ImageSpec spec{.resize = 32, .crop = 24};
  const auto one = Open({.image = spec, .num_threads = 1})->Next(12);
  const auto many = Open({.image = spec, .num_threads = 7})->Next(12);
  EXPECT_EQ(one->num_samples, 12u);
  EXPECT_EQ(one->inputs[0].bytes, many->inputs[0].bytes);
}

TEST_F(PhotoSourceTest, TheFingerprintIsOfTheContentOfAllSamples) {
  for (int i = 0; i < 4; ++i) WritePhoto(std::to_string(i) + ".png", i);
  const uint64_t first = Open()->Fingerprint();
  EXPECT_EQ(Open()->Fingerprint(), first);
  EXPECT_NE(Open({.limit = 3})->Fingerprint(), first);
  EXPECT_NE(Open({.image = ImageSpec{.crop = 4}})->Fingerprint(), first);
  EXPECT_NE(Open({.image = ImageSpec{.mean = {0, 0, 0.5F}}})->Fingerprint(), first);
  WritePhoto("3.png", 5);
  EXPECT_NE(Open()->Fingerprint(), first);
  WritePhoto("3.png", 3);
  WriteBytes(folder_ / "labels.csv", "file,class\n0.png,0\n1.png,0\n2.png,0\n3.png,0\n");
  const uint64_t labelled = Open({.labels_csv = folder_ / "labels.csv"})->Fingerprint();
  EXPECT_NE(labelled, first);
  WriteBytes(folder_ / "labels.csv", "file,class\n0.png,0\n1.png,0\n2.png,0\n3.png,1\n");
  EXPECT_NE(Open({.labels_csv = folder_ / "labels.csv"})->Fingerprint(), labelled);
  const auto source = Open({.read_ahead = true});
  source->Next(2);
  EXPECT_EQ(source->Fingerprint(), first);
  EXPECT_THAT(Values(*source->Next(4)), ElementsAre(0, 1, 2, 3));
}

}  // namespace
}  // namespace bitpress::data
