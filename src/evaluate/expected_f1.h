// The F1 of boxes that the float model itself expects, for samples with few boxes. Each of its
// boxes is an object as likely as its score says, and a box of a model is the more right the more
// it covers one: its share of the ten thresholds of the overlap from 0.5 to 0.95. So every box says
// something, where counting says nothing but which boxes are gone, and a box whose score is near
// the least one may come and go. Pure.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/byte_stream.h"

namespace bitpress::evaluate {

// The boxes of one sample. Those that count reach the least score.
struct ExpectedBoxes {
  double num_wanted = 0, num_found = 0;  // boxes of the float model and of the other one that count
  double objects =
      0;             // the scores of all boxes of the float model, also of those that do not count
  double kept = 0;   // the scores of those that count
  double right = 0;  // the scores of those that found boxes cover, in parts of the thresholds

  auto operator<=>(const ExpectedBoxes&) const = default;
};

class ExpectedF1 {
 public:
  void Add(const ExpectedBoxes& sample) { samples_.push_back(sample); }
  void Add(const ExpectedF1& other);
  size_t num_samples() const { return samples_.size(); }

  // Return the expected F1 of both models.
  double Model() const;
  double Reference() const;
  // Returns an upper bound of the drop, as a part of the float model's F1. The drop is below it in
  // 95 of 100 cases, by the spread over the samples (jackknife). 0 if the float model expects
  // nothing.
  // REQUIRES: there are two samples or more.
  double DropAtMost() const;

  // The bytes do not depend on the order of samples.
  void Write(ByteWriter& writer) const;
  // Throws Error(kInvalidArgument) if the bytes are damaged.
  static ExpectedF1 Read(ByteReader& reader);

 private:
  ExpectedBoxes Sum() const;

  std::vector<ExpectedBoxes> samples_;
};

// Returns the part of the thresholds of the overlap that this one reaches.
double ShareOfThresholds(double overlap);

}  // namespace bitpress::evaluate
