// The words for this room's enumerations, in the order of help texts, and the two ways between word
// and value.
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "plan/quant_config.h"

namespace bitpress::plan {

template <typename T>
using Words = std::span<const std::pair<std::string_view, T>>;

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
inline constexpr std::array<std::pair<std::string_view, OperatorSet>, 3> kOperatorSets{
    {{"bitpress", OperatorSet::kBitpress},
     {"quark", OperatorSet::kQuark},
     {"cast", OperatorSet::kCast}}};
inline constexpr std::array<std::pair<std::string_view, ops::ShortAxis>, 3> kShortAxes{
    {{"flatten", ops::ShortAxis::kFlatten},
     {"channels", ops::ShortAxis::kChannels},
     {"axis", ops::ShortAxis::kAxis}}};

template <typename T>
std::string JoinWords(Words<T> words) {
  std::vector<std::string> names;
  for (const auto& [name, value] : words) names.emplace_back(name);
  return Join(names, "|");
}

template <typename T>
T ParseWord(Words<T> words, std::string_view word) {
  std::vector<std::string> names;
  for (const auto& [name, value] : words) {
    if (name == word) return value;
    names.emplace_back(name);
  }
  Fail(ErrorCode::kInvalidArgument, "'{}' is not one of {}{}", word, JoinWords(words),
       DidYouMean(word, names));
}

template <typename T>
std::string_view WordOf(Words<T> words, T wanted) {
  for (const auto& [name, value] : words) {
    if (value == wanted) return name;
  }
  return "?";
}

}  // namespace bitpress::plan
