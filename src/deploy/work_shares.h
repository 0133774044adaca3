// The shares of a model's products that compute on integers, from the codes of weights, and in
// float. Products are multiplications of matrices, images and states, which take most of the time.
// They are counted with the shapes that one run met, so that they are the same in every run.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>

#include "graph/model.h"

namespace bitpress::deploy {

// Numbers of products. All of them are 0 for a model without any.
struct WorkShares {
  double integers = 0;  // both factors are codes
  double codes = 0;     // floats meet the codes of weights, which are never decoded as a whole
  double floats = 0;

  double all() const { return integers + codes + floats; }
};

// Counts the products of a run. `graph` is the model that ran as it was loaded, without any change
// by ONNX Runtime, and `profile` what Session::EndProfile gave for it. Throws Error(kRuntime) if
// the profile cannot be read.
WorkShares CountWork(const graph::Model& graph, const std::filesystem::path& profile);

nlohmann::ordered_json ToJson(const WorkShares& shares);
// Reads what ToJson wrote. REQUIRES: ToJson wrote it.
WorkShares WorkSharesFromJson(const nlohmann::ordered_json& json);

}  // namespace bitpress::deploy
