// The samples that were held back from calibration say whether the others stand for them. If ranges
// that the others give cut off or crush values of those held back, more or more varied samples are
// needed. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "base/fields.h"
#include "calibrate/calibrate.h"
#include "plan/quant_plan.h"

namespace bitpress::calibrate {

// An activation whose range does not hold for the samples held back.
struct Unrepresented {
  std::string value;
  double outside_share = 0;
  double lost_db = 0;
};
constexpr auto FieldsOf(const Unrepresented*) {
  return std::tuple(
      Field{"value", &Unrepresented::value},
      Field{"outside_share", &Unrepresented::outside_share,
            "Share of its elements outside the range of the other samples, 0 to 1."},
      Field{"lost_db", &Unrepresented::lost_db,
            "Growth of its rounding error in dB if the range follows from the others instead of "
            "from all."});
}

struct HeldBackReport {
  uint64_t num_held_back = 0;
  uint64_t num_samples = 0;                // with those held back
  size_t num_values = 0;                   // activations that were compared
  std::vector<Unrepresented> values = {};  // the worst comes first
};
constexpr auto FieldsOf(const HeldBackReport*) {
  return std::tuple(
      Field{"num_held_back", &HeldBackReport::num_held_back},
      Field{"num_samples", &HeldBackReport::num_samples, "With those held back."},
      Field{"num_values", &HeldBackReport::num_values, "Activations that were compared."},
      Field{"outside", &HeldBackReport::values, "The worst comes first."});
}

// Compares the ranges that a plan's integer activations get from the other samples with those from
// `all`. An activation is reported if its rounding error in the samples held back grows by more
// than kLeastLostDb. Throws as ResolveParams.
HeldBackReport CompareHeldBack(const plan::QuantPlan& plan, const CalibrationTable& all,
                               const HeldBackTables& parts);
inline constexpr double kLeastLostDb = 6;

}  // namespace bitpress::calibrate
