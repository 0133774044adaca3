#include "finetune/moments_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <sstream>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/scratch_folder.h"
#include "finetune/moment_accumulator.h"
#include "finetune/test_layers.h"

namespace bitpress::finetune {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

class MomentsFileTest : public testing::Test {
 protected:
  MomentsOrigin Origin(uint64_t begin, uint64_t end) const {
    return {.model_name = "m.onnx",
            .model_fingerprint = 7,
            .key = "key",
            .num_runs_of_all = 8,
            .split = Split::kHalves,
            .runs = {{begin, end}},
            .samples = end - begin};
  }

  // Writes the sums of runs [begin, end) of two layers.
  fs::path Write(const std::string& name, uint64_t begin, uint64_t end, const MomentsOrigin& origin,
                 bool has_second = true) const {
    const fs::path path = folder_.path() / name;
    MomentsWriter writer(path);
    for (int64_t inputs = 70; inputs >= (has_second ? 5 : 70); inputs -= 65) {
      const LinearLayer layer = GemmLayer(inputs, 3);
      LayerSums sums;
      MomentAccumulator learned(layer);
      MomentAccumulator held_back(layer);
      for (uint64_t run = begin; run < end; ++run) {
        const auto x = RandomNormal(static_cast<size_t>(inputs * 6), static_cast<uint32_t>(run));
        const auto y = RandomNormal(3 * 6, static_cast<uint32_t>(run + 50));
        (run % 2 == 0 ? learned : held_back)
            .Add(std::vector<int64_t>{6, inputs}, x.data(), std::vector<int64_t>{6, 3}, y.data(),
                 RunInOrder(), {run});
      }
      sums.learned = learned.Finish(RunInOrder());
      sums.held_back = held_back.Finish(RunInOrder());
      writer.Add({.layers = {"w" + std::to_string(inputs)},
                  .op_type = "Gemm",
                  .shape = ShapeOf(layer),
                  .has_held_back = true},
                 sums);
    }
    writer.Commit(origin);
    return path;
  }
  fs::path Write(uint64_t begin, uint64_t end) const {
    return Write("part" + std::to_string(begin) + "_" + std::to_string(end) + ".bpm", begin, end,
                 Origin(begin, end));
  }
  std::string ErrorOfMerge(const std::vector<fs::path>& paths) const {
    try {
      MergeMoments(paths, folder_.path() / "sum.bpm", pool_);
    } catch (const Error& error) {
      EXPECT_FALSE(fs::exists(folder_.path() / "sum.bpm"));
      return error.what();
    }
    return "";
  }

  const ScratchFolder folder_;
  mutable ThreadPool pool_{3};
};

TEST_F(MomentsFileTest, PartsHaveTheBytesOfTheWhole) {
  const fs::path whole = Write(0, 8);
  const fs::path sum = folder_.path() / "sum.bpm";
  const MomentsOrigin origin =
      MergeMoments(std::vector{Write(5, 8), Write(0, 2), Write(2, 5)}, sum, pool_);
  EXPECT_TRUE(origin.IsWhole());
  EXPECT_EQ(origin.num_runs(), 8u);
  EXPECT_TRUE(ReadFile(sum) == ReadFile(whole));
  // The sum may replace one of its parts.
  const fs::path first = Write(0, 3);
  MergeMoments(std::vector{first, Write(3, 8)}, first, pool_);
  EXPECT_TRUE(ReadFile(first) == ReadFile(whole));
  EXPECT_TRUE(IsMomentsFile(first));
}

TEST_F(MomentsFileTest, WhatDoesNotFitIsRefused) {
  const fs::path part = Write(0, 3);
  EXPECT_THAT(ErrorOfMerge({part, Write(2, 5)}), HasSubstr("both have sample 2"));
  EXPECT_THAT(ErrorOfMerge({part, part}), HasSubstr("both have sample 0"));
  MomentsOrigin other = Origin(3, 5);
  other.model_fingerprint = 8;
  EXPECT_THAT(ErrorOfMerge({part, Write("a.bpm", 3, 5, other)}), HasSubstr("different models"));
  other = Origin(3, 5);
  other.key = "other";
  EXPECT_THAT(ErrorOfMerge({part, Write("b.bpm", 3, 5, other)}),
              HasSubstr("different configurations"));
  other = Origin(3, 5);
  other.num_runs_of_all = 9;
  EXPECT_THAT(ErrorOfMerge({part, Write("c.bpm", 3, 5, other)}), HasSubstr("parts of 8 samples"));
  EXPECT_THAT(ErrorOfMerge({part, Write("d.bpm", 3, 5, Origin(3, 5), false)}),
              HasSubstr("different layers"));
  const MomentsReader reader(part);
  EXPECT_FALSE(reader.origin().IsWhole());
  EXPECT_EQ(reader.EntryOf("w5"), 1u);
  EXPECT_THROW(reader.EntryOf("w6"), Error);
}

TEST_F(MomentsFileTest, DamageIsOneError) {
  const std::string bytes = ReadFile(Write(0, 2));
  const auto read_all = [&](const std::string& file) {
    MomentsReader reader(std::make_unique<std::istringstream>(file));
    for (size_t entry = 0; entry < reader.entries().size(); ++entry) {
      LayerSums sums = reader.Empty(entry);
      reader.Add(entry, reader.Read(entry), sums, pool_);
    }
  };
  read_all(bytes);
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    std::string other = bytes;
    // The ends of the file are what is looked at first.
    const size_t at = round < 60    ? static_cast<size_t>(round) % 12
                      : round < 200 ? bytes.size() - 1 - static_cast<size_t>(round - 60)
                                    : random() % bytes.size();
    other[at] = static_cast<char>(other[at] ^ static_cast<char>(1 + random() % 255));
    EXPECT_THROW(read_all(other), Error) << at;
    EXPECT_THROW(read_all(bytes.substr(0, at)), Error) << at;
    EXPECT_THROW(read_all(bytes + std::string(1 + at % 20, 'x')), Error) << at;
  }
}

}  // namespace
}  // namespace bitpress::finetune
