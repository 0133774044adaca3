// The words for this room's enumerations, as settings and JSON files have them.
#pragma once

#include <array>
#include <string_view>
#include <utility>

#include "base/words.h"
#include "plan/quant_config.h"

namespace bitpress::plan {

inline constexpr std::array<std::pair<std::string_view, bool>, 2> kTruths{
    {{"true", true}, {"false", false}}};
inline constexpr std::array<std::pair<std::string_view, Role>, 3> kRoles{
    {{"activation", Role::kActivation}, {"weight", Role::kWeight}, {"bias", Role::kBias}}};
inline constexpr std::array<std::pair<std::string_view, Placement>, 4> kPlacements{
    {{"default", Placement::kDefault},
     {"compute", Placement::kCompute},
     {"all", Placement::kAll},
     {"qdq", Placement::kQdq}}};
inline constexpr std::array<std::pair<std::string_view, Granularity>, 3> kGranularities{
    {{"per_tensor", Granularity::kPerTensor},
     {"per_axis", Granularity::kPerAxis},
     {"per_block", Granularity::kPerBlock}}};
inline constexpr std::array<std::pair<std::string_view, IntegerKernels>, 4> kIntegerKernels{
    {{"safe", IntegerKernels::kSafe},
     {"safe_int8", IntegerKernels::kSafeInt8},
     {"vnni", IntegerKernels::kVnni},
     {"reduce_range", IntegerKernels::kReduceRange}}};
inline constexpr std::array<std::pair<std::string_view, OperatorSet>, 4> kOperatorSets{
    {{"bitpress", OperatorSet::kBitpress},
     {"quark", OperatorSet::kQuark},
     {"cast", OperatorSet::kCast},
     {"quark_cast", OperatorSet::kQuarkCast}}};
inline constexpr std::array<std::pair<std::string_view, ops::ShortAxis>, 3> kShortAxes{
    {{"flatten", ops::ShortAxis::kFlatten},
     {"channels", ops::ShortAxis::kChannels},
     {"axis", ops::ShortAxis::kAxis}}};

}  // namespace bitpress::plan
