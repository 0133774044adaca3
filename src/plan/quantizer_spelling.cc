#include "plan/quantizer_spelling.h"

#include <fmt/format.h>

#include "base/check.h"
#include "formats/parameters.h"
#include "formats/quark.h"
#include "graph/own_domain.h"

namespace bitpress::plan {
namespace {

using formats::FormatSpec;
using formats::RoundingMode;
using formats::ScaleChoice;

constexpr const char* kQuarkDomain = "com.amd.quark";

// Returns Quark's number for a rounding mode.
int64_t QuarkRounding(RoundingMode mode) {
  switch (mode) {
    case RoundingMode::kHalfAwayFromZero:
      return 0;
    case RoundingMode::kHalfUp:
      return 1;
    case RoundingMode::kHalfToEven:
      return 2;
  }
  return 2;
}

formats::QuarkMxAttributes QuarkMx(const FormatSpec& spec) {
  return {spec.quark_name, spec.block_size, QuarkRounding(spec.rounding)};
}

formats::QuarkBfpAttributes QuarkBfp(const FormatSpec& spec) {
  formats::QuarkBfpAttributes attributes;
  attributes.bfp_method = spec.sub_block_size > 0 ? "to_bfp_prime" : "to_bfp";
  attributes.bit_width = spec.scale_bits + spec.element_bits;
  attributes.block_size = spec.block_size;
  attributes.rounding_mode = QuarkRounding(spec.rounding);
  if (spec.sub_block_size > 0) {
    attributes.sub_block_size = spec.sub_block_size;
    attributes.sub_block_shift_bits = spec.sub_block_shift_bits;
  }
  return attributes;
}

QuantizerSpelling SpellBitpress(const FormatSpec& spec, std::optional<int64_t> axis) {
  QuantizerSpelling spelling;
  spelling.domain = graph::kOwnDomain;
  const std::string_view base = formats::BaseName(spec);
  spelling.op_type = fmt::format("QuantizeDequantize_{}", base);
  if (formats::HasParameters(spec)) {
    for (const formats::FormatParameter& parameter : formats::ParametersOf(base)) {
      spelling.attributes.emplace_back(std::string(parameter.attribute),
                                       formats::ValueOf(spec, parameter));
    }
  }
  if (spec.is_blocked()) {
    spelling.attributes.emplace_back("axis", *axis);
    spelling.attributes.emplace_back("scale_choice",
                                     std::string(formats::ScaleChoiceName(spec.scale_choice)));
  }
  spelling.attributes.emplace_back("rounding_mode",
                                   std::string(formats::RoundingModeName(spec.rounding)));
  return spelling;
}

QuantizerSpelling SpellQuarkPair(const FormatSpec& spec) {
  QuantizerSpelling spelling;
  spelling.domain = kQuarkDomain;
  spelling.op_type = "ExtendedQuantizeLinear";
  spelling.dequantize_op_type = "ExtendedDequantizeLinear";
  spelling.zero_point_type = spec.onnx_type;
  return spelling;
}

QuantizerSpelling SpellQuark(const FormatSpec& spec, std::optional<int64_t> axis) {
  if (!spec.is_blocked()) return SpellQuarkPair(spec);
  QuantizerSpelling spelling;
  spelling.domain = kQuarkDomain;
  auto& attributes = spelling.attributes;
  if (!spec.is_block_float()) {
    const formats::QuarkMxAttributes quark = QuarkMx(spec);
    spelling.op_type = "MXQuantizeDequantize";
    attributes.emplace_back("element_dtype", std::string(quark.element_dtype));
    attributes.emplace_back("axis", *axis);
    attributes.emplace_back("block_size", quark.block_size);
    attributes.emplace_back("rounding_mode", quark.rounding_mode);
  } else {
    const formats::QuarkBfpAttributes quark = QuarkBfp(spec);
    spelling.op_type = "BFPQuantizeDequantize";
    attributes.emplace_back("bfp_method", std::string(quark.bfp_method));
    attributes.emplace_back("axis", *axis);
    attributes.emplace_back("bit_width", quark.bit_width);
    attributes.emplace_back("block_size", quark.block_size);
    attributes.emplace_back("rounding_mode", quark.rounding_mode);
    if (spec.sub_block_size > 0) {
      attributes.emplace_back("sub_block_size", quark.sub_block_size);
      attributes.emplace_back("sub_block_shift_bits", quark.sub_block_shift_bits);
    }
  }
  // The attribute is ours. Quark's library ignores it and takes the floor.
  if (spec.scale_choice != ScaleChoice::kFloor) {
    attributes.emplace_back("scale_choice",
                            std::string(formats::ScaleChoiceName(spec.scale_choice)));
  }
  return spelling;
}

}  // namespace

QuantizerSpelling SpellQuantizer(plan::OperatorSet operators, const FormatSpec& spec,
                                 std::optional<int64_t> axis) {
  BITPRESS_DCHECK(axis.has_value() || !spec.is_blocked());
  return plan::IsQuark(operators) ? SpellQuark(spec, axis) : SpellBitpress(spec, axis);
}

FormatSpec SpecOf(plan::OperatorSet operators, const FormatSpec& spec) {
  if (operators == plan::OperatorSet::kBitpress || !spec.is_blocked()) return spec;
  // A weight may have a format that Quark's operators cannot compute, and none to agree with.
  if (!WhyNoOperator(operators, spec).empty()) return spec;
  FormatSpec quark = spec.is_block_float() ? formats::QuarkSpec(QuarkBfp(spec))
                                           : formats::QuarkSpec(QuarkMx(spec));
  quark.scale_choice = spec.scale_choice;
  quark.name = spec.name;  // the name in packed weights; the same bits mean the same values
  return quark;
}

}  // namespace bitpress::plan
