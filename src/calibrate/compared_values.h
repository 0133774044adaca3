// The values that the guard compares between the float model and one with rounded activations. Most
// are the outputs of the model, but two kinds of outputs say little as they are:
//
// - Behind a TopK, a NonMaxSuppression or an ArgMax, two scores that lie close change places, and
//   whole rows are others then, however small the rounding was. There the guard compares the floats
//   that these operators, and those that look up what they chose, read.
// - A Concat of boxes in pixels and of scores from 0 to 1 has the energy of the boxes. There the
//   guard compares each part for itself.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/output_error.h"
#include "base/tensor.h"
#include "graph/model.h"
#include "plan/quant_plan.h"

namespace bitpress::calibrate {

// A box of the elements of a tensor: some axes with the range of indices in each. Other axes are
// whole.
struct TensorPart {
  struct Range {
    size_t axis = 0;
    int64_t begin = 0;
    int64_t end = 0;
    bool operator==(const Range&) const = default;
  };
  std::vector<Range> ranges;
  bool operator==(const TensorPart&) const = default;
};

struct ComparedValue {
  std::string value;   // of the model
  std::string output;  // the output of the model that it stands for
  // The reader in front of which it is compared; nothing: it is the output itself.
  std::optional<plan::TensorUse> reader = {};
  // The parts that a Concat makes it of; none: it is one whole.
  std::vector<TensorPart> parts = {};

  // Returns how messages call it.
  std::string Name() const;
};

// Returns the values to compare, in the order of the model's outputs. A value comes once. Pure.
std::vector<ComparedValue> ComparedValues(const graph::Model& model);

// Returns the values that Concats make a value of, through operators that only move elements. None
// if no Concat does, or if it is not known where its parts end. Pure.
std::vector<std::string> ConcatenatedValues(const graph::Model& model, const std::string& value);

// Forgets the parts of a value unless their typical values differ so much in `example`, a float
// value, that one hides the errors of another.
void ForgetEqualParts(ComparedValue& compared, const Tensor& example);

// Returns the errors of a value: one, or one for each part. They are of nothing if it is no float,
// or has another shape.
std::vector<OutputError> ErrorsOf(const ComparedValue& compared, const Tensor& wanted,
                                  const Tensor& found);

}  // namespace bitpress::calibrate
