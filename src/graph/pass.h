// Named steps that change a model. A pass names itself in errors, checks in debug builds what it
// requires and ensures, and can be switched off by its name (`--disable-pass`), which tells from
// which of them a difference comes.
#pragma once

#include <functional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/model.h"

namespace bitpress::graph {

struct Pass {
  std::string_view name;            // "insert-quantizers"
  std::function<bool(Model&)> run;  // returns whether it changed the model
  // The contract, which debug builds check. Models are valid ONNX before and after besides.
  std::function<bool(const Model&)> requires_before = {};
  std::function<bool(const Model&)> ensures_after = {};
};

// A pass as it ran.
struct PassReport {
  std::string name;
  bool is_modified = false;
  bool is_disabled = false;  // it was switched off, and did not run
  double time_ms = 0;
};

using PassNames = std::set<std::string, std::less<>>;

// Throws Error(kInvalidArgument), with the nearest name, where one of `names` is not in `all`.
void CheckPassNames(const PassNames& names, std::span<const std::string_view> all);

// Runs passes one after the other, but for those that are switched off.
class PassRunner {
 public:
  explicit PassRunner(PassNames disabled = {}) : disabled_(std::move(disabled)) {}

  bool IsDisabled(std::string_view name) const { return disabled_.contains(name); }

  // Throws Error as the pass does, with its name in front of the message. The model is in an
  // unspecified, but valid state then.
  void Run(Model& model, const Pass& pass);

  const std::vector<PassReport>& reports() const { return reports_; }

 private:
  PassNames disabled_;
  std::vector<PassReport> reports_;
};

}  // namespace bitpress::graph
