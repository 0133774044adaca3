// The closeness of a written model's outputs to those of the model that it was made of, on some
// samples. The check of every written model measures it, so that nobody deploys a wrong model
// because nothing was said.
#pragma once

#include <cmath>
#include <cstddef>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "base/fields.h"
#include "base/tensor.h"
#include "evaluate/evaluate.h"
#include "runtime/session.h"

namespace bitpress::deploy {

// The closeness of one output. Samples count alike (MeanNoise in base/output_error.h): sqnr_db is
// 10 log10(1 / noise), +infinity without any error and -infinity if values are lost.
struct OutputCloseness : evaluate::OutputReport {
  double worst_db = 0;
  uint64_t num_lost = 0;
  bool varies = true;
};
constexpr auto FieldsOf(const OutputCloseness*) {
  return std::tuple_cat(
      FieldsOf(static_cast<const evaluate::OutputReport*>(nullptr)),
      std::tuple(Field{"worst_db", &OutputCloseness::worst_db,
                       "SQNR in dB of the sample with the largest noise."},
                 Field{"num_lost", &OutputCloseness::num_lost,
                       "Values that are NaN or infinite where the given model gives numbers."},
                 Field{"varies", &OutputCloseness::varies,
                       "False if the given model gives the same for several different samples."},
                 ComputedField{"is_identical", [](const OutputCloseness& output) {
                                 return std::isinf(output.sqnr_db) && output.sqnr_db > 0;
                               }}));
}

// An output whose shape differed in some runs. It is compared in the others.
struct OtherShape {
  std::string name;
  size_t num_runs = 0;
};
constexpr auto FieldsOf(const OtherShape*) {
  return std::tuple(Field{"name", &OtherShape::name, "Name of the output."},
                    Field{"num_runs", &OtherShape::num_runs,
                          "Runs in which it had another shape than the given model's."});
}

// The closeness in dB that every format is expected to reach.
inline constexpr double kLeastDb = 10;

struct Closeness {
  size_t num_runs = 0;
  size_t num_equal_runs = 0;
  size_t num_constant_runs = 0;
  double wanted_db = kLeastDb;
  std::vector<OutputCloseness> outputs;
  std::vector<OtherShape> other_shapes;
  std::string why_not;

  // Returns the output that is farthest off; nothing if none was compared.
  std::optional<OutputCloseness> worst() const;
  // Returns whether an output lost values, or more than the formats explain.
  bool is_far() const;
  // Returns whether the samples say little: several that are all the same, or constant inputs only.
  bool has_poor_samples() const;
};
constexpr auto FieldsOf(const Closeness*) {
  return std::tuple(
      Field{"num_runs", &Closeness::num_runs,
            "Runs that were compared, each of one sample or of a fixed batch."},
      Field{"num_equal_runs", &Closeness::num_equal_runs,
            "Runs whose inputs are those of an earlier one. They count once, and are none of "
            "num_runs."},
      Field{"num_constant_runs", &Closeness::num_constant_runs,
            "Runs of num_runs in which each input of floats has one value everywhere."},
      Field{"wanted_db", &Closeness::wanted_db,
            "The SQNR in dB that the formats of the model should give. Outputs below it lost "
            "more."},
      Field{"outputs", &Closeness::outputs, "The floating-point outputs, in the model's order."},
      Field{"other_shapes", &Closeness::other_shapes,
            "Outputs that had another shape in a run. They are compared in the others."},
      Field{"why_not", &Closeness::why_not, "Why nothing was compared. '' if something was."});
}

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

}  // namespace bitpress::deploy
