#include "finetune/validate_network.h"

#include <gtest/gtest.h>

#include <limits>

namespace bitpress::finetune {
namespace {

using Errors = std::vector<OutputErrors>;

TEST(ValidateNetwork, TakesAGainThatAllRunsShow) {
  const Errors before{{8}, {12}, {9}, {11}};
  const Errors after{{4}, {6}, {5}, {5}};
  const NetworkValidation validation = ValidateNetwork(before, after, 0);
  EXPECT_EQ(validation.num_runs, 4U);
  EXPECT_NEAR(validation.gain_db, 3.01, 0.01);
  EXPECT_LT(validation.uncertainty_db, 0.5);
  EXPECT_TRUE(validation.is_better);
  EXPECT_FALSE(ValidateNetwork(after, before, 0).is_better);
  EXPECT_FALSE(ValidateNetwork(before, after, 3.5).is_better);
}

TEST(ValidateNetwork, DoesNotTrustAGainOfOneRun) {
  const Errors before{{100}, {1}, {1}, {1}};
  const Errors after{{50}, {2}, {2}, {2}};
  const NetworkValidation validation = ValidateNetwork(before, after, 0);
  EXPECT_GT(validation.gain_db, 2);
  EXPECT_FALSE(validation.is_better);
}

TEST(ValidateNetwork, TakesAGainOfEveryRunThoughOneHasMostOfTheError) {
  const Errors before{{1000}, {8}, {9}, {10}, {7}};
  const Errors after{{950}, {4}, {4}, {6}, {3}};
  const NetworkValidation validation = ValidateNetwork(before, after, 0);
  EXPECT_LT(validation.gain_db, 0.5);
  EXPECT_NEAR(validation.run_gain_db, 2.5, 0.3);
  EXPECT_TRUE(validation.is_better);
  const Errors unclear{{1000}, {4}, {4}, {20}, {3}};  // one of the quiet runs loses 3 dB
  EXPECT_GT(ValidateNetwork(before, unclear, 0).run_gain_db, 1);
  EXPECT_FALSE(ValidateNetwork(before, unclear, 0).is_better);
  const Errors lost{{1100}, {4}, {4}, {6}, {3}};
  EXPECT_FALSE(ValidateNetwork(before, lost, 0).is_better);
}

TEST(ValidateNetwork, SingleRunsMustNotContradict) {
  const Errors before{{100}, {100}, {1}, {1}};
  const NetworkValidation loss = ValidateNetwork(before, Errors{{50}, {50}, {6}, {6}}, 0);
  EXPECT_GT(loss.gain_db, 2 * loss.uncertainty_db);
  EXPECT_LT(loss.run_gain_db, 0);
  EXPECT_FALSE(loss.is_better);
  const NetworkValidation unclear = ValidateNetwork(before, Errors{{50}, {50}, {1.9}, {1.9}}, 0);
  EXPECT_GT(unclear.run_gain_db, 0);
  EXPECT_FALSE(unclear.is_better);
  EXPECT_TRUE(ValidateNetwork(before, Errors{{50}, {50}, {1}, {1.1}}, 0).is_better);
}

TEST(ValidateNetwork, OneRunMustShowMore) {
  EXPECT_FALSE(ValidateNetwork(Errors{{10}}, Errors{{9}}, 0).is_better);
  EXPECT_TRUE(ValidateNetwork(Errors{{10}}, Errors{{6}}, 0).is_better);
}

TEST(ValidateNetwork, NoOutputMayPayForTheOthers) {
  const Errors before{{8, 1}, {12, 1}, {9, 1}};
  const Errors after{{2, 1.2}, {3, 1.2}, {2, 1.2}};
  const NetworkValidation validation = ValidateNetwork(before, after, 0);
  EXPECT_GT(validation.gain_db, 2);
  EXPECT_LT(validation.least_gain_db, -0.7);
  EXPECT_FALSE(validation.is_better);
}

TEST(ValidateNetwork, RunsThatCannotBeComparedDoNotCount) {
  const Errors before{{8}, {}, {9}, {3}};
  const Errors after{{4}, {5}, {4}, {}};
  EXPECT_EQ(ValidateNetwork(before, after, 0).num_runs, 2U);
  EXPECT_EQ(ValidateNetwork(Errors(1), Errors(1), 0).num_runs, 0U);
  EXPECT_FALSE(ValidateNetwork(Errors(1), Errors(1), 0).is_better);
}

TEST(ValidateNetwork, ARunThatLosesValuesRefusesEveryGain) {
  constexpr double kLost = std::numeric_limits<double>::infinity();
  const Errors before{{8, 3}, {12, 3}, {9, 3}, {11, 3}};
  const NetworkValidation validation =
      ValidateNetwork(before, Errors{{4, 1}, {6, kLost}, {4, 1}, {5, 1}}, 0);
  EXPECT_EQ(validation.num_runs, 3U);
  EXPECT_EQ(validation.num_lost_runs, 1U);
  EXPECT_GT(validation.gain_db, 3);
  EXPECT_FALSE(validation.is_better);
  EXPECT_TRUE(validation.is_refused());
  const NetworkValidation all_lost = ValidateNetwork(Errors{{8}, {9}}, Errors{{kLost}, {kLost}}, 0);
  EXPECT_EQ(all_lost.num_runs, 0U);
  EXPECT_TRUE(all_lost.is_refused());
}

TEST(ValidateNetwork, RunsThatLostValuesBeforeDoNotCount) {
  constexpr double kLost = std::numeric_limits<double>::infinity();
  const Errors before{{8}, {kLost}, {9}, {11}, {kLost}};
  const NetworkValidation validation =
      ValidateNetwork(before, Errors{{4}, {kLost}, {4}, {5}, {3}}, 0);
  EXPECT_EQ(validation.num_runs, 3U);
  EXPECT_EQ(validation.num_lost_runs, 0U);
  EXPECT_TRUE(validation.is_better);
  EXPECT_FALSE(ValidateNetwork(Errors{{kLost}}, Errors{{3}}, 0).is_refused());
}

}  // namespace
}  // namespace bitpress::finetune
