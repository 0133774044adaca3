// The constants of a model file, with the format and the size of each: `bitpress inspect` lists
// them and the report adds them up.
#pragma once

#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "base/fields.h"
#include "base/tensor.h"
#include "graph/model.h"

namespace bitpress::weights {

// A constant of the model: an initializer, or the weight that packed initializers hold.
struct StoredConstant {
  std::string name;
  std::string format;  // "mxfp8_e4m3", or the element type: "FLOAT"
  std::vector<int64_t> dims;
  uint64_t num_bytes = 0;
  std::string reason;
  std::string held_format;

  int64_t num_elements() const { return NumElements(dims); }
};
constexpr auto FieldsOf(const StoredConstant*) {
  return std::tuple(
      Field{"name", &StoredConstant::name}, Field{"format", &StoredConstant::format},
      Field{"shape", &StoredConstant::dims, "", "dims"},
      Field{"num_bytes", &StoredConstant::num_bytes},
      Field{"held_format", &StoredConstant::held_format,
            "The format whose values a float constant holds, or gets by an operator behind it. '' "
            "if it is none."},
      Field{"reason", &StoredConstant::reason,
            "Why a float constant of a model that Bitpress wrote is one, and what its values are: "
            "'float: too short', 'mx6 as floats: ...'."});
}

// Returns the constants in the file's order. Throws Error where a packed weight is damaged.
std::vector<StoredConstant> StoredConstants(const graph::Model& model);

}  // namespace bitpress::weights
