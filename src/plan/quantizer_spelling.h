// The spelling of a format as operators in a model. Ours have one operator name for each format;
// AMD Quark's have the attributes that its presets write. Passes that insert quantizers ask here.
// Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "formats/format_spec.h"
#include "graph/model.h"
#include "plan/quant_config.h"

namespace bitpress::plan {

// The operator that quantizes and dequantizes a value, with one input and one output. In its place
// may be a Q/DQ pair with a scale of 1 and a zero point of 0 whose type names the format.
struct QuantizerSpelling {
  std::string domain;
  std::string op_type;             // the operator, or the first of the pair
  std::string dequantize_op_type;  // the second of the pair; "" if there is no pair
  std::vector<std::pair<std::string, graph::Attribute>> attributes;
  DataType zero_point_type = DataType::kUndefined;  // type of the pair's codes
};

// Returns the spelling of a format. REQUIRES: plan::CheckHasOperator(operators, spec) passes; axis
// is given for blocked formats.
QuantizerSpelling SpellQuantizer(plan::OperatorSet operators, const formats::FormatSpec& spec,
                                 std::optional<int64_t> axis);

// Returns the format as that operator set computes it, so that weights are rounded as its operators
// would. Quark's operators differ from ours in zeros and in the limits of shared exponents.
formats::FormatSpec SpecOf(plan::OperatorSet operators, const formats::FormatSpec& spec);

}  // namespace bitpress::plan
