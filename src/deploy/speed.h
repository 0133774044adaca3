// The time of a written model over that of the model that it was made of, on this machine.
#pragma once

#include <algorithm>
#include <cstddef>
#include <tuple>
#include <vector>

#include "base/fields.h"
#include "base/tensor.h"
#include "runtime/session.h"

namespace bitpress::deploy {

// The ratio from which on a user notices it, and there is a warning.
inline constexpr double kSlower = 1.05;

// In each round some runs of one model follow some of the other, so that what else the machine does
// meets both. The shortest runs are the least disturbed ones.
struct Speed {
  size_t num_rounds = 0;
  double seconds = 0;
  double given_seconds = 0;
  double ratio = 0;
  double low_ratio = 0;

  // Returns whether the written model is slower beyond what rounds differ in.
  bool is_slower() const { return std::min(ratio, low_ratio) > kSlower; }
};
constexpr auto FieldsOf(const Speed*) {
  return std::tuple(
      Field{"num_rounds", &Speed::num_rounds},
      Field{"seconds", &Speed::seconds, "The shortest run of the written model."},
      Field{"given_seconds", &Speed::given_seconds, "The shortest run of the given model."},
      Field{"ratio", &Speed::ratio, "The first divided by the second."},
      Field{"low_ratio", &Speed::low_ratio, "What the ratios of three of four rounds exceed."});
}

// Times both models, on the same sample, which each of them reads in its own order. It takes a
// third of a second, or longer if one run of each does. Throws Error(kRuntime) if a model does not
// run.
Speed CompareSpeed(runtime::Session& written, const std::vector<Tensor>& written_inputs,
                   runtime::Session& given, const std::vector<Tensor>& given_inputs);

}  // namespace bitpress::deploy
