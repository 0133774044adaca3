#include "tasks/hub_budget.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/test_support.h"
#include "tasks/hub.h"

namespace bitpress::tasks {
namespace {

HubFile File(const std::string& model, const std::string& dtype, uint64_t bytes, double sqnr_db) {
  HubFile file;
  file.file = model + "_" + dtype;
  file.dtype = dtype;
  file.model = model;
  file.num_bytes = bytes;
  file.float_bytes = 1000;
  file.sqnr_db = sqnr_db;
  return file;
}

constexpr double kSame = std::numeric_limits<double>::infinity();

// An encoder that loses much by four bits, and a decoder that does not.
std::vector<HubFile> Files() {
  return {File("encoder", "fp32", 1000, kSame), File("encoder", "q8", 260, 30),
          File("encoder", "q4", 150, 8),        File("decoder", "fp32", 1000, kSame),
          File("decoder", "q8", 250, 33),       File("decoder", "q4", 140, 21)};
}

std::vector<std::string> Chosen(std::string_view budget) {
  return ChooseFiles(Files(), ParseHubBudget(budget)).files;
}

TEST(HubBudget, TakesTheClosestOfSoManyBytesTogether) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(Chosen("bytes<=2000"), Names({"encoder_fp32", "decoder_fp32"}));
  EXPECT_EQ(Chosen("bytes<=510"), Names({"encoder_q8", "decoder_q8"}));
  EXPECT_EQ(Chosen("bytes<=1300"), Names({"encoder_fp32", "decoder_q8"}));
  // A closer encoder leaves the worst one as it is, and fits all the same.
  const std::vector<HubFile> uneven = {
      File("encoder", "q8", 250, 30), File("encoder", "q4", 150, 8),
      File("decoder", "q8", 1000, 33), File("decoder", "q4", 500, 7.9)};
  EXPECT_EQ(ChooseFiles(uneven, ParseHubBudget("bytes<=750")).files,
            Names({"encoder_q8", "decoder_q4"}));
  std::vector<HubFile> lost = Files();
  lost[2].sqnr_db = -kSame;  // NaN where the float model gives numbers
  EXPECT_TRUE(ChooseFiles(lost, ParseHubBudget("bytes<=290")).files.empty());
  EXPECT_EQ(Chosen("bytes<=20.1%"), Names({"encoder_q8", "decoder_q4"}));
  EXPECT_EQ(Chosen("bytes<=290"), Names({"encoder_q4", "decoder_q4"}));
  const HubChoice choice = ChooseFiles(Files(), ParseHubBudget("bytes<=400"));
  EXPECT_EQ(choice.num_bytes, 400);
  EXPECT_EQ(choice.sqnr_db, 21);
  EXPECT_FALSE(ChooseFiles(Files(), ParseHubBudget("bytes<=2000")).sqnr_db.has_value());
}

TEST(HubBudget, TakesTheSmallestOfALoss) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(Chosen("loss<=1%"), Names({"encoder_q8", "decoder_q4"}));
  EXPECT_EQ(Chosen("loss<=0.1%"), Names({"encoder_q8", "decoder_q8"}));
  EXPECT_EQ(Chosen("loss<=0%"), Names({"encoder_fp32", "decoder_fp32"}));
  EXPECT_EQ(Chosen("loss<=1%,bytes<=400"), Names({"encoder_q8", "decoder_q4"}));
}

TEST(HubBudget, SaysWhyNothingIsChosen) {
  const HubChoice small = ChooseFiles(Files(), ParseHubBudget("bytes<=289"));
  EXPECT_TRUE(small.files.empty());
  EXPECT_EQ(small.why_not, "no choice of these dtypes keeps it; the smallest takes 290 B");
  EXPECT_TRUE(Chosen("bytes<=300,loss<=1%").empty());
  std::vector<HubFile> files = Files();
  for (HubFile& file : files) file.why_not_compared = "there are no samples";
  EXPECT_NE(ChooseFiles(files, ParseHubBudget("loss<=1%")).why_not.find("give samples"),
            std::string::npos);
  EXPECT_NE(ExpectError(ErrorCode::kInvalidArgument, [] { ParseHubBudget("time<=1"); })
                .find("hub measures no times"),
            std::string::npos);
}

}  // namespace
}  // namespace bitpress::tasks
