// These tests are of what only Windows does: files that others have open, names of devices, long
// paths, ends of processes. cmd.exe stands for any program.
#include <gtest/gtest.h>
#include <windows.h>

#include <filesystem>
#include <string>

#include "base/atomic_file.h"
#include "base/child_process.h"
#include "base/environment.h"
#include "base/error.h"
#include "base/mapped_memory.h"
#include "base/paths.h"
#include "base/processors.h"
#include "base/shared_library.h"
#include "base/test_support.h"

namespace bitpress {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kName =
    "Gr\xC3\xB6\xC3\x9F"
    "e \xE4\xB8\xAD\xE6\x96\x87";

fs::path CommandProcessor() { return PathOf(EnvironmentVariable("COMSPEC")); }

TEST(WindowsPaths, AreUtf8AsText) {
  const fs::path path = PathOf(kName);
  EXPECT_EQ(path.native(), L"Gr\u00F6\u00DFe \u4E2D\u6587");
  EXPECT_EQ(PathText(path), kName);
  EXPECT_EQ(PortablePathText(PathOf(R"(a\b/c)")), "a/b/c");
  EXPECT_EQ(PathText(WithSuffix(path, ".data")), std::string(kName) + ".data");
}

TEST(WindowsPaths, MayBeLong) {
  const TemporaryFolder folder;
  fs::path deep = folder.path();
  while (PathText(deep).size() < 300) deep = PathOf(PathText(deep / PathOf(std::string(40, 'x'))));
  EXPECT_TRUE(deep.native().starts_with(LR"(\\?\)"));
  EXPECT_FALSE(PathText(deep).starts_with(R"(\\?\)"));
  fs::create_directories(deep);
  WriteFile(deep / "file", "text");
  EXPECT_EQ(ReadFile(deep / "file"), "text");
}

TEST(WindowsFiles, OfNamesInAllScripts) {
  const TemporaryFolder folder;
  WriteFile(folder / kName, "text");
  EXPECT_EQ(ReadFile(folder / kName), "text");
  EXPECT_EQ(folder.Files(), std::vector<std::string>{std::string(kName)});
}

TEST(WindowsFiles, ReadOnlyOnesAreRefusedBeforeAnyWork) {
  const TemporaryFolder folder;
  const fs::path path = folder / "out.bin";
  WriteFile(path, "old");
  ::SetFileAttributesW(path.c_str(), FILE_ATTRIBUTE_READONLY);
  const std::string message = ExpectError(ErrorCode::kIo, [&] { AtomicFile{path}; });
  EXPECT_NE(message.find("read-only"), std::string::npos) << message;
  ::SetFileAttributesW(path.c_str(), FILE_ATTRIBUTE_NORMAL);
  EXPECT_EQ(ReadFile(path), "old");
}

TEST(WindowsFiles, ThatOthersHaveOpenAreRefusedBeforeAnyWork) {
  const TemporaryFolder folder;
  const fs::path path = folder / "out.bin";
  WriteFile(path, "old");
  const HANDLE other = ::CreateFileW(path.c_str(), GENERIC_READ, FILE_SHARE_READ, nullptr,
                                     OPEN_EXISTING, 0, nullptr);
  const std::string message = ExpectError(ErrorCode::kIo, [&] { AtomicFile{path}; });
  EXPECT_NE(message.find("another program has the file open"), std::string::npos) << message;
  ::CloseHandle(other);
  WriteFile(path, "new");
  EXPECT_EQ(ReadFile(path), "new");
}

TEST(WindowsFiles, DevicesAreNoFiles) {
  const TemporaryFolder folder;
  EXPECT_THROW(ReadFile(folder / "missing"), Error);
  std::error_code error;
  const SystemFile file(folder / "NUL", SystemFile::Use::kCreate, error);
  EXPECT_TRUE(error);
}

TEST(WindowsProgram, TellsHowItEnded) {
  const TemporaryFolder folder;
  const auto run = [&](const std::string& command, const std::string& argument) {
    return RunProgram(CommandProcessor(), {"/c", command, argument},
                      {{"BITPRESS_TEST_WORD", "a word"}}, folder / "log");
  };
  EXPECT_EQ(run("exit", "0").how, "exit code 0");
  EXPECT_EQ(run("exit", "5").how, "exit code 5");
  EXPECT_EQ(run("exit", "5").kind, ChildEnd::Kind::kExit);
  EXPECT_EQ(run("exit", "-1073741819").kind, ChildEnd::Kind::kCrash);
  EXPECT_EQ(run("exit", "-1073741510").kind, ChildEnd::Kind::kInterrupt);
  run("echo", "%BITPRESS_TEST_WORD%");
  EXPECT_EQ(ReadFile(folder / "log"), "a word\r\n");
}

TEST(WindowsProgram, SaysWhatCannotBeStarted) {
  const TemporaryFolder folder;
  const std::string message = ExpectError(
      ErrorCode::kRuntime, [&] { RunProgram(folder / "missing.exe", {}, {}, folder / "log"); });
  EXPECT_NE(message.find("missing.exe"), std::string::npos) << message;
}

TEST(WindowsLibraries, AreFoundByNameAndPath) {
  std::string why;
  const SharedLibrary kernel(PathOf("kernel32.dll"), why);
  ASSERT_TRUE(kernel.is_open()) << why;
  EXPECT_NE(kernel.Find("CreateFileW"), nullptr);
  EXPECT_EQ(kernel.Find("NoSuchFunction"), nullptr);
  const SharedLibrary missing(PathOf("no_such_library.dll"), why);
  EXPECT_FALSE(missing.is_open());
  EXPECT_FALSE(why.empty());
  EXPECT_EQ(FileOfCode(reinterpret_cast<const void*>(&CommandProcessor)), ProgramFile());
}

TEST(WindowsMemory, OfFilesKeepsItsContentsWhenReleased) {
  const TemporaryFolder folder;
  WriteFile(folder / "file", std::string(100000, 'w'));
  std::error_code error;
  const SystemFile file(folder / "file", SystemFile::Use::kReadRegular, error);
  const MappedFile mapped(file, error);
  ASSERT_FALSE(error) << error.message();
  ReleasePages(mapped.bytes());
  ReleaseUnchangedPages(mapped.bytes().subspan(5000, 50000));
  EXPECT_EQ(mapped.bytes()[99999], std::byte{'w'});
  MappedMemory memory(1 << 20);
  memory.data()[5] = std::byte{1};
  memory.Release();
  EXPECT_EQ(memory.data()[5], std::byte{1});
  EXPECT_EQ(memory.data()[6], std::byte{0});
  ExpectError(ErrorCode::kIo, [] { MappedMemory(size_t{1} << 60); });
}

TEST(WindowsProcessors, AreThere) { EXPECT_GE(UsableProcessors(), 1u); }

}  // namespace
}  // namespace bitpress
