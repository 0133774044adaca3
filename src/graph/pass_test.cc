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

// What the passes of these tests share.
struct State {
  bool wants_second = true;
  std::vector<std::string> ran = {};
};

constexpr Pass<State> kNameIt{.name = "name-it", .run = [](Model& model, State& state) {
                                state.ran.push_back("name-it");
                                model.SetMetadata("a", "b");
                                PassResult result = true;
                                result.label = "named";
                                return result;
                              }};
constexpr Pass<State> kSecond{.name = "second",
                              .run = [](Model&, State& state) -> PassResult {
                                state.ran.push_back("second");
                                return false;
                              },
                              .is_wanted =
                                  [](const Model& model, const State& state) {
                                    return state.wants_second && model.Metadata().contains("a");
                                  }};
constexpr Pass<State> kAlways{.name = "always",
                              .run = [](Model&, State& state) -> PassResult {
                                state.ran.push_back("always");
                                return false;
                              },
                              .can_be_off = false};
constexpr const Pass<State>* kSchedule[] = {&kNameIt, &kSecond, &kAlways};

std::vector<std::string> Ran(State state, const PassNames& disabled) {
  Model model = OneRelu();
  RunSchedule<State>(model, kSchedule, state, disabled);
  return state.ran;
}

TEST(RunSchedule, RunsInOrderWhatIsWantedAndNotSwitchedOff) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(Ran({}, {}), (Names{"name-it", "second", "always"}));
  EXPECT_EQ(Ran({.wants_second = false}, {}), (Names{"name-it", "always"}));
  EXPECT_EQ(Ran({}, {"second", "always"}), (Names{"name-it", "always"}));
  EXPECT_EQ(Ran({}, {"name-it"}), Names{"always"}) << "the second one looks at the model first";
  EXPECT_EQ(NamesOf<State>(kSchedule), (std::vector<std::string_view>{"name-it", "second"}));
}

TEST(RunSchedule, ReturnsWhatThePassesDid) {
  Model model = OneRelu();
  State state;
  const std::vector<PassResult> results = RunSchedule<State>(model, kSchedule, state, {});
  ASSERT_EQ(results.size(), 3U);
  EXPECT_EQ(results[0].name, "name-it");
  EXPECT_EQ(results[0].label, "named");
  EXPECT_TRUE(results[0].is_modified);
  EXPECT_FALSE(results[1].is_modified);
  EXPECT_EQ(model.Metadata().at("a"), "b");
}

TEST(RunPass, ErrorsNameThePass) {
  Model model = OneRelu();
  const Error error = ErrorOf([&] {
    RunPass(model, "fail",
            [](Model&) -> PassResult { Fail(ErrorCode::kUnsupported, "weight 'w' is complex"); });
  });
  EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
  EXPECT_THAT(error.what(), HasSubstr("pass fail: weight 'w' is complex"));
}

TEST(RunPassDeathTest, ContractsAreCheckedInDebugBuilds) {
#ifdef NDEBUG
  GTEST_SKIP() << "this build checks no contracts";
#endif
  Model model = OneRelu();
  const Pass<State> liar{.name = "liar",
                         .run = [](Model&, State&) -> PassResult { return true; },
                         .ensures_after = [](const Model&, const State&) { return false; }};
  const Pass<State>* const schedule[] = {&liar};
  State state;
  EXPECT_DEATH(RunSchedule<State>(model, schedule, state, {}), "ensures_after");
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
