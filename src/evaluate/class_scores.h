// The output of a model that ranks classes: which one it is, and how often its first classes are
// those of the labels and of the reference.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/source.h"
#include "evaluate/outputs.h"
#include "evaluate/state.h"
#include "runtime/session.h"

namespace bitpress::evaluate {

// Returns the index of the output with class scores: the one with this name, or if the name is
// empty the first that has probabilities, else the first that has scores. Null if the model has
// none. `outputs` are those of a run of `batch_size` samples, by the model's `descriptions`.
// Numbers that differ by hundreds, such as the pitch at each moment, and outputs of as many
// numbers, such as how sure it is, are scores only if the samples have labels. Numbers without a
// dimension for samples are scores if they are probabilities, or all that the model gives. Throws
// Error(kInvalidArgument) if the named output is missing or has no scores.
std::optional<size_t> FindClassOutput(std::span<const runtime::ValueDescription> descriptions,
                                      const std::vector<const Output*>& outputs, size_t batch_size,
                                      const std::string& name, bool has_labels);

// Adds the ranks of a batch's samples to the counts of `state`: of their labels, and of the class
// that the reference ranks first. `scores` are those of a run of `batch_size` samples, the last of
// which may be padding, and `reference` is null without a reference. `name` is the output's, for
// messages. Throws Error(kInvalidArgument) if the output has no scores, or if a label lies beyond
// its classes.
void CountClasses(const Output& scores, const Output* reference, const data::Batch& batch,
                  size_t batch_size, const std::string& name, EvaluationState& state);

}  // namespace bitpress::evaluate
