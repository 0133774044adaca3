#include "calibrate/piece_runs.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "data/test_samples.h"

namespace bitpress::calibrate {
namespace {

// Returns ten samples of four floats each.
data::RandomSamples Rows() { return {{4}, 0, 10}; }

// Keeps the values that it observes, by their ids.
struct Keeper : runtime::ObserverSink {
  void Observe(const runtime::ObservedTensor& tensor, const runtime::ParallelTasks&) override {
    const auto* const from = static_cast<const float*>(tensor.data);
    kept[tensor.id].insert(kept[tensor.id].end(), from, from + NumElements(tensor.dims));
  }
  std::map<int64_t, std::vector<float>> kept;
};

using Outputs = std::map<size_t, std::vector<float>>;

graph::Model LoadChain() {
  graph::Model model = graph::Model::Load(std::filesystem::path(BITPRESS_SOURCE_DIR) / "tests" /
                                          "data" / "runtime" / "chain.onnx");
  model.InferShapes();
  return model;
}

// Runs the chain in pieces of so many bytes. Returns its outputs by the number of the run, and
// observes a product of its middle.
Outputs RunChain(uint64_t most_bytes, size_t num_pieces, Keeper& keeper) {
  graph::Model model = LoadChain();
  data::RandomSamples rows = Rows();
  const std::vector<std::string> wanted{"a2", "y"};
  PieceRuns runs(model, wanted, rows, {.most_bytes = most_bytes, .num_threads = 1});
  EXPECT_EQ(runs.num_pieces(), num_pieces);
  Outputs outputs;
  const runtime::ObserverOperators operators(keeper);
  for (size_t piece = 0; piece < runs.num_pieces(); ++piece) {
    PiecePass pass;
    pass.operators = &operators;
    if (runs.PieceOf("a2") == piece) pass.observed = {"a2"};
    if (runs.PieceOf("y") == piece) pass.outputs = {"y"};
    pass.begins = [](size_t run) { return run % 2 == 0; };
    pass.take = [&](size_t run, std::span<const Tensor> values) {
      if (values.empty()) return;
      const auto floats = values[0].values<float>();
      outputs[run].assign(floats.begin(), floats.end());
    };
    EXPECT_EQ(runs.Run(piece, pass).num_samples, 10U);
  }
  return outputs;
}

TEST(PieceRuns, GiveWhatTheWholeModelGives) {
  Keeper of_whole;
  const Outputs whole = RunChain(1000, 1, of_whole);
  EXPECT_EQ(whole.size(), 5U);
  EXPECT_EQ(of_whole.kept.at(0).size(), 20U);
  for (const auto& [most_bytes, num_pieces] : {std::pair(192, 2), std::pair(1, 4)}) {
    Keeper keeper;
    EXPECT_EQ(RunChain(static_cast<uint64_t>(most_bytes), static_cast<size_t>(num_pieces), keeper),
              whole);
    EXPECT_EQ(keeper.kept, of_whole.kept);
  }
}

TEST(PieceRuns, AWrongShapeOfAnInnerValueIsForgotten) {
  const auto run = [](graph::Model model) {
    data::RandomSamples rows = Rows();
    const std::vector<std::string> wanted{"y"};
    PieceRuns runs(model, wanted, rows, {.most_bytes = 192, .num_threads = 1});
    EXPECT_EQ(runs.num_pieces(), 2U);
    Outputs outputs;
    runs.Run(0, {});
    runs.Run(1, {.outputs = {"y"}, .take = [&](size_t number, std::span<const Tensor> values) {
                   const auto floats = values[0].values<float>();
                   outputs[number].assign(floats.begin(), floats.end());
                 }});
    return outputs;
  };
  graph::Model wrong = LoadChain();
  wrong.SetInfo("b", {DataType::kFloat, true, {{7, ""}, {4, ""}}});
  EXPECT_EQ(run(std::move(wrong)), run(LoadChain()));
}

TEST(PieceRuns, AGroupIsSeenInOnePiece) {
  const std::vector<std::vector<std::string>> together{{"a0", "a3"}};
  const auto observe = [&](uint64_t most_bytes) {
    graph::Model model = LoadChain();
    data::RandomSamples rows = Rows();
    PieceRuns runs(model, together[0], rows, {.most_bytes = most_bytes, .num_threads = 1},
                   together);
    Keeper keeper;
    const runtime::ObserverOperators operators(keeper);
    const size_t piece = runs.PieceOf(together[0]);
    for (size_t before = 0; before < piece; ++before) runs.Run(before, {});
    runs.Run(piece, {.observed = together[0], .operators = &operators});
    return keeper.kept;
  };
  const auto whole = observe(1000);
  EXPECT_EQ(whole.size(), 2U);
  EXPECT_EQ(observe(1), whole);
}

}  // namespace
}  // namespace bitpress::calibrate
