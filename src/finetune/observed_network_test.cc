#include "finetune/observed_network.h"

#include <gtest/gtest.h>

#include <string>

#include "base/test_support.h"
#include "data/test_samples.h"
#include "finetune/finetune.h"
#include "finetune/test_layers.h"
#include "graph/test_models.h"
#include "plan/make_plan.h"
#include "plan/quant_config.h"

namespace bitpress::finetune {
namespace {

constexpr int64_t kPositions = 16;  // positions of a sample
constexpr int64_t kWidth = 32;

// The last product reads what the first one reads, and w0 is read at both ends.
graph::Model MakeModel() {
  graph::Model model = graph::FromTextWithConstants(R"(<ir_version: 8, opset_import: ["" : 17]>
agraph (float[N,16,32] x) => (float[N,16,32] y)
<float[32,32] w0, float[32,32] w1, float[32,32] w2, float[32,32] w3> {
  r = Relu(x)
  a0 = MatMul(r, w0)
  a1 = MatMul(a0, w1)
  a2 = MatMul(a1, w2)
  late = MatMul(r, w3)
  sum = Add(a2, late)
  y = MatMul(sum, w0)
})");
  for (uint32_t i = 0; i < 4; ++i) {
    std::vector<float> weight = RandomNormal(kWidth * kWidth, i);
    for (float& value : weight) value /= 6;
    model.SetInitializer(fmt::format("w{}", i),
                         MakeTensor(DataType::kFloat, {kWidth, kWidth}, weight));
  }
  return model;
}

struct LearnedNetwork {
  size_t num_tuned = 0;
  std::string notes;  // of the layers
  std::vector<std::vector<float>> weights;
};

LearnedNetwork LearnIn(uint64_t most_piece_bytes, const plan::QuantConfig& config) {
  graph::Model model = MakeModel();
  data::RandomSamples rows({kPositions, kWidth}, 100, 140);
  ThreadPool pool(1);
  FinetuneOptions options;
  options.passes = {plan::FinetunePass::kGptq};
  options.gather.num_threads = 1;
  options.gather.hold_back_every = 0;
  options.gather.most_piece_bytes = most_piece_bytes;
  plan::ResolvedPlan resolved;
  resolved.plan = plan::MakePlan(config, model, "");
  const FinetuneReport report = Finetune(model, std::move(resolved), rows, options, pool).report;
  LearnedNetwork learned;
  for (const TunedLayerReport& layer : report.layers) {
    learned.notes += layer.weight + ": " + layer.note + "\n";
  }
  learned.num_tuned =
      static_cast<size_t>(std::ranges::count(report.layers, true, &TunedLayerReport::is_tuned));
  for (int i = 0; i < 4; ++i) {
    const auto values = model.Initializer(fmt::format("w{}", i)).values<float>();
    learned.weights.emplace_back(values.begin(), values.end());
  }
  return learned;
}

TEST(ObservedNetwork, LayersWhoseValuesLieInSeveralPiecesLearnAsInTheWhole) {
  plan::QuantConfig config;
  plan::ApplySetting(config, "weights=mxfp4_e2m1");
  plan::ApplySetting(config, "activations=mxint8");
  const LearnedNetwork whole = LearnIn(1'000'000, config);
  EXPECT_EQ(whole.num_tuned, 4U) << whole.notes;
  const LearnedNetwork pieces = LearnIn(1, config);
  EXPECT_EQ(pieces.num_tuned, 4U) << pieces.notes;
  EXPECT_EQ(pieces.weights, whole.weights);
}

}  // namespace
}  // namespace bitpress::finetune
