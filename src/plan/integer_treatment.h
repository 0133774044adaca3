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

// For which x86 processors int8 weights behind uint8 activations are made. Those without VNNI add
// two products in saturating 16 bits (formats/pair_sums.h).
enum class IntegerKernels {
  kSafe,         // for all: codes whose pair sums fit, or uint8 codes where those lose too much
  kSafeInt8,     // for all, and always int8
  kVnni,         // for those with VNNI, and for other kinds of processors: every code is used
  kReduceRange,  // for all: one bit less in every weight
};

struct IntegerTreatment {
  Granularity granularity = Granularity::kPerTensor;
  int64_t block_size = 0;  // only per block
  bool is_symmetric = true;
  bool is_reduced = false;  // one bit less, see formats::IntegerSpec
  // Weights: no pair sum of their products saturates (IntegerKernels::kSafe, where a kernel that
  // can saturate reads them).
  bool is_pair_safe = false;
  // Such a weight may become uint8 with zero point 128, for which kernels are exact and slower,
  // where the codes of int8 that fit lose too much (weights/unsigned_weights.h).
  bool may_be_unsigned = false;
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
