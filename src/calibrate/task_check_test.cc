#include "calibrate/task_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/test_support.h"
#include "calibrate/calibrate.h"
#include "calibrate/guard.h"
#include "calibrate/resolve_params.h"
#include "calibrate/resolve_plan.h"
#include "data/test_samples.h"
#include "plan/make_plan.h"

namespace bitpress::calibrate {
namespace {

using testing::HasSubstr;

constexpr size_t kNumSamples = 100;

graph::Model ChainModel() {
  graph::Model model = graph::Model::Load(std::filesystem::path(BITPRESS_SOURCE_DIR) / "tests" /
                                          "data" / "runtime" / "chain.onnx");
  model.InferShapes();
  return model;
}

// A "task" whose items are the numbers of the outputs: those are lost that moved by more than a
// share of the largest.
struct Fake {
  double most_moved = 0;
  uint64_t items_of_sample = 4;
  bool is_known = true;
  std::string error = "";
  bool fails_when_rounded = false;
};

class FakeMeter : public TaskLossMeter {
 public:
  explicit FakeMeter(const Fake& fake) : fake_(fake) {}
  void Add(const std::vector<Tensor>& inputs, const std::vector<Tensor>& wanted,
           const std::vector<Tensor>& found) override {
    if (!fake_.error.empty()) Fail(ErrorCode::kInvalidArgument, "{}", fake_.error);
    if (fake_.fails_when_rounded && &wanted != &found) {
      Fail(ErrorCode::kInvalidArgument, "other shapes");
    }
    EXPECT_EQ(inputs.size(), 1u);
    ASSERT_EQ(wanted.size(), found.size());
    const auto a = wanted[0].values<float>(), b = found[0].values<float>();
    const float most =
        std::abs(*std::ranges::max_element(a, {}, [](float x) { return std::abs(x); }));
    for (size_t i = 0; i < a.size(); ++i) {
      ++num_numbers_;
      num_lost_ += std::abs(a[i] - b[i]) > fake_.most_moved * static_cast<double>(most);
    }
    num_items_ += fake_.items_of_sample;
  }
  std::optional<MeasuredLoss> Result() const override {
    if (!fake_.is_known) return std::nullopt;
    return MeasuredLoss{static_cast<double>(num_lost_) / static_cast<double>(num_numbers_),
                        "share of moved numbers", fake_.items_of_sample > 0 ? "numbers" : "",
                        num_items_};
  }

  std::string WhyNone() const override { return "of no task"; }

