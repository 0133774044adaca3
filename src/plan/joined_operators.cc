#include "plan/joined_operators.h"

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "base/text.h"
#include "ops/following_limits.h"

namespace bitpress::plan {
namespace {

// Returns the reader's word in pairs besides its type: Relu6, Relu1, or "".
std::string_view LimitedWord(const graph::Model& model, const std::string& value) {
  const std::optional<ops::FollowingLimits> limits = ops::LimitsBehind(model, value);
  if (!limits || limits->node.op_type() != "Clip" || limits->least != 0) return "";
  return limits->largest == 6 ? "Relu6" : limits->largest == 1 ? "Relu1" : "";
}

}  // namespace

void CheckJoinedPair(std::string_view pair) {
  const std::vector<std::string> types = Split(pair, '>');
  if (types.size() == 2 && !Trim(types[0]).empty() && !Trim(types[1]).empty()) return;
  Fail(ErrorCode::kInvalidArgument, "'{}' is not of the form OP_TYPE>OP_TYPE", pair);
}

bool IsBetween(const graph::Model& model, const graph::Node& node, size_t input,
               std::span<const std::string> pairs) {
  if (pairs.empty()) return false;
  const std::string& value = node.input(input);
  const std::optional<graph::Node> producer = model.Producer(value);
  if (!producer || !model.OnlyUse(value)) return false;
  const std::string_view limited = LimitedWord(model, value);
  return std::ranges::any_of(pairs, [&](const std::string& pair) {
    const std::vector<std::string> types = Split(pair, '>');
    const std::string_view reader = Trim(types[1]);
    return Trim(types[0]) == producer->op_type() &&
           (reader == node.op_type() || (!limited.empty() && reader == limited));
  });
}

}  // namespace bitpress::plan
