// These tests are of what only systems like POSIX do: signals, permissions, limits, pipes,
// affinity.
#include <fcntl.h>
#include <gtest/gtest.h>
#ifdef __linux__
#include <sched.h>
#endif
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "base/atomic_file.h"
#include "base/child_process.h"
#include "base/error.h"
#include "base/processors.h"
#include "base/run_clock.h"
#include "base/test_support.h"
#include "base/thread_pool.h"

namespace bitpress {
namespace {

namespace fs = std::filesystem;

// A thread that sleeps takes time, but none of a processor.
TEST(RunClock, OfOneThreadIsThatOfAProcessor) {
  const RunClock one(true), several(false);
  EXPECT_TRUE(one.IsOfProcessor());
  EXPECT_FALSE(several.IsOfProcessor());
  const double began = one.Seconds(), passed_before = several.Seconds();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  const double took = one.Seconds() - began, passed = several.Seconds() - passed_before;
  EXPECT_GE(passed, 0.05);
  EXPECT_LT(took, passed / 2);
  EXPECT_GE(took, 0);
  ASSERT_TRUE(SystemLoad());
  EXPECT_GE(*SystemLoad(), 0);
}

TEST(AtomicFilePosix, AKilledProcessLeavesNothing) {
  const TemporaryFolder folder;
  const fs::path path = folder / "out.bin";
  std::ofstream(path) << "old";
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    AtomicFile file(path);
    file.Write("new");
    ::raise(SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(ReadFile(path), "old");
  const int probe = ::open(folder.path().c_str(), O_TMPFILE | O_RDWR, 0600);
  if (probe < 0) GTEST_SKIP() << "this file system has no files without names";
  ::close(probe);
  EXPECT_EQ(folder.NumFiles(), 1u);
}

TEST(AtomicFilePosix, PermissionsAreThoseOfANewFile) {
  const TemporaryFolder folder;
  const mode_t mask = ::umask(027);
  for (const auto start : {AtomicFile::Start::kNamelessIfPossible, AtomicFile::Start::kNamed}) {
    const fs::path path = folder / "out.bin";
    AtomicFile file(path, start);
    file.Commit();
    EXPECT_EQ(fs::status(path).permissions(), static_cast<fs::perms>(0640));
    fs::remove(path);
  }
  ::umask(mask);
}

TEST(AtomicFilePosix, WhatIsNoFileIsNotReplaced) {
  const TemporaryFolder folder;
  const fs::path path = folder / "pipe";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_THROW(AtomicFile{path}, Error);
  EXPECT_TRUE(fs::is_fifo(path));
}

TEST(AtomicFilePosix, AFullDiskLeavesTheOldFile) {
  const TemporaryFolder folder;
  const fs::path path = folder / "out.bin";
  std::ofstream(path) << "old";
  // A file size limit fails writes as a full disk does.
  rlimit old_limit{};
  getrlimit(RLIMIT_FSIZE, &old_limit);
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit limit = old_limit;
  limit.rlim_cur = 4096;
  setrlimit(RLIMIT_FSIZE, &limit);
  EXPECT_THROW(
      {
        AtomicFile file(path);
        file.Write(std::string(100000, 'x'));
        file.Commit();
      },
      Error);
  setrlimit(RLIMIT_FSIZE, &old_limit);
  std::signal(SIGXFSZ, old_handler);
  EXPECT_EQ(ReadFile(path), "old");
  EXPECT_EQ(folder.NumFiles(), 1u);
}

TEST(RunProgram, TellsHowItEnded) {
  const TemporaryFolder folder;
  const auto run = [&](const std::string& script) {
    return RunProgram("/bin/sh", {"-c", script}, {{"BITPRESS_TEST_WORD", "a word"}},
                      folder / "log");
  };
  EXPECT_EQ(run("exit 0").how, "exit code 0");
  EXPECT_EQ(run("exit 3").how, "exit code 3");
  const ChildEnd end = run("echo to the log; echo and errors >&2; kill -ABRT $$");
  EXPECT_EQ(end.kind, ChildEnd::Kind::kCrash);
  EXPECT_EQ(end.how, "signal 6 (Aborted)");
  EXPECT_EQ(ReadFile(folder / "log"), "to the log\nand errors\n");
  run("echo \"$BITPRESS_TEST_WORD\"; read line || echo no input");
  EXPECT_EQ(ReadFile(folder / "log"), "a word\nno input\n");
}

TEST(RunProgram, SignalsThatTheCallerIgnoresReachIt) {
  const TemporaryFolder folder;
  const auto before = std::signal(SIGTERM, SIG_IGN);
  const ChildEnd end = RunProgram("/bin/sh", {"-c", "kill -TERM $$; exit 0"}, {}, folder / "log");
  std::signal(SIGTERM, before);
  EXPECT_EQ(end.kind, ChildEnd::Kind::kInterrupt);
}

TEST(RunProgram, SaysWhatCannotBeStarted) {
  const TemporaryFolder folder;
  const std::string message = ExpectError(
      ErrorCode::kRuntime, [&] { RunProgram(folder / "missing", {}, {}, folder / "log"); });
  EXPECT_NE(message.find("missing"), std::string::npos) << message;
  ExpectError(ErrorCode::kIo, [&] { RunProgram("/bin/true", {}, {}, folder / "no" / "log"); });
}

TEST(EndWithParentDeathTest, EndsTheChildOfAnotherOrADeadParent) {
  EXPECT_EXIT(
      {
        EndWithParent(::getppid());
        std::_Exit(3);
      },
      testing::ExitedWithCode(3), "");
  EXPECT_EXIT(EndWithParent(ProcessNumber()), testing::KilledBySignal(SIGKILL), "");
}

TEST(ThreadPool, RefusedThreadsLeaveASmallerPool) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers need the address space that this test takes away";
#endif
  // The pool runs in a child process, whose address space is too small for the stacks of so many
  // threads.
  const auto run = [] {
    rlimit limit{};
    getrlimit(RLIMIT_AS, &limit);
    limit.rlim_cur = rlim_t{1} << 30;
    setrlimit(RLIMIT_AS, &limit);
    ThreadPool pool(100000);
    std::atomic<size_t> sum{0};
    pool.ParallelFor(10, [&](size_t i) { sum += i; });
    std::_Exit(sum == 45 && pool.num_threads() < 100000 ? 0 : 1);
  };
  EXPECT_EXIT(run(), testing::ExitedWithCode(0), "");
}

#ifdef __linux__
TEST(Processors, AreThoseToWhichTheProcessIsBound) {
  cpu_set_t before;
  ASSERT_EQ(::sched_getaffinity(0, sizeof before, &before), 0);
  cpu_set_t one;
  CPU_ZERO(&one);
  for (size_t i = 0; i < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++i) {
    if (CPU_ISSET(i, &before)) CPU_SET(i, &one);
  }
  EXPECT_LE(UsableProcessors(), static_cast<size_t>(CPU_COUNT(&before)));
  ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_EQ(UsableProcessors(), 1u);
  EXPECT_EQ(ThreadPool().num_threads(), 1u);
  ASSERT_EQ(::sched_setaffinity(0, sizeof before, &before), 0);
}
#endif

}  // namespace
}  // namespace bitpress
