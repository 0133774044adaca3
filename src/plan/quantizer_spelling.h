// How a format is spelled as operators in a model: ours, one operator name a format, or AMD Quark's
// with the attributes that its presets write. Pure.
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

// An operator with one input and one output that quantizes and dequantizes, or (has_scale) a Q/DQ
// pair with a scale of 1 and a zero point of 0 whose type names the format.
struct QuantizerSpelling {
  std::string domain;
  std::string op_type;             // of the pair: the first
  std::string dequantize_op_type;  // of the pair: the second; "" if there is none
  std::vector<std::pair<std::string, graph::Attribute>> attributes;
  DataType zero_point_type = DataType::kUndefined;  // of the pair
};

// REQUIRES: plan::CheckHasOperator(operators, spec) passes; axis is given for blocked formats.
QuantizerSpelling SpellQuantizer(plan::OperatorSet operators, const formats::FormatSpec& spec,
                                 std::optional<int64_t> axis);

// The format as that operator set computes it: Quark's operators differ in zeros and in the limits
// of shared exponents, and weights are rounded as the operators would.
formats::FormatSpec SpecOf(plan::OperatorSet operators, const formats::FormatSpec& spec);

}  // namespace bitpress::plan