 private:
  Fake fake_;
  uint64_t num_numbers_ = 0, num_lost_ = 0, num_items_ = 0;
};

TaskMeterMaker MakerOf(const Fake& fake) {
  return [fake] { return std::make_unique<FakeMeter>(fake); };
}

// Resolves the chain in INT8 with a guard that asks for more decibels than 8 bits have.
plan::ResolvedPlan Guarded(const TaskMeterMaker& task,
                           const std::vector<std::string>& settings = {},
                           size_t num_samples = kNumSamples) {
  const graph::Model model = ChainModel();
  plan::QuantConfig config = plan::ConfigByName("INT8");
  plan::ApplySetting(config, "guard=70");
  // Weights that are learned afterwards are no reason to leave activations as they are.
  plan::ApplySetting(config, "finetune=gptq");
  for (const std::string& setting : settings) plan::ApplySetting(config, setting);
  plan::QuantPlan plan = plan::MakePlan(config, model, "chain");
  data::RandomSamples samples({4}, 0, num_samples);
  const CalibrationTable table =
      Calibrate(model, "chain", ValuesToCalibrate(plan), samples, {}).table;
  ThreadPool pool(1);
  const GuardOptions guard{&samples, 1, {}, task};
  return ResolvePlan(std::move(plan), model, table, pool, &guard);
}

TEST(GuardWithTask, NothingBecomesFloatWhereTheTaskLosesNothing) {
  const plan::ResolvedPlan by_decibels = Guarded({});
  ASSERT_GT(by_decibels.guard->num_left, 0u);
  EXPECT_EQ(by_decibels.guard->task_measure, "");
  const plan::ResolvedPlan resolved = Guarded(MakerOf({.most_moved = 1}));
  EXPECT_EQ(resolved.guard->num_left, 0u);
  EXPECT_TRUE(resolved.left_float.empty());
  EXPECT_EQ(resolved.guard->task_measure, "share of moved numbers");
  EXPECT_EQ(resolved.guard->task_loss, 0);
  EXPECT_EQ(resolved.guard->task_items, "numbers");
  EXPECT_EQ(resolved.guard->num_task_items, 4 * resolved.guard->num_task_samples);
  EXPECT_GE(resolved.guard->num_task_samples, 64u);
  EXPECT_LT(resolved.guard->before_db, 70);
}

// Returns the values that stay float.
std::set<std::string> FloatsOf(const plan::ResolvedPlan& resolved) {
  std::set<std::string> values;
  for (const auto& [value, reason] : resolved.left_float) values.insert(value);
  return values;
}

TEST(GuardWithTask, LeavesAsMuchAsDecibelsWhereTheTaskNeedsIt) {
  const plan::ResolvedPlan by_decibels = Guarded({});
  const plan::ResolvedPlan resolved = Guarded(MakerOf({.most_moved = 0}));
  EXPECT_EQ(FloatsOf(resolved), FloatsOf(by_decibels));
  EXPECT_GT(resolved.guard->task_loss_before, 0.5);
  EXPECT_EQ(resolved.guard->task_loss, 0);
}

TEST(GuardWithTask, StopsAsSoonAsTheTaskIsKept) {
  const plan::ResolvedPlan by_decibels = Guarded({});
  const plan::ResolvedPlan resolved = Guarded(MakerOf({.most_moved = 0.1}));
  EXPECT_GT(resolved.guard->task_loss_before, 0.01);
  EXPECT_LE(resolved.guard->task_loss, 0.01);
  EXPECT_GT(resolved.guard->num_left, 0u);
  EXPECT_LT(resolved.guard->num_left, by_decibels.guard->num_left);
  EXPECT_LT(resolved.guard->after_db, by_decibels.guard->after_db);
}

TEST(GuardWithTask, DecibelsDecideWhereItemsAreTooFew) {
  const plan::ResolvedPlan by_decibels = Guarded({}, {}, 20);
  const plan::ResolvedPlan resolved = Guarded(MakerOf({.most_moved = 1}), {}, 20);
  EXPECT_EQ(resolved.left_float, by_decibels.left_float);
  EXPECT_EQ(resolved.guard->task_measure, "");
  EXPECT_THAT(resolved.guard->why_no_task, HasSubstr("80 numbers in 20 samples are too few"));
  // A measure that counts nothing shows small changes with few samples.
  const Fake smooth{.most_moved = 1, .items_of_sample = 0};
  EXPECT_EQ(Guarded(MakerOf(smooth), {}, 20).guard->num_left, 0u);
  // A larger loss needs fewer of them.
  EXPECT_EQ(Guarded(MakerOf({.most_moved = 1}), {"guard_loss=2"}, 20).guard->num_left, 0u);
}

TEST(GuardWithTask, DecibelsDecideWithoutATask) {
  const plan::ResolvedPlan by_decibels = Guarded({});
  const plan::ResolvedPlan unknown = Guarded(MakerOf({.is_known = false}));
  EXPECT_EQ(unknown.left_float, by_decibels.left_float);
  EXPECT_EQ(unknown.guard->why_no_task, "of no task");
  const plan::ResolvedPlan off = Guarded(MakerOf({.most_moved = 1}), {"guard_loss=0"});
  EXPECT_EQ(off.left_float, by_decibels.left_float);
  EXPECT_EQ(off.guard->num_runs, by_decibels.guard->num_runs);
  const plan::ResolvedPlan fails = Guarded(MakerOf({.error = "no output fits"}));
  EXPECT_EQ(fails.left_float, by_decibels.left_float);
  EXPECT_EQ(fails.guard->why_no_task, "no output fits");
  const plan::ResolvedPlan other_shapes = Guarded(MakerOf({.fails_when_rounded = true}));
  EXPECT_EQ(other_shapes.left_float, by_decibels.left_float);
  EXPECT_EQ(other_shapes.guard->why_no_task, "other shapes");
  EXPECT_EQ(other_shapes.guard->task_measure, "");
}

}  // namespace
}  // namespace bitpress::calibrate
