#include "finetune/journal_key.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "base/version.h"
#include "data/stream_source.h"
#include "graph/test_models.h"
#include "runtime/ort_library.h"

namespace bitpress::finetune {
namespace {

using testing::HasSubstr;

class Numbers : public data::SampleStream {
 public:
  explicit Numbers(std::vector<float> numbers) : numbers_(std::move(numbers)) {}
  std::optional<Item> Next() override {
    if (position_ == numbers_.size()) return std::nullopt;
    return Item{{MakeTensor(DataType::kFloat, {1, 1}, std::vector{numbers_[position_++]})}, {}};
  }
  void Rewind() override { position_ = 0; }
  size_t num_samples() const override { return numbers_.size(); }
  bool has_labels() const override { return false; }

 private:
  std::vector<float> numbers_;
  size_t position_ = 0;
};

// The parts of a key. Tests change them one by one.
struct Work {
  std::string weight = "2";
  plan::ResolvedPlan resolved;
  FinetuneOptions options;
  std::vector<float> samples = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};

  std::string Key() const {
    const graph::Model model = graph::FromText(
        "<ir_version: 8, opset_import: [\"\" : 17]> g (float[N,1] x) => "
        "(float[N,1] y) <float[1,1] w = {" +
        weight + "}> { y = MatMul(x, w) }");
    const auto source = data::MakeStreamSource(std::make_unique<Numbers>(samples), {});
    return JournalKey(model, resolved, options, source->Fingerprint());
  }
};

TEST(JournalKey, NamesTheVersions) {
  const std::string key = Work().Key();
  EXPECT_THAT(key, HasSubstr("Bitpress " + std::string(Version()) + ","));
  EXPECT_THAT(key, HasSubstr("ONNX Runtime " + runtime::OrtVersion() + ","));
  EXPECT_EQ(key, Work().Key());
}

TEST(JournalKey, WhatChangesResultsChangesIt) {
  const std::string key = Work().Key();
  const std::vector<std::function<void(Work&)>> changes = {
      [](Work& work) { work.weight = "2.5"; },
      [](Work& work) { work.samples[0] = -1; },
      [](Work& work) { work.samples[11] = -1; },
      [](Work& work) { work.samples.pop_back(); },
      [](Work& work) { std::swap(work.samples[8], work.samples[9]); },
      [](Work& work) { work.resolved.plan.config.name = "another"; },
      [](Work& work) {
        work.resolved.scales[{"x", "uint8"}] = {0.5F, 3};
      },
      [](Work& work) {
        work.resolved.weight_scales[{"w", "int8"}] = {{0.5F, 3}};
      },
      [](Work& work) { work.options.passes = {plan::FinetunePass::kGptq}; },
      [](Work& work) { work.options.op_types = {"Conv"}; },
      [](Work& work) { work.options.adds_biases = false; },
      [](Work& work) { work.options.tuner.ridge = 0.02; },
      [](Work& work) { work.options.gather.hold_back_every = 4; },
      [](Work& work) { work.options.gather.seed = 1; },
  };
  for (size_t i = 0; i < changes.size(); ++i) {
    Work work;
    changes[i](work);
    EXPECT_NE(work.Key(), key) << "change " << i;
  }
}

TEST(JournalKey, WhatChannelsHoldChangesIt) {
  const auto key_of = [](std::vector<uint8_t> largest, double mean_square, double mean) {
    Work work;
    plan::ChannelCodes& codes = work.resolved.channels["x"];
    codes.largest = std::move(largest);
    codes.mean_squares = {mean_square};
    codes.means = {mean};
    return work.Key();
  };
  const std::string key = key_of({9}, 4, 1);
  EXPECT_EQ(key_of({9}, 4, 1), key);
  EXPECT_NE(key_of({8}, 4, 1), key);
  EXPECT_NE(key_of({9}, 5, 1), key);
  EXPECT_NE(key_of({9}, 4, 2), key);
}

TEST(JournalKey, WhatChangesNothingDoesNotChangeIt) {
  Work work;
  work.options.gather.num_threads = 3;
  work.options.gather.memory_limit = 1;
  work.options.gather.is_spilled = true;
  work.options.gather.batch_size = 5;
  work.options.gather.progress = [](std::string_view, size_t, size_t) {};
  EXPECT_EQ(work.Key(), Work().Key());
}

}  // namespace
}  // namespace bitpress::finetune
