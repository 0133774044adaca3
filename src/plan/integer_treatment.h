// The treatment of a tensor in an integer format, beyond the format itself: its scales, and how its
// range is chosen. A row of a plan has one. Plain data.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/qparams.h"
#include "plan/range_method.h"

namespace bitpress::plan {

// The elements of a tensor that share a scale.
enum class Granularity {
  kPerTensor,  // all of them
  kPerAxis,    // those of one index along the axis ("per channel")
  kPerBlock,   // those of one block of block_size elements along the axis
};

// The x86 processors that int8 weights behind uint8 activations are made for. Processors without
// VNNI add two products in saturating 16 bits (formats/pair_sums.h).
enum class IntegerKernels {
  kSafe,         // all: only codes whose pair sums fit, or uint8 codes where those lose too much
  kSafeInt8,     // all, and weights are always int8
  kVnni,         // those with VNNI, and other kinds of processors: every code is used
  kReduceRange,  // all: every weight has one bit less
};

// The scales of one integer tensor.
struct IntegerTreatment {
  Granularity granularity = Granularity::kPerTensor;
  int64_t block_size = 0;  // elements of a block; only per block
  bool is_symmetric = true;
  bool is_reduced = false;  // one bit less, see formats::IntegerSpec
  // No pair sum of this weight's products saturates. Set for IntegerKernels::kSafe if a kernel that
  // can saturate reads the weight.
  bool is_pair_safe = false;
  // Such a weight may become uint8 with zero point 128, for which kernels are exact and slower,
  // where the codes of int8 that fit lose too much (weights/unsigned_weights.h).
  bool may_be_unsigned = false;
  formats::ScaleKind scale_kind = formats::ScaleKind::kFloat;
  RangeMethod range;
  // The value whose scale and zero point this activation takes, because an operator only moves
  // elements between the two. Empty: it has its own.
  std::string shares;
  // The parameters if the plan gives them, only per tensor. Neither statistics nor `range` count
  // then.
  std::optional<formats::QParams> params;
  // Those for each index of the axis, or for each block in the order of the elements; only of
  // weights per axis or per block.
  std::vector<formats::QParams> channel_params;

  bool operator==(const IntegerTreatment&) const = default;
};

// Returns "per_tensor", "per_axis" or "per_block", and reads it back. The parser also takes
// "tensor", "channel" and "block"; it throws Error(kInvalidArgument) with the allowed words.
std::string_view GranularityName(Granularity granularity);
Granularity ParseGranularity(std::string_view word);

}  // namespace bitpress::plan
