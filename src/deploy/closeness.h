// The closeness of a written model's outputs to those of the model that it was made of, on some
// samples. The check of every written model measures it, so that nobody deploys a wrong model
// because nothing was said.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/tensor.h"
#include "evaluate/evaluate.h"
#include "runtime/session.h"

namespace bitpress::deploy {

// The closeness of one output. Samples count alike (MeanNoise in base/output_error.h): sqnr_db is
// 10 log10(1 / noise), +infinity without any error and -infinity if values are lost.
struct OutputCloseness : evaluate::OutputReport {
  double worst_db = 0;    // of the sample with the largest noise
  uint64_t num_lost = 0;  // values that are NaN or infinite where the given model gives numbers
  bool varies = true;     // false: the given model gives the same for several different samples
};

// The closeness in dB that every format is expected to reach.
inline constexpr double kLeastDb = 10;

struct Closeness {
  size_t num_runs = 0;  // runs that were compared, each of one sample or of a fixed batch
  // Runs whose inputs are those of an earlier one; they count once, and are none of num_runs.
  size_t num_equal_runs = 0;
  // Runs of num_runs in which each input of floats has one and the same value everywhere.
  size_t num_constant_runs = 0;
  // The closeness that the formats of the model should give; outputs below it lost more.
  double wanted_db = kLeastDb;
  // The floating-point outputs, in the order of the model.
  std::vector<OutputCloseness> outputs;
  // Names of outputs that had another shape in a run. They are compared in the other runs only.
  std::vector<std::string> other_shapes;
  // The reason why nothing was compared; "" if something was.
  std::string why_not;

  // Returns the output that is farthest off; nothing if none was compared.
  std::optional<OutputCloseness> worst() const;
  // Returns whether an output lost values, or more than the formats explain.
  bool is_far() const;
  // Returns whether the samples say little: several that are all the same, or constant inputs only.
  bool has_poor_samples() const;
};

// The bytes of a model's outputs that are kept to be compared. Runs beyond that are not compared.
inline constexpr uint64_t kMostComparedBytes = uint64_t{512} << 20;

// Returns the tensors of a sample in the order in which a session reads them. `inputs` describes
// the sample. Throws Error(kUnsupported) if the session reads another input.
std::vector<Tensor> AsRead(const runtime::Session& session, const std::vector<Tensor>& sample,
                           const std::vector<runtime::ValueDescription>& inputs);

// Runs the given model on `samples` and compares its outputs with `outputs`, those of the written
// model for the same samples. `inputs` and `descriptions` are what the written model reads and
// gives. Throws Error of the given model.
Closeness MeasureCloseness(runtime::Session& given, const std::vector<std::vector<Tensor>>& samples,
                           const std::vector<std::vector<Tensor>>& outputs,
                           const std::vector<runtime::ValueDescription>& inputs,
                           const std::vector<runtime::ValueDescription>& descriptions);

nlohmann::ordered_json ToJson(const Closeness& closeness);
// Reads what ToJson wrote. REQUIRES: ToJson wrote it.
Closeness ClosenessFromJson(const nlohmann::ordered_json& json);

}  // namespace bitpress::deploy
