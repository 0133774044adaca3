// The rows of a plan for key-value caches that attention itself holds as integers: the codes leave
// the model and come back, so that its interface is of integers. Plain data.
#pragma once

#include <string>
#include <vector>

#include "plan/integer_treatment.h"

namespace bitpress::plan {

struct CachePlan {
  std::string node;             // the key of the node, see NodeIndex::KeyOf
  std::string op_type;          // of that node
  std::string past;             // the model's input: the cache of the earlier positions
  std::string value;            // the model's output: the cache with the new positions
  std::string format = "none";  // int8 or int4; the codes are symmetric
  // kPerAxis: a scale for each head and channel; or kPerTensor.
  Granularity granularity = Granularity::kPerAxis;
  RangeMethod range{.kind = RangeMethod::Kind::kMse};
  // One scale, or those of [heads, channels]. Empty: they follow from statistics.
  std::vector<float> scales = {};
  std::string reason = {};  // the reason why it stays float; empty exactly if it does not

  bool is_quantized() const { return format != "none"; }
  int bits() const { return format == "int4" ? 4 : 8; }
  bool operator==(const CachePlan&) const = default;
};

}  // namespace bitpress::plan
