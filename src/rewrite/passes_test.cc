// The schedule of the preparation: which passes run, on request too, and what they report.
#include "rewrite/passes.h"

#include <set>

#include "graph/test_models.h"

namespace bitpress::rewrite {
namespace {

using testing::HasSubstr;

graph::Model SmallModel() {
  return graph::FromText(R"(<ir_version: 8, opset_import: ["": 17]>
    net (float[2] x) => (float[2] y) { y = Relu(x) })");
}

std::vector<std::string> NamesThatRan(const PrepareOptions& options) {
  RewriteReport report;
  Prepare(SmallModel(), "small.onnx", options, &report);
  std::vector<std::string> names;
  for (const graph::PassResult& pass : report.passes) names.push_back(pass.name);
  return names;
}

TEST(PrepareSchedule, NamesAreDifferentAndThoseOfRequestsHaveWords) {
  std::set<std::string_view> names;
  for (const PreparePass* const pass : kPrepareSchedule) {
    EXPECT_TRUE(names.insert(pass->name).second) << pass->name;
    EXPECT_TRUE(pass->setting.empty() || pass->is_wanted != nullptr) << pass->name;
  }
}

TEST(PrepareSchedule, RunsWhatTheOptionsCallFor) {
  PrepareOptions options{.preparation = Preparation::kAsIs};
  EXPECT_EQ(NamesThatRan(options),
            (std::vector<std::string>{"fix-initializers", "trim-inputs", "remember-names",
                                      "constants-to-initializers", "lift-body-constants",
                                      "take-constants-out-of-loops", "name-nodes", "infer-shapes",
                                      "flatten-softmax", "name-all-axes", "find-origins"}));
  options.rewrites.rotation = 16;
  options.rewrites.equalization.emplace();
  options.disabled_passes = {"equalize", "name-nodes"};
  const std::vector<std::string> names = NamesThatRan(options);
  EXPECT_THAT(names, testing::Contains("rotate"));
  EXPECT_THAT(names, testing::Not(testing::Contains("equalize")));
  EXPECT_THAT(names, testing::Not(testing::Contains("name-nodes")));
}

TEST(PrepareSchedule, RequestsNameAPassAndAWord) {
  for (const char* const wrong : {"fusee=all", "fuse=norm", "fuse", "fuse=", "trim-inputs=all"}) {
    PrepareOptions options{.preparation = Preparation::kAsIs};
    options.rewrites.passes = {wrong};
    const Error error = graph::ErrorOf([&] { NamesThatRan(options); });
    EXPECT_THAT(error.what(), HasSubstr(fmt::format("'{}' is none of fix-shapes=", wrong)));
  }
  PrepareOptions options{.preparation = Preparation::kAsIs};
  EXPECT_THAT(NamesThatRan(options), testing::Not(testing::Contains("fuse")));
  options.rewrites.passes = {"fuse=all"};
  EXPECT_THAT(NamesThatRan(options), testing::Contains("fuse"));
  options.disabled_passes = {"fuse"};
  EXPECT_THAT(NamesThatRan(options), testing::Not(testing::Contains("fuse")));
}

}  // namespace
}  // namespace bitpress::rewrite
