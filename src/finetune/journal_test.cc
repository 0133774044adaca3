#include "finetune/journal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/scratch_folder.h"

namespace bitpress::finetune {
namespace {

LearnedLayer Learned(const std::string& weight, float value) {
  LearnedLayer layer;
  layer.report.node = "node of " + weight;
  layer.report.weight = weight;
  layer.report.error_before = 0.5;
  layer.report.error_after = 0.125;
  layer.report.validated_on = ValidatedOn::kLearned;
  layer.report.is_tuned = true;
  layer.learned.weights = {value, -value, 0};
  layer.learned.bias = {1};
  layer.learned.params = {{0.25F, -3}};
  layer.of_halves = {{{value}, {}, {}}, {{-value}, {2}, {{0.5F, 1}}}};
  return layer;
}

TEST(LearningJournal, GoesOnWhereItStopped) {
  const ScratchFolder folder;
  const auto path = folder.path() / "journal";
  {
    LearningJournal journal(path, "key");
    EXPECT_EQ(journal.num_found(), 0U);
    journal.Add(Learned("a", 1));
    journal.Add(Learned("b", 2));
  }
  {
    LearningJournal journal(path, "key");
    ASSERT_EQ(journal.num_found(), 2U);
    EXPECT_FALSE(journal.Find("c"));
    const LearnedLayer found = journal.Find("b").value();
    EXPECT_EQ(found.learned.weights, Learned("b", 2).learned.weights);
    EXPECT_EQ(found.learned.params, Learned("b", 2).learned.params);
    EXPECT_EQ(found.report.node, "node of b");
    EXPECT_EQ(found.report.error_after, 0.125);
    EXPECT_EQ(found.report.validated_on, ValidatedOn::kLearned);
    ASSERT_EQ(found.of_halves.size(), 2U);
    EXPECT_EQ(found.of_halves[0].weights, std::vector<float>{2});
    EXPECT_EQ(found.of_halves[1].params, Learned("b", 2).of_halves[1].params);
    EXPECT_TRUE(found.report.is_tuned);
    journal.Add(Learned("c", 3));
  }
  LearningJournal journal(path, "key");
  EXPECT_EQ(journal.num_found(), 3U);
}

TEST(LearningJournal, KeepsNumbersThatAreNotFinite) {
  const ScratchFolder folder;
  const auto path = folder.path() / "journal";
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  LearnedLayer layer = Learned("a", kInfinity);
  layer.report.error_before = kInfinity;
  layer.report.error_after = -kInfinity;
  layer.learned.bias = {std::numeric_limits<float>::quiet_NaN()};
  LearningJournal(path, "key").Add(layer);
  const LearningJournal journal(path, "key");
  const LearnedLayer found = journal.Find("a").value();
  EXPECT_EQ(found.report.error_before, kInfinity);
  EXPECT_EQ(found.report.error_after, -kInfinity);
  EXPECT_EQ(found.learned.weights, layer.learned.weights);
  EXPECT_TRUE(std::isnan(found.learned.bias.at(0)));
}

TEST(LearningJournal, ARecordThatWasCutDoesNotCount) {
  const ScratchFolder folder;
  const auto path = folder.path() / "journal";
  uintmax_t whole = 0;
  {
    LearningJournal journal(path, "key");
    journal.Add(Learned("a", 1));
    whole = std::filesystem::file_size(path);
    journal.Add(Learned("b", 2));
  }
  const uintmax_t both = std::filesystem::file_size(path);
  for (uintmax_t size = both - 1; size >= whole; size -= 7) {
    std::filesystem::resize_file(path, size);
    EXPECT_EQ(LearningJournal(path, "key").num_found(), 1U) << size;
    EXPECT_EQ(std::filesystem::file_size(path), whole) << size;
    std::filesystem::resize_file(path, size);  // zeros behind it
  }
  LearningJournal journal(path, "key");
  journal.Add(Learned("b", 2));
  EXPECT_EQ(LearningJournal(path, "key").num_found(), 2U);
}

TEST(LearningJournal, OfOtherWorkIsNotRead) {
  const ScratchFolder folder;
  const auto path = folder.path() / "journal";
  LearningJournal(path, "key").Add(Learned("a", 1));
  EXPECT_EQ(LearningJournal(path, "another key").num_found(), 0U);
  EXPECT_EQ(LearningJournal(path, "key").num_found(), 0U);  // begun anew by the other one
}

TEST(MergeLearningJournals, HasEachLayerOnce) {
  const ScratchFolder folder;
  const auto a = folder.path() / "a";
  const auto b = folder.path() / "b";
  const auto sum = folder.path() / "sum";
  {
    LearningJournal journal(a, "key");
    journal.Add(Learned("a", 1));
    journal.Add(Learned("b", 2));
  }
  {
    LearningJournal journal(b, "key");
    journal.Add(Learned("b", 2));
    journal.Add(Learned("c", 3));
  }
  EXPECT_TRUE(IsLearningJournal(a));
  EXPECT_EQ(MergeLearningJournals(std::vector{a, b}, sum), 3U);
  const LearningJournal journal(sum, "key");
  EXPECT_EQ(journal.num_found(), 3U);
  EXPECT_EQ(journal.Find("c")->learned.weights, Learned("c", 3).learned.weights);
}

TEST(MergeLearningJournals, OtherWorkAndCutFilesAreRefused) {
  const ScratchFolder folder;
  const auto a = folder.path() / "a";
  const auto b = folder.path() / "b";
  const auto sum = folder.path() / "sum";
  LearningJournal(a, "key").Add(Learned("a", 1));
  LearningJournal(b, "other").Add(Learned("b", 1));
  EXPECT_THROW(MergeLearningJournals(std::vector{a, b}, sum), Error);
  std::filesystem::resize_file(a, std::filesystem::file_size(a) - 1);
  EXPECT_THROW(MergeLearningJournals(std::vector{a}, sum), Error);
  EXPECT_FALSE(std::filesystem::exists(sum));
  EXPECT_FALSE(IsLearningJournal(sum));
}

}  // namespace
}  // namespace bitpress::finetune
