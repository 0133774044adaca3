#include "base/version.h"

#include <gtest/gtest.h>

#include <string>

#include "base/error.h"

namespace bitpress {
namespace {

TEST(FormatVersion, OlderOnesAreReadAndNewerOnesRefused) {
  EXPECT_NO_THROW(CheckFormatVersion("plan", 1, 3));
  EXPECT_NO_THROW(CheckFormatVersion("plan", 3, 3));
  const auto message = [](int64_t found) -> std::string {
    try {
      CheckFormatVersion("plan", found, 3);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(message(4).find("plan: version 4 is newer than 3, the newest that Bitpress "), 0u);
  EXPECT_EQ(message(0).find("plan: there is no version 0"), 0u);
}

}  // namespace
}  // namespace bitpress
