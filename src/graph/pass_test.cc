#include "graph/pass.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "base/error.h"
#include "graph/test_models.h"

namespace bitpress::graph {
namespace {

using testing::HasSubstr;

Model OneRelu() {
  return FromText(
      "<ir_version: 8, opset_import: [\"\" : 17]> g (float[N,1] x) => (float[N,1] y) "
      "{ y = Relu(x) }");
}

TEST(PassRunner, RunsAndReports) {
  Model model = OneRelu();
  PassRunner runner;
  runner.Run(model, {.name = "name-it", .run = [](Model& changed) {
                       changed.SetMetadata("a", "b");
                       return true;
                     }});
  runner.Run(model, {.name = "nothing", .run = [](Model&) { return false; }});
  ASSERT_EQ(runner.reports().size(), 2U);
  EXPECT_EQ(runner.reports()[0].name, "name-it");
  EXPECT_TRUE(runner.reports()[0].is_modified);
  EXPECT_FALSE(runner.reports()[1].is_modified);
  EXPECT_EQ(model.Metadata().at("a"), "b");
}

TEST(PassRunner, OneThatIsSwitchedOffDoesNotRun) {
  Model model = OneRelu();
  PassRunner runner({"fail"});
  runner.Run(model, {.name = "fail",
                     .run = [](Model&) -> bool { Fail(ErrorCode::kInvalidArgument, "no"); }});
  EXPECT_TRUE(runner.reports()[0].is_disabled);
  EXPECT_FALSE(runner.reports()[0].is_modified);
}

TEST(PassRunner, ErrorsNameThePass) {
  Model model = OneRelu();
  try {
    PassRunner().Run(model, {.name = "fail", .run = [](Model&) -> bool {
                               Fail(ErrorCode::kUnsupported, "weight 'w' is complex");
                             }});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
    EXPECT_THAT(error.what(), HasSubstr("pass fail: weight 'w' is complex"));
  }
}

TEST(PassRunnerDeathTest, ContractsAreCheckedInDebugBuilds) {
#ifdef NDEBUG
  GTEST_SKIP() << "this build checks no contracts";
#endif
  Model model = OneRelu();
  EXPECT_DEATH(PassRunner().Run(model, {.name = "liar",
                                        .run = [](Model&) { return true; },
                                        .ensures_after = [](const Model&) { return false; }}),
               "ensures_after");
}

TEST(CheckPassNames, UnknownOnesAreToldWithTheNearest) {
  constexpr std::array<std::string_view, 2> kAll = {"equalize", "smooth"};
  CheckPassNames({"smooth"}, kAll);
  try {
    CheckPassNames({"smoth"}, kAll);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_THAT(error.what(), HasSubstr("did you mean 'smooth'"));
  }
}

}  // namespace
}  // namespace bitpress::graph
