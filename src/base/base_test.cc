#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/atomic_file.h"
#include "base/available_memory.h"
#include "base/check.h"
#include "base/child_process.h"
#include "base/error.h"
#include "base/file_stamps.h"
#include "base/messages.h"
#include "base/processors.h"
#include "base/scratch_folder.h"
#include "base/spillable_array.h"
#include "base/system_files.h"
#include "base/task_guard.h"
#include "base/tensor.h"
#include "base/test_support.h"
#include "base/test_system.h"
#include "base/text.h"
#include "base/thread_pool.h"
#include "base/words.h"

namespace bitpress {
namespace {

namespace fs = std::filesystem;

TEST(SpillableArray, OfAFileHoldsWhatOneOfTheHeapHolds) {
  constexpr size_t kSize = 100'000;
  SpillableArray<double> heap(kSize, ArrayPlace::kHeap);
  SpillableArray<double> spilled(kSize, ArrayPlace::kTemporaryFile);
  EXPECT_TRUE(heap == spilled);  // zeros
  for (size_t i = 0; i < kSize; ++i) heap[i] = spilled[i] = 0.5 * static_cast<double>(i);
  spilled.Release();
  EXPECT_TRUE(heap == spilled);
  spilled[7] += 1;
  EXPECT_FALSE(heap == spilled);
  const SpillableArray<double> moved = std::move(spilled);
  EXPECT_EQ(moved[7], 4.5);
  EXPECT_EQ(SpillableArray<float>(0, ArrayPlace::kTemporaryFile).size(), 0U);
}

TEST(SpillableArray, SaysThatTheFolderHasNoRoom) {
  constexpr size_t kTooMuch = size_t{1} << 60;
  try {
    const SpillableArray<double> array(kTooMuch / sizeof(double), ArrayPlace::kTemporaryFile);
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kIo);
    EXPECT_NE(std::string(error.what()).find("TMP"), std::string::npos);
  }
}

TEST(CheckDeathTest, DebugBuildsAbortWithTheConditionsText) {
#ifdef NDEBUG
  GTEST_SKIP() << "release builds have no checks";
#endif
  const std::vector<int> none;
  BITPRESS_DCHECK(none.empty());
  EXPECT_DEATH(BITPRESS_DCHECK(none.size() == 3), "base_test.cc:[0-9]+: .*none.size\\(\\) == 3");
}

TEST(Check, ReleaseBuildsDoNotEvaluateTheCondition) {
#ifndef NDEBUG
  GTEST_SKIP() << "this build evaluates checks";
#endif
  int num_evaluated = 0;
  BITPRESS_DCHECK(++num_evaluated > 100);
  EXPECT_EQ(num_evaluated, 0);
}

TEST(Error, ContextIsPutInFront) {
  try {
    WithContext("model.onnx",
                [] { Fail(ErrorCode::kInvalidModel, "node '{}' has no input", "conv1"); });
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidModel);
    EXPECT_STREQ(error.what(), "model.onnx: node 'conv1' has no input");
  }
}

TEST(Text, NearestName) {
  const std::vector<std::string> names = {"MXFP8E4M3", "MXFP8E5M2", "MX6", "BF16"};
  EXPECT_EQ(NearestName("mxfp8e4m2", names), "MXFP8E4M3");
  EXPECT_EQ(NearestName("MX5", names), "MX6");
  EXPECT_EQ(NearestName("something else", names), "");
  EXPECT_EQ(DidYouMean("BF17", names), " (did you mean 'BF16'?)");
}

TEST(Text, Replaced) {
  EXPECT_EQ(Replaced("a/b a/b", "a/b", "a/bc"), "a/bc a/bc");
  EXPECT_EQ(Replaced("nothing", "a/b", ""), "nothing");
}

enum class Color { kRed, kBlue, kNone };

