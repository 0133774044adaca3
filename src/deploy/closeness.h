// The closeness of a written model's outputs to those of the model that it was made of, on a few
// samples. The check of every written model measures it, so that nobody deploys a wrong model
// because nothing was said.
#pragma once

#include <cstddef>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/tensor.h"
#include "evaluate/evaluate.h"
#include "runtime/session.h"

namespace bitpress::deploy {

struct Closeness {
  size_t num_runs = 0;  // runs that were compared, each of one sample or of a fixed batch
  // The floating-point outputs, in the order of the model.
  std::vector<evaluate::OutputReport> outputs;
  // Names of outputs that had another shape in a run. They are compared in the other runs only.
  std::vector<std::string> other_shapes;
  // The reason why nothing was compared; "" if something was.
  std::string why_not;
};

// Runs the model `given` on `samples` and compares its outputs with `outputs`, those of the written
// model for the same samples. `inputs` and `descriptions` are what the written model reads and
// gives. Errors of `given` are the result's `why_not`. Throws Error(kIo).
Closeness MeasureCloseness(const std::filesystem::path& given,
                           const std::vector<std::vector<Tensor>>& samples,
                           const std::vector<std::vector<Tensor>>& outputs,
                           const std::vector<runtime::ValueDescription>& inputs,
                           const std::vector<runtime::ValueDescription>& descriptions);

nlohmann::ordered_json ToJson(const Closeness& closeness);
// Reads what ToJson wrote. REQUIRES: ToJson wrote it.
Closeness ClosenessFromJson(const nlohmann::ordered_json& json);

}  // namespace bitpress::deploy
