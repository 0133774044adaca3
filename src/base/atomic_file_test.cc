#include "base/atomic_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "base/test_support.h"

namespace bitpress {
namespace {

namespace fs = std::filesystem;

class AtomicFileTest : public testing::Test {
 protected:
  TemporaryFolder folder_;
};

TEST_F(AtomicFileTest, AppearsOnlyOnCommit) {
  const fs::path path = folder_ / "out.bin";
  {
    AtomicFile file(path);
    file.Write("lost");
  }
  EXPECT_EQ(folder_.NumFiles(), 0u);
  AtomicFile file(path);
  file.Write("kept");
  EXPECT_FALSE(fs::exists(path));
  file.Commit();
  EXPECT_EQ(ReadFile(path), "kept");
  EXPECT_EQ(folder_.NumFiles(), 1u);
}

TEST_F(AtomicFileTest, AKilledProcessLeavesNothing) {
  const fs::path path = folder_ / "out.bin";
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
  const int probe = ::open(folder_.path().c_str(), O_TMPFILE | O_RDWR, 0600);
  if (probe < 0) GTEST_SKIP() << "this file system has no files without names";
  ::close(probe);
  EXPECT_EQ(folder_.NumFiles(), 1u);
}

TEST_F(AtomicFileTest, PermissionsAreThoseOfANewFile) {
  const mode_t mask = ::umask(027);
  for (const auto start : {AtomicFile::Start::kNamelessIfPossible, AtomicFile::Start::kNamed}) {
    const fs::path path = folder_ / "out.bin";
    AtomicFile file(path, start);
    file.Commit();
    EXPECT_EQ(fs::status(path).permissions(), static_cast<fs::perms>(0640));
    fs::remove(path);
  }
  ::umask(mask);
}

// Some file systems have no files without names. The named start is for those.
TEST_F(AtomicFileTest, FilesWithATemporaryName) {
  const fs::path path = folder_ / "out.bin";
  {
    AtomicFile lost(path, AtomicFile::Start::kNamed);
    lost.Write("lost");
    EXPECT_EQ(folder_.NumFiles(), 1u);
  }
  EXPECT_EQ(folder_.NumFiles(), 0u);
  AtomicFile file(path, AtomicFile::Start::kNamed);
  AtomicFile other(path, AtomicFile::Start::kNamed);  // has a name of its own
  file.Write("kept");
  EXPECT_FALSE(fs::exists(path));
  file.Commit();
  other.Write("later");
  other.Commit();
  EXPECT_EQ(ReadFile(path), "later");
  EXPECT_EQ(folder_.NumFiles(), 1u);
}

TEST_F(AtomicFileTest, WhatIsNoFileIsNotReplaced) {
  const fs::path path = folder_ / "pipe";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_THROW(AtomicFile{path}, Error);
  EXPECT_TRUE(fs::is_fifo(path));
}

TEST_F(AtomicFileTest, AFullDiskLeavesTheOldFile) {
  const fs::path path = folder_ / "out.bin";
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
  EXPECT_EQ(folder_.NumFiles(), 1u);
}

TEST_F(AtomicFileTest, BadPathsAreErrors) {
  EXPECT_THROW(AtomicFile(folder_ / "missing/out.bin"), Error);
  EXPECT_THROW(AtomicFile{folder_.path()}, Error);
  fs::create_symlink(folder_ / "two", folder_ / "one");
  fs::create_symlink(folder_ / "one", folder_ / "two");
  EXPECT_THROW(AtomicFile{folder_ / "one"}, Error);
  EXPECT_THROW(ReadFile(folder_ / "one"), Error);
  EXPECT_THROW(ReadFile(folder_ / "missing"), Error);
  EXPECT_THROW(ReadFile(folder_.path()), Error);
}

TEST_F(AtomicFileTest, CanBeReadBeforeCommit) {
  const fs::path path = folder_.path() / "f";
  for (const bool beside : {false, true}) {
    AtomicFile file(path);
    file.Write("new");
    const fs::path readable = file.ReadablePath(beside);
    EXPECT_EQ(ReadFile(readable), "new");
    if (beside) {
      EXPECT_EQ(readable.parent_path(), folder_.path());
    }
    EXPECT_FALSE(fs::exists(path));
  }
  EXPECT_EQ(folder_.NumFiles(), 0U);
}

}  // namespace
}  // namespace bitpress
