#include "data/stream_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <numeric>

#include "base/test_support.h"

namespace bitpress::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Returns floats begin, begin + 1, ... in rows of two.
SampleStream::Item Rows(int64_t num_rows, float begin, std::vector<int64_t> labels = {}) {
  std::vector<float> values(static_cast<size_t>(num_rows) * 2);
  std::iota(values.begin(), values.end(), begin);
  return {{MakeTensor(DataType::kFloat, {num_rows, 2}, values)}, std::move(labels)};
}

class Items : public SampleStream {
 public:
  explicit Items(std::vector<Item> items, bool has_labels = false)
      : items_(std::move(items)), has_labels_(has_labels) {}
  std::optional<Item> Next() override {
    if (position_ == items_.size()) {
      ++position_;
      return std::nullopt;
    }
    EXPECT_LT(position_, items_.size()) << "Next was called before Rewind, or after the end";
    return items_.at(position_++);
  }
  void Rewind() override { position_ = 0; }
  size_t num_samples() const override { return 0; }
  bool has_labels() const override { return has_labels_; }

 private:
  std::vector<Item> items_;
  bool has_labels_;
  size_t position_ = 99;  // Next is not to be called before Rewind
};

std::unique_ptr<Source> Open(std::vector<SampleStream::Item> items, SourceOptions options = {},
                             bool has_labels = false) {
  return MakeStreamSource(std::make_unique<Items>(std::move(items), has_labels), options);
}

std::string NextFailure(Source& source) {
  return ExpectError(ErrorCode::kInvalidArgument, [&] { source.Next(4); });
}

TEST(StreamSourceTest, ItemsAreSplitAndJoined) {
  const auto source = Open({Rows(3, 0), Rows(2, 6)});
  EXPECT_FALSE(source->has_labels());
  for (int round = 0; round < 2; ++round) {
    EXPECT_THAT(source->Next(2)->inputs[0].values<float>(), ElementsAre(0, 1, 2, 3));
    const auto batch = source->Next(2);
    EXPECT_THAT(batch->inputs[0].values<float>(), ElementsAre(4, 5, 6, 7));
    EXPECT_THAT(batch->names, ElementsAre("sample 0[2]", "sample 1[0]"));
    EXPECT_THAT(source->Next(2)->inputs[0].dims, ElementsAre(1, 2));
    EXPECT_FALSE(source->Next(2));
    source->Rewind();
  }
}

TEST(StreamSourceTest, AStreamIsNotAskedAgainBehindItsEnd) {
  const auto source = Open({Rows(3, 0)}, {.limit = 8});
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(source->Next(4)->num_samples, 3u) << "the end came inside the batch";
    EXPECT_FALSE(source->Next(4));
    EXPECT_FALSE(source->Next(4));
    source->Rewind();
  }
}

TEST(StreamSourceTest, DoublesBecomeTheFloatsThatTheModelTakes) {
  const SampleStream::Item item{{MakeTensor<double>(DataType::kDouble, {2, 1}, {0.5, 1e300}),
                                 MakeTensor<double>(DataType::kDouble, {2, 1}, {0.1, 2})},
                                {}};
  const auto batch = Open({item}, {.input_names = {"a", "b"},
                                   .input_types = {DataType::kFloat, DataType::kDouble}})
                         ->Next(2);
  EXPECT_EQ(batch->inputs[0].type, DataType::kFloat);
  EXPECT_THAT(batch->inputs[0].values<float>(),
              ElementsAre(0.5f, std::numeric_limits<float>::infinity()));
  EXPECT_THAT(batch->inputs[1].values<double>(), ElementsAre(0.1, 2));
}

TEST(StreamSourceTest, LabelsFollowTheirRows) {
  const auto source = Open({Rows(3, 0, {7, 8, 9}), Rows(1, 6, {5})}, {}, true);
  EXPECT_THAT(source->Next(2)->labels, ElementsAre(7, 8));
  EXPECT_THAT(source->Next(2)->labels, ElementsAre(9, 5));
}

TEST(StreamSourceTest, TheLimitCutsAnItem) {
  const auto source = Open({Rows(3, 0), Rows(3, 6)}, {.limit = 4});
  EXPECT_EQ(source->Next(10)->num_samples, 4u);
  EXPECT_FALSE(source->Next(10));
}

TEST(StreamSourceTest, WholeItemsStayWhole) {
  const auto source = Open({Rows(3, 0), Rows(2, 6)}, {.use_whole_items = true});
  for (const int64_t wanted : {3, 2}) {
    const auto batch = source->Next(10);
    EXPECT_EQ(batch->num_samples, 1u);
    EXPECT_EQ(batch->inputs[0].dims[0], wanted);
    EXPECT_FALSE(batch->HasRows());
  }
  EXPECT_FALSE(source->Next(1));
}

TEST(StreamSourceTest, AnItemWithoutCommonRowsIsOneSample) {
  SampleStream::Item item = Rows(3, 0);
  item.inputs.push_back(Rows(2, 6).inputs[0]);
  const auto source = Open({item, item});
  EXPECT_EQ(source->Next(10)->num_samples, 1u);
  EXPECT_EQ(source->Next(10)->names, std::vector<std::string>{"sample 1"});
}

TEST(StreamSourceTest, WrongItemsAreNamed) {
  EXPECT_THAT(NextFailure(*Open({Rows(2, 0)}, {.input_names = {"a", "b"}})),
              HasSubstr("sample 0 has 1 arrays, but the model has 2 inputs"));
  EXPECT_THAT(NextFailure(*Open({Rows(1, 0), Rows(0, 0)})), HasSubstr("sample 1 has no rows"));
  EXPECT_THAT(NextFailure(*Open({Rows(2, 0, {4})}, {}, true)),
              HasSubstr("there are 1 classes for 2 samples"));
}

TEST(StreamSourceTest, TheFingerprintIsOfTheContentOfAllSamples) {
  const uint64_t first = Open({Rows(3, 0), Rows(2, 6)})->Fingerprint();
  EXPECT_EQ(Open({Rows(5, 0)})->Fingerprint(), first) << "the same samples in one item";
  EXPECT_NE(Open({Rows(3, 0), Rows(2, 7)})->Fingerprint(), first);
  EXPECT_NE(Open({Rows(3, 0, {1, 2, 3}), Rows(2, 6, {4, 5})}, {}, true)->Fingerprint(), first);
}

}  // namespace
}  // namespace bitpress::data
