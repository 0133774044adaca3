#include "base/byte_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "base/test_support.h"

namespace bitpress {
namespace {

constexpr FileFormat kFormat = {"TESTFILE", "test file", 3};

std::string SmallFile(uint32_t version = kFormat.version) {
  ByteWriter writer = BeginFile({kFormat.magic, kFormat.kind, version});
  writer.Text("content");
  return EndFile(std::move(writer));
}

TEST(Crc32c, IsTheStandardOne) {
  EXPECT_EQ(Crc32c("123456789"), 0xE3069283u);
  EXPECT_EQ(Crc32c(std::string(32, '\0')), 0x8A9136AAu);
}

TEST(Crc32c, IsTheSameWithoutAnInstruction) {
  std::string bytes;
  for (size_t i = 0; i < 300; ++i) bytes.push_back(static_cast<char>(i * i * 7 + i / 3));
  const std::string_view all = bytes;
  for (size_t begin = 0; begin < 9; ++begin) {
    for (size_t end = begin; end <= all.size(); ++end) {
      const std::string_view part = all.substr(begin, end - begin);
      ASSERT_EQ(Crc32c(part), PortableCrc32c(part)) << begin << ' ' << end;
    }
  }
}

TEST(OpenFile, GivesTheContent) {
  for (const uint32_t version : {1u, 3u}) {
    const std::string bytes = SmallFile(version);
    ByteReader reader = OpenFile(bytes, kFormat);
    EXPECT_EQ(reader.Text(), "content");
    reader.ExpectEnd();
  }
}

TEST(OpenFile, SaysWhatIsWrong) {
  const std::string bytes = SmallFile();
  const auto open = [](const std::string& file) { return [&] { OpenFile(file, kFormat).Text(); }; };
  const auto message = [&](const std::string& file) {
    return ExpectError(ErrorCode::kInvalidArgument, open(file));
  };
  EXPECT_EQ(message("TESTFIL"), "this is no test file: it does not start with 'TESTFILE'");
  EXPECT_EQ(message("TESTFILE"), "the test file is damaged: it ends too early");
  EXPECT_THAT(message(SmallFile(4)), testing::HasSubstr("4"));
  EXPECT_EQ(message(bytes.substr(0, bytes.size() - 1) + "?"),
            "the test file is damaged: checksum mismatch");
  for (size_t i = kFormat.magic.size(); i < bytes.size(); ++i) {
    std::string other = bytes;
    other[i] = static_cast<char>(other[i] ^ 1);
    EXPECT_THROW(open(other)(), Error) << i;
    EXPECT_THROW(open(bytes.substr(0, i))(), Error) << i;
  }
  ByteReader reader = OpenFile(bytes, kFormat);
  ExpectError(ErrorCode::kInvalidArgument, [&] { reader.ExpectEnd(); });
}

}  // namespace
}  // namespace bitpress