TEST(Words, GoBothWays) {
  constexpr std::array<std::pair<std::string_view, Color>, 2> kColors{
      {{"red", Color::kRed}, {"blue", Color::kBlue}}};
  EXPECT_EQ(JoinWords<Color>(kColors), "red|blue");
  for (const auto& [word, color] : kColors) {
    EXPECT_EQ(ParseWord<Color>(kColors, word), color);
    EXPECT_EQ(WordOf<Color>(kColors, color), word);
  }
  EXPECT_EQ(WordOf<Color>(kColors, Color::kNone), "?");
  const auto failure = [&](std::string_view word, std::string_view what) {
    return ExpectError(ErrorCode::kInvalidArgument, [&] { ParseWord<Color>(kColors, word, what); });
  };
  EXPECT_EQ(failure("blu", "color"), "color 'blu' is not one of red|blue (did you mean 'blue'?)");
  EXPECT_EQ(failure("something", ""), "'something' is not one of red|blue");
}

TEST(Messages, OneLine) {
  EXPECT_EQ(OneLine(" a\n\tb  c\r\n"), "a b c");
  EXPECT_EQ(OneLine("\n"), "");
}

TEST(Messages, EachFaceSpellsOptions) {
  const std::string message = "give " + OptionName("data") + " or " + OptionName("num_threads");
  const auto shout = [](std::string_view name) { return fmt::format("<{}>", name); };
  EXPECT_EQ(SpellOptions(message, shout), "give <data> or <num_threads>");
  EXPECT_EQ(SpellOptions("no option 'at all", shout), "no option 'at all");
  EXPECT_EQ(SpellOptions("", shout), "");
}

TEST(Text, Numbers) {
  EXPECT_EQ(ParseInt(" 12", "n"), 12);
  EXPECT_THROW(ParseInt("12x", "n"), Error);
  EXPECT_THROW(ParseInt("99999999999999999999", "n"), Error);
  EXPECT_EQ(ParseDouble("0.5", "n"), 0.5);
  EXPECT_THROW(ParseDouble("", "n"), Error);
}

TEST(Tensor, TypesWithoutElementsOfOneSizeHaveNone) {
  EXPECT_EQ(ElementBits(DataType::kComplex64), 64u);
  EXPECT_EQ(ElementBits(DataType::kComplex128), 128u);
  EXPECT_EQ(ElementBits(DataType::kString), 0u);
  EXPECT_EQ(ElementBits(DataType::kUndefined), 0u);
  EXPECT_EQ(ElementBits(static_cast<DataType>(999)), 0u);
}

TEST(Tensor, SizesAreChecked) {
  EXPECT_EQ(NumBytes(DataType::kInt4, 5), 3u);
  EXPECT_EQ(NumElements(std::vector<int64_t>{}), 1);
  EXPECT_EQ(NumElements(std::vector<int64_t>{3, 0, 5}), 0);
  EXPECT_THROW(NumElements(std::vector<int64_t>{1LL << 40, 1LL << 40}), Error);
  EXPECT_THROW(NumElements(std::vector<int64_t>{-1, 4}), Error);
  EXPECT_THROW(NumBytes(DataType::kDouble, 1LL << 62), Error);
}

TEST(ThreadPool, EveryTaskRunsOnce) {
  ThreadPool pool(4);
  for (size_t round = 0; round < 100; ++round) {
    std::vector<std::atomic<int>> hits(round);
    pool.ParallelFor(round, [&](size_t i) { ++hits[i]; });
    for (const auto& hit : hits) EXPECT_EQ(hit, 1);
  }
}

TEST(ThreadPool, AnExceptionReachesTheCallerAndThePoolLives) {
  ThreadPool pool(3);
  EXPECT_THROW(pool.ParallelFor(50,
                                [](size_t i) {
                                  if (i == 7) Fail(ErrorCode::kRuntime, "task {}", i);
                                }),
               Error);
  std::atomic<size_t> sum{0};
  pool.ParallelFor(10, [&](size_t i) { sum += i; });
  EXPECT_EQ(sum, 45u);
}

