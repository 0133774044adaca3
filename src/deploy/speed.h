// The time of a written model over that of the model that it was made of, on this machine.
#pragma once

#include <algorithm>
#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "base/tensor.h"
#include "runtime/session.h"

namespace bitpress::deploy {

// The ratio from which on a user notices it, and there is a warning.
inline constexpr double kSlower = 1.05;

// In each round some runs of one model follow some of the other, so that what else the machine does
// meets both. The shortest runs are the least disturbed ones.
struct Speed {
  size_t num_rounds = 0;
  double seconds = 0;        // the shortest run of the written model
  double given_seconds = 0;  // and of the given one
  double ratio = 0;          // of these
  double low_ratio = 0;      // what the ratios of three of four rounds exceed

  // Returns whether the written model is slower beyond what rounds differ in.
  bool is_slower() const { return std::min(ratio, low_ratio) > kSlower; }
};

// Times both models, on the same sample, which each of them reads in its own order. It takes a
// third of a second, or longer if one run of each does. Throws Error(kRuntime) if a model does not
// run.
Speed CompareSpeed(runtime::Session& written, const std::vector<Tensor>& written_inputs,
                   runtime::Session& given, const std::vector<Tensor>& given_inputs);

nlohmann::ordered_json ToJson(const Speed& speed);
// Reads what ToJson wrote. REQUIRES: ToJson wrote it.
Speed SpeedFromJson(const nlohmann::ordered_json& json);

}  // namespace bitpress::deploy
