// Tests that const functions of a model write nothing, so that they may run concurrently.
#include <thread>

#include "graph/model.h"
#include "graph/model_impl.h"
#include "graph/test_models.h"

namespace bitpress::graph {
namespace {

using testing::IsEmpty;

// Calls all const functions of a model about its graph.
uint64_t AskAll(const Model& model) {
  uint64_t answers = model.Fingerprint() + model.Nodes().size() + model.AllNodes().size() +
                     model.InputNames().size() + model.OutputNames().size() +
                     model.InitializerNames().size() + model.BodyValues().size();
  for (const char* value : {"x", "a", "inner", "y", "nowhere"}) {
    const std::optional<Node> behind = model.NodeBehind(value);
    answers = 31 * answers + (behind ? behind->op_type().size() : 0) + model.AllUses(value).size();
  }
  return answers;
}

// The thread sanitizer reports a const function that writes.
TEST(ConstFunctions, RunConcurrently) {
  const Model model = FromText(kBranches);
  const uint64_t expected = AskAll(FromText(kBranches));
  std::vector<uint64_t> answers(8);
  std::vector<std::thread> threads;
  for (uint64_t& answer : answers) threads.emplace_back([&] { answer = AskAll(model); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(answers, testing::Each(expected));
}

// Protobuf's accessors for changing a field create it if it is missing.
TEST(ConstFunctions, MakeNothing) {
  Model model = FromText(kBranches);
  ModelAccess::Impl(model).proto.clear_graph();
  const Model& looked_at = model;
  looked_at.Fingerprint();
  EXPECT_FALSE(looked_at.NodeBehind("x"));
  EXPECT_THAT(looked_at.Nodes(), IsEmpty());
  EXPECT_THAT(looked_at.OutputNames(), IsEmpty());
  EXPECT_FALSE(ModelAccess::Impl(model).proto.has_graph());
}

}  // namespace
}  // namespace bitpress::graph