TEST(TaskGuard, RethrowsWhatATaskThrewAndSkipsTheRest) {
  std::atomic<int> num_run = 0;
  const std::function<void(size_t)> task = [&](size_t i) {
    ++num_run;
    if (i % 100 == 7) throw std::bad_alloc();
  };
  TaskGuard guard(task);
  EXPECT_NO_THROW(guard.Rethrow());
  std::vector<std::thread> threads;
  for (size_t thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      for (size_t i = 0; i < 1000; ++i) TaskGuard::Run(&guard, 1000 * thread + i);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THROW(guard.Rethrow(), std::bad_alloc);
  EXPECT_LE(num_run, 4 * 8);
}

TEST(FileStamps, SeeThatAFileChanged) {
  const fs::path folder = fs::temp_directory_path() / "bitpress_file_stamps";
  fs::create_directory(folder);
  const fs::path path = folder / "a", missing = folder / "b";
  WriteFile(path, "one");
  FileStamps stamps;
  stamps.Add(path);
  stamps.Add(missing);
  EXPECT_TRUE(stamps.AreUnchanged());
  WriteFile(path, "two");  // another file of the same size and, perhaps, time
  EXPECT_FALSE(stamps.AreUnchanged());
  FileStamps again;
  again.Add(missing);
  WriteFile(missing, "");
  EXPECT_FALSE(again.AreUnchanged());
  fs::remove_all(folder);
}

TEST(SystemFiles, OfMoreThan4GiBAreCutAndExtended) {
  const TemporaryFolder folder;
  const fs::path path = folder / "large";
  constexpr uint64_t kLarge = (uint64_t{5} << 30) + 3;
  WriteFile(path, "text");
  ASSERT_FALSE(ResizeFile(path, kLarge));  // a hole, which takes no space
  EXPECT_EQ(fs::file_size(path), kLarge);
  std::ofstream(path, std::ios::binary | std::ios::app) << "behind";
  std::ifstream file(path, std::ios::binary);
  file.seekg(static_cast<std::streamoff>(kLarge));
  std::string word;
  file >> word;
  EXPECT_EQ(word, "behind");
  ASSERT_FALSE(ResizeFile(path, kLarge - 1));
  EXPECT_EQ(fs::file_size(path), kLarge - 1);
  ASSERT_FALSE(ResizeFile(path, 4));
  EXPECT_EQ(ReadFile(path), "text");
  EXPECT_TRUE(ResizeFile(folder / "missing", 4));
}

TEST(ScratchFolder, BesideAFileHasAFreeName) {
  const TemporaryFolder folder;
  {
    const ScratchFolder one(folder / "m.onnx");
    const ScratchFolder two(folder / "m.onnx");
    EXPECT_NE(one.path(), two.path());
    EXPECT_EQ(one.path().parent_path(), folder.path());
    EXPECT_TRUE(one.path().filename().string().starts_with("m.onnx."));
    WriteFile(two.path() / "m.onnx", "text");
  }
  EXPECT_EQ(folder.NumFiles(), 0u);
  const std::string message =
      ExpectError(ErrorCode::kIo, [&] { ScratchFolder(folder / "no" / "m.onnx"); });
  EXPECT_NE(message.find("m.onnx"), std::string::npos) << message;
}

TEST(Processors, AreThoseThatGroupsPayFor) {
  const TemporaryFolder folder;
  const fs::path own = folder / "own";
  const auto count = [&] { return ProcessorsOfGroups(own, folder / "groups"); };
  EXPECT_EQ(count(), std::nullopt) << "no groups";
  WriteFile(own, "0::/outer/inner\n");
  WriteBytes(folder / "groups" / "outer" / "inner" / "cpu.max", "max 100000\n");
  EXPECT_EQ(count(), std::nullopt);
  WriteBytes(folder / "groups" / "outer" / "cpu.max", "250000 100000\n");
  EXPECT_EQ(count(), 3u) << "of the group around it, rounded up";
  WriteBytes(folder / "groups" / "outer" / "inner" / "cpu.max", "20000 100000\n");
  EXPECT_EQ(count(), 1u);
  // In a container the group is the root of what is seen, and has the host's name.
  WriteFile(own, "0::/host/name\n");
  EXPECT_EQ(count(), std::nullopt);
  WriteBytes(folder / "groups" / "cpu.max", "200000 100000\n");
  EXPECT_EQ(count(), 2u);
}

TEST(Processors, OfTheFirstVersionOfGroups) {
  const TemporaryFolder folder;
  const fs::path own = folder / "own";
  WriteFile(own, "5:memory:/m\n4:cpu,cpuacct:/job\n");
  const fs::path group = folder / "groups" / "cpu,cpuacct" / "job";
  WriteBytes(group / "cpu.cfs_period_us", "50000\n");
  WriteBytes(group / "cpu.cfs_quota_us", "-1\n");
  EXPECT_EQ(ProcessorsOfGroups(own, folder / "groups"), std::nullopt);
  WriteBytes(group / "cpu.cfs_quota_us", "200000\n");
  EXPECT_EQ(ProcessorsOfGroups(own, folder / "groups"), 4u);
}

TEST(AvailableMemory, IsWhatTheTightestGroupHasLeft) {
  const TemporaryFolder folder;
  const fs::path own = folder / "own";
  const fs::path groups = folder / "groups";
  const auto left = [&] { return MemoryOfGroups(own, groups); };
  WriteFile(own, "0::/outer/inner\n");
  EXPECT_EQ(left(), std::nullopt);
  WriteBytes(groups / "outer" / "inner" / "memory.max", "max\n");
  WriteBytes(groups / "outer" / "inner" / "memory.current", "700\n");
  EXPECT_EQ(left(), std::nullopt);
  WriteBytes(groups / "outer" / "memory.max", "1000\n");
  WriteBytes(groups / "outer" / "memory.current", "900\n");
  EXPECT_EQ(left(), 100u);
  WriteBytes(groups / "outer" / "memory.stat", "anon 500\ninactive_file 250\nactive_file 50\n");
  EXPECT_EQ(left(), 400u) << "files in memory are given back";
  WriteBytes(groups / "memory.max", "600\n");
  WriteBytes(groups / "memory.current", "650\n");
  EXPECT_EQ(left(), 0u);
  WriteFile(own, "3:cpu:/c\n5:memory:/m\n");
  WriteBytes(groups / "memory" / "m" / "memory.limit_in_bytes", "5000\n");
  WriteBytes(groups / "memory" / "m" / "memory.usage_in_bytes", "4000\n");
  WriteBytes(groups / "memory" / "m" / "memory.stat",
             "inactive_file 9\ntotal_inactive_file 1000\n");
  fs::remove(groups / "memory.max");
  EXPECT_EQ(left(), 2000u);
}

TEST(AvailableMemory, IsThereAndCanBeLimited) {
  const auto available = AvailableMemory();
  ASSERT_TRUE(available);
  EXPECT_GT(*available, 1'000'000U);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  if (IsWine()) GTEST_SKIP() << "Wine does not limit the memory of a job";
  constexpr uint64_t kLimit = 200'000'000;
  EXPECT_EXIT(
      {
        LimitMemory(kLimit);
        bool has_failed = false;
        try {
          const std::vector<char> bytes(2 * kLimit, 'x');
          has_failed = bytes[kLimit] != 'x';
        } catch (const std::bad_alloc&) {
          has_failed = true;
        }
        std::_Exit(has_failed ? 0 : 4);
      },
      testing::ExitedWithCode(0), "");
#endif
}

}  // namespace
}  // namespace bitpress
