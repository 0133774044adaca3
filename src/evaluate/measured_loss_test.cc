#include "evaluate/measured_loss.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace bitpress::evaluate {
namespace {

TEST(LossOf, GoesByTheMeasureThatComesFirst) {
  EvaluationReport report;
  report.num_samples = 50;
  EXPECT_FALSE(LossOf(report));
  report.sqnr_db = 20;
  EXPECT_NEAR(LossOf(report)->loss, 0.01, 1e-12);
  EXPECT_EQ(LossOf(report)->measure, "noise");
  EXPECT_FALSE(FirstLossOf(report));
  report.agreement = 0.9;
  EXPECT_EQ(LossOf(report)->measure, "agreement");
  report.reference_expected_top1 = 0.8;
  report.expected_top1 = 0.6;
  EXPECT_EQ(LossOf(report)->measure, "expected top-1");
  EXPECT_NEAR(LossOf(report)->loss, 0.25, 1e-12);
  EXPECT_EQ(LossOf(report)->items, "samples");
  EXPECT_EQ(LossOf(report)->num_items, 50u);
  report.task.emplace();
  report.task->why_no_loss = "there is nothing";
  EXPECT_EQ(LossOf(report)->measure, "expected top-1");
  report.task->SetLoss(0.02, "1 - F1 of boxes", "boxes", 300);
  EXPECT_EQ(LossOf(report)->loss, 0.02);
  EXPECT_EQ(LossOf(report)->items, "boxes");
  EXPECT_EQ(LossOf(report)->num_items, 300u);
  report.top1 = 0.75;
  report.reference_top1 = 0.75;
  report.num_labelled = 40;
  EXPECT_EQ(LossOf(report)->measure, "top-1");
  EXPECT_EQ(LossOf(report)->num_items, 40u);
}

TEST(LossOf, OfSeveralOutputsTheWorstDecides) {
  EvaluationReport report;
  report.sqnr_db = 30;
  report.heads = {{"a", 0.03, "noise"}, {"b", 0.05, "1 - R2"}};
  EXPECT_EQ(LossOf(report)->loss, 0.05);
  EXPECT_EQ(WorstHeadOf(report)->output, "b");
  report.agreement = 0.9;
  EXPECT_NEAR(LossOf(report)->loss, 0.1, 1e-12);
  EXPECT_FALSE(WorstHeadOf(report));
  report.agreement = 0.99;
  EXPECT_EQ(LossOf(report)->loss, 0.05);
  EXPECT_EQ(LossOf(report)->measure, "agreement");
}

TEST(LossOf, NumbersThatAreNotFiniteLoseAll) {
  EvaluationReport report;
  report.agreement = 1;
  report.sqnr_db = -std::numeric_limits<double>::infinity();
  report.num_nonfinite_values = 3;
  EXPECT_TRUE(std::isinf(LossOf(report)->loss));
}

}  // namespace
}  // namespace bitpress::evaluate
