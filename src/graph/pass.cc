#include "graph/pass.h"

#include <algorithm>
#include <chrono>
#include <utility>

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

void PassRunner::Run(Model& model, const Pass& pass) {
  PassReport& report = reports_.emplace_back();
  report.name = pass.name;
  report.is_disabled = IsDisabled(pass.name);
  if (report.is_disabled) return;
  BITPRESS_DCHECK(!pass.requires_before || pass.requires_before(model));
  const auto start = std::chrono::steady_clock::now();
  WithContext(fmt::format("pass {}", pass.name), [&] { report.is_modified = pass.run(model); });
  const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - start;
  report.time_ms = time.count();
#ifndef NDEBUG
  WithContext(fmt::format("after pass {}", pass.name), [&] { model.Check(); });
#endif
  BITPRESS_DCHECK(!pass.ensures_after || pass.ensures_after(model));
}

}  // namespace bitpress::graph
