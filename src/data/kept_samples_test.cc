// Tests of samples in memory: they are those of the files, whatever was read before.
#include "data/kept_samples.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "base/test_support.h"
#include "data/stream_source.h"

namespace bitpress::data {
namespace {

using testing::ElementsAre;
using Values = std::vector<std::vector<float>>;

constexpr size_t kAll = 0;

SampleStream::Item Rows(std::vector<int64_t> dims, float begin) {
  std::vector<float> values(static_cast<size_t>(NumElements(dims)));
  std::iota(values.begin(), values.end(), begin);
  return {{MakeTensor(DataType::kFloat, std::move(dims), values)}, {}};
}

// Samples of other shapes, some of them several in an item, that are counted when they are read.
class Items : public SampleStream {
 public:
  explicit Items(size_t& num_read) : num_read_(num_read) {}
  std::optional<Item> Next() override {
    if (position_ == items_.size()) return std::nullopt;
    ++num_read_;
    return items_[position_++];
  }
  void Rewind() override { position_ = 0; }
  size_t num_samples() const override { return 0; }
  bool has_labels() const override { return false; }

 private:
  size_t& num_read_;
  std::vector<Item> items_ = {Rows({3, 2}, 0), Rows({2, 2}, 10), Rows({1, 3}, 20),
                              Rows({2, 3}, 30)};
  size_t position_ = 0;
};

class KeptSamplesTest : public testing::Test {
 protected:
  std::unique_ptr<Source> Open(size_t limit, SourceOptions options = {}) {
    options.limit = limit;
    options.opener = [this](const SourceOptions& wanted) {
      return MakeStreamSource(std::make_unique<Items>(num_read_), wanted);
    };
    options.kept = kept_;
    return OpenSource(options);
  }
  // Returns the values of each batch.
  Values Read(Source& source, size_t max_samples) {
    Values batches;
    while (const std::optional<Batch> batch = source.Next(max_samples)) {
      const auto values = batch->inputs.at(0).values<float>();
      batches.emplace_back(values.begin(), values.end());
    }
    return batches;
  }
  Values Read(size_t limit, size_t max_samples, SourceOptions options = {}) {
    return Read(*Open(limit, std::move(options)), max_samples);
  }

  size_t num_read_ = 0;
  std::shared_ptr<KeptSamples> kept_ = std::make_shared<KeptSamples>();
};

TEST_F(KeptSamplesTest, GiveTheSameBatchesWhateverWasReadBefore) {
  for (const size_t limit : {kAll, size_t{1}, size_t{4}, size_t{6}}) {
    for (const size_t max_samples : {1U, 2U, 3U, 8U}) {
      kept_ = nullptr;
      const Values expected = Read(limit, max_samples);
      for (const size_t before : {kAll, size_t{1}, size_t{2}, size_t{5}}) {
        kept_ = std::make_shared<KeptSamples>();
        Read(before, 3);
        EXPECT_EQ(Read(limit, max_samples), expected) << before << " before " << limit;
        EXPECT_EQ(Read(limit, max_samples), expected);
        num_read_ = 0;
        EXPECT_EQ(Read(limit, max_samples), expected);
        EXPECT_EQ(num_read_, 0U);
      }
    }
  }
}

TEST_F(KeptSamplesTest, BeginAgain) {
  Read(kAll, 3);
  const std::unique_ptr<Source> source = Open(kAll);
  EXPECT_EQ(source->num_samples(), 8U);
  const Values first = Read(*source, 2);
  source->Rewind();
  EXPECT_EQ(Read(*source, 2), first);
}

TEST_F(KeptSamplesTest, KeepNoMoreThanTheirBytes) {
  kept_ = std::make_shared<KeptSamples>(4 * 2 * sizeof(float));
  const Values all = Read(kAll, 1);
  num_read_ = 0;
  EXPECT_EQ(Read(kAll, 1), all);
  EXPECT_EQ(num_read_, 4U) << "the fifth sample is not kept";
  num_read_ = 0;
  EXPECT_EQ(Read(4, 1).size(), 4U);
  EXPECT_EQ(num_read_, 0U);
}

TEST_F(KeptSamplesTest, ReadAnewWhatIsReadInAnotherWay) {
  Read(kAll, 1);
  SourceOptions options;
  options.use_whole_items = true;
  EXPECT_EQ(Read(kAll, 1, options).size(), 4U);
  num_read_ = 0;
  options = {};
  options.keeps_failures = true;
  EXPECT_EQ(Read(kAll, 1, options).size(), 8U);
  EXPECT_EQ(num_read_, 4U);
}

TEST_F(KeptSamplesTest, WholeItemsStayAlone) {
  SourceOptions options;
  options.use_whole_items = true;
  const Values expected = Read(kAll, 3, options);
  EXPECT_EQ(expected.size(), 4U);
  num_read_ = 0;
  EXPECT_EQ(Read(kAll, 3, options), expected);
  EXPECT_EQ(num_read_, 0U);
}

}  // namespace
}  // namespace bitpress::data
