#include "graph/pass.h"

#include <algorithm>

#include "base/check.h"
#include "base/error.h"
#include "base/text.h"

namespace bitpress::graph {

void CheckPassNames(const PassNames& names, std::span<const std::string_view> all) {
  const std::vector<std::string> known(all.begin(), all.end());
  for (const std::string& name : names) {
    if (std::ranges::find(known, name) != known.end()) continue;
    Fail(ErrorCode::kInvalidArgument, "there is no pass '{}'{}; the passes are {}", name,
         DidYouMean(name, known), fmt::join(known, ", "));
  }
}

PassResult RunPass(Model& model, std::string_view name,
                   const std::function<PassResult(Model&)>& run,
                   const std::function<bool(const Model&)>& requires_before,
                   const std::function<bool(const Model&)>& ensures_after) {
  BITPRESS_DCHECK(!requires_before || requires_before(model));
  PassResult result = false;
  WithContext(fmt::format("pass {}", name), [&] { result = run(model); });
  result.name = name;
#ifndef NDEBUG
  WithContext(fmt::format("after pass {}", name), [&] { model.Check(); });
#endif
  BITPRESS_DCHECK(!ensures_after || ensures_after(model));
  return result;
}

}  // namespace bitpress::graph
