// The constants of a model file, with the format and the size of each: `bitpress inspect` lists
// them and the report adds them up.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/tensor.h"
#include "graph/model.h"

namespace bitpress::weights {

// A constant of the model: an initializer, or the weight that packed initializers hold.
struct StoredConstant {
  std::string name;
  std::string format;  // "mxfp8_e4m3", or the element type: "FLOAT"
  std::vector<int64_t> dims;
  uint64_t num_bytes = 0;
  // Why a float constant of a model that we wrote is one, and what its values are: "float: too
  // short", "mx6 as floats: ...".
  std::string reason;
  std::string held_format;  // whose values a float constant holds: "mx6"; "": any floats

  int64_t num_elements() const { return NumElements(dims); }
};

// Returns the constants in the file's order. Throws Error where a packed weight is damaged.
std::vector<StoredConstant> StoredConstants(const graph::Model& model);

}  // namespace bitpress::weights
