#include "base/atomic_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "base/test_support.h"
#include "base/test_system.h"

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

TEST_F(AtomicFileTest, BadPathsAreErrors) {
  EXPECT_THROW(AtomicFile(folder_ / "missing/out.bin"), Error);
  EXPECT_THROW(AtomicFile{folder_.path()}, Error);
  std::error_code ignored;  // not everyone may make links on Windows
  fs::create_symlink(folder_ / "two", folder_ / "one", ignored);
  fs::create_symlink(folder_ / "one", folder_ / "two", ignored);
  if (!ignored && !IsWine()) {
    EXPECT_THROW(AtomicFile{folder_ / "one"}, Error);
  }
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
