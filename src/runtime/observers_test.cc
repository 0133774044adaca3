#include "runtime/observers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <vector>

#include "graph/model.h"
#include "runtime/session.h"
#include "runtime/test_support.h"

namespace bitpress::runtime {
namespace {

using testing::HasSubstr;

struct Seen {
  int64_t id;
  std::vector<int64_t> dims;
  std::vector<float> values;
};

class Recorder : public ObserverSink {
 public:
  void Observe(const ObservedTensor& tensor, const ParallelTasks& run_parallel) override {
    if (!failure.empty()) Fail(ErrorCode::kInvalidArgument, "{}", failure);
    const auto count = static_cast<size_t>(NumElements(tensor.dims));
    Seen one{tensor.id, {tensor.dims.begin(), tensor.dims.end()}, std::vector<float>(count)};
    run_parallel(count, [&](size_t i) {
      one.values[i] = static_cast<const float*>(tensor.data)[i];
      ++num_tasks;
    });
    seen.push_back(std::move(one));
  }

  std::vector<Seen> seen;
  std::atomic<size_t> num_tasks = 0;
  std::string failure;
};

// Returns noise for every input. Free dimensions are 3.
std::vector<Tensor> MakeInputs(const Session& session) {
  std::vector<Tensor> inputs;
  for (const ValueDescription& input : session.inputs()) {
    std::vector<int64_t> dims = input.dims;
    for (int64_t& dim : dims) dim = dim < 0 ? 3 : dim;
    inputs.push_back(MakeNoise(dims));
  }
  return inputs;
}

// Returns clean_up.onnx with observers of its input (id 7) and its output (id 8).
std::string ObservedModel() {
  graph::Model model = graph::Model::Load(TestModel("clean_up.onnx"));
  model.SetOpsetImport(kObserverDomain, 1);
  int64_t id = 7;
  for (const std::string& value : {model.InputNames()[0], model.OutputNames()[0]}) {
    const std::string token = model.FreshName(value + "_token");
    model.InsertNode({"", kObserve, kObserverDomain, {value}, {token}, {{"id", id++}}},
                     std::nullopt);
    model.AddOutput(token);
  }
  return model.Serialize();
}

TEST(Observers, SeeTensorsWhereTheyAreComputed) {
  Recorder recorder;
  const ObserverOperators operators(recorder);
  SessionOptions options;
  options.observers = &operators;
  options.num_threads = 2;
  Session session = Session::FromMemory(ObservedModel(), options);
  Session plain(TestModel("clean_up.onnx"));
  ASSERT_EQ(session.outputs().size(), plain.outputs().size() + 2);
  const std::vector<Tensor> inputs = MakeInputs(plain);
  const std::vector<Tensor> expected = plain.Run(inputs);
  for (size_t run = 0; run < 2; ++run) {
    const std::vector<Tensor> outputs = session.Run(inputs);
    EXPECT_EQ(outputs[0].bytes, expected[0].bytes);
    EXPECT_THAT(outputs[1].dims, testing::IsEmpty());
    ASSERT_EQ(recorder.seen.size(), 2 * (run + 1));
  }
  size_t num_elements = 0;
  for (const Seen& seen : recorder.seen) {
    const Tensor& tensor = seen.id == 7 ? inputs[0] : expected[0];
    EXPECT_EQ(seen.dims, tensor.dims);
    EXPECT_TRUE(std::ranges::equal(seen.values, tensor.values<float>()));
    num_elements += seen.values.size();
  }
  EXPECT_EQ(recorder.num_tasks, num_elements);
}

TEST(Observers, FailuresOfTheSinkAreErrors) {
  Recorder recorder;
  recorder.failure = "the sink is full";
  const ObserverOperators operators(recorder);
  SessionOptions options;
  options.observers = &operators;
  Session session = Session::FromMemory(ObservedModel(), options);
  EXPECT_THAT(ExpectError(ErrorCode::kRuntime, [&] { session.Run(MakeInputs(session)); }),
              HasSubstr("the sink is full"));
}

TEST(Observers, AreNotThereUnlessAskedFor) {
  EXPECT_THAT(ExpectError(ErrorCode::kRuntime, [] { Session::FromMemory(ObservedModel()); }),
              HasSubstr("bitpress.observe:Observe"));
}

}  // namespace
}  // namespace bitpress::runtime
