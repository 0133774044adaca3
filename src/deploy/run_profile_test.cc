#include "deploy/run_profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/scratch_folder.h"
#include "bitpress/error.h"

namespace bitpress::deploy {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<std::vector<OperatorRun>> Read(const std::string& events) {
  const ScratchFolder folder;
  const std::filesystem::path path = folder.path() / "profile.json";
  std::ofstream(path) << events;
  return ReadProfile(path);
}

std::string Node(const std::string& name, int begin, int duration) {
  return R"({"cat":"Node","name":")" + name + R"(","ts":)" + std::to_string(begin) + R"(,"dur":)" +
         std::to_string(duration) +
         R"(,"args":{"input_type_shape":[{"float":[1,3]},{"float":[2]}],"output_type_shape":[]}})";
}
std::string RunOf(int begin, int duration) {
  return R"({"cat":"Session","name":"model_run","ts":)" + std::to_string(begin) + R"(,"dur":)" +
         std::to_string(duration) + "}";
}

// ONNX Runtime writes events in the order in which they end; some versions sort them by begin.
TEST(ReadProfile, DividesRunsByTheirTime) {
  const std::string a = Node("a_kernel_time", 12, 3), b = Node("b_kernel_time", 16, 2);
  const std::string again = Node("a_kernel_time", 31, 4);
  const std::string fence = Node("a_fence_before", 11, 1), load = Node("c_kernel_time", 2, 1);
  for (const std::string& events : {"[" + load + "," + fence + "," + a + "," + b + "," +
                                        RunOf(10, 9) + "," + again + "," + RunOf(30, 8) + "]",
                                    "[" + load + "," + RunOf(10, 9) + "," + fence + "," + a + "," +
                                        b + "," + RunOf(30, 8) + "," + again + "]"}) {
    const std::vector<std::vector<OperatorRun>> runs = Read(events);
    ASSERT_EQ(runs.size(), 2U);
    ASSERT_EQ(runs[0].size(), 2U);
    EXPECT_EQ(runs[0][0].node, "a");
    EXPECT_DOUBLE_EQ(runs[0][0].seconds, 3e-6);
    EXPECT_THAT(runs[0][0].input, ElementsAre(1, 3));
    EXPECT_THAT(runs[0][0].output, IsEmpty());
    EXPECT_EQ(runs[0][1].node, "b");
    ASSERT_EQ(runs[1].size(), 1U);
    EXPECT_DOUBLE_EQ(runs[1][0].seconds, 4e-6);
  }
  EXPECT_THAT(Read("[]"), IsEmpty());
}

TEST(ReadProfile, RefusesOtherFiles) {
  EXPECT_THROW(Read("{}"), Error);
  EXPECT_THROW(Read("["), Error);
  EXPECT_THROW(Read("[" + RunOf(1, 2) + R"(,{"cat":"Node","name":"a_kernel_time","ts":1}])"),
               Error);
}

}  // namespace
}  // namespace bitpress::deploy
