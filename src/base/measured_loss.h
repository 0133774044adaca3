// The loss of a model beside the one that it was made from, in the terms of some measure.
#pragma once

#include <cstdint>
#include <string>

namespace bitpress {

struct MeasuredLoss {
  double loss = 0;      // a share of what the other model does, 0 without any
  std::string measure;  // such as "1 - F1 of boxes"
  // The measure counts these ("boxes"), and the other model has so many of them. "": it counts
  // nothing, and any small change shows.
  std::string items = "";
  uint64_t num_items = 0;
};

}  // namespace bitpress
