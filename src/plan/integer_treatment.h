// What a tensor in an integer format needs beyond the format: how many scales, which, and how its
// range is chosen. Plain data.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "formats/qparams.h"
#include "plan/range_method.h"

namespace bitpress::plan {

enum class Granularity {
  kPerTensor,
  kPerAxis,   // a scale for each index along the axis ("per channel")
  kPerBlock,  // a scale for each block_size elements along the axis
};

struct IntegerTreatment {
  Granularity granularity = Granularity::kPerTensor;
  int64_t block_size = 0;  // only per block
  bool is_symmetric = true;
  bool is_reduced = false;  // one bit less, see formats::IntegerSpec
  formats::ScaleKind scale_kind = formats::ScaleKind::kFloat;
  RangeMethod range;
  // Activations: takes the scale and zero point of that value, because an operator only moves
  // elements between the two. Empty: its own.
  std::string shares;
  // Given in the plan: neither statistics nor range are asked. Per tensor only.
  std::optional<formats::QParams> params;

  bool operator==(const IntegerTreatment&) const = default;
};

// "per_tensor", "per_axis", "per_block" (also "tensor", "channel", "block" when read); the parser
// throws Error(kInvalidArgument) with the allowed words.
std::string_view GranularityName(Granularity granularity);
Granularity ParseGranularity(std::string_view word);

}  // namespace bitpress::plan
