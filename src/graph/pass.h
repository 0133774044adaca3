// Named steps that change a model, and their schedules. A pass is one value, in the file that does
// the work:
//
//   const Pass<Preparation> kRotate{
//       .name = "rotate",
//       .run = [](Model& model, Preparation& all) -> PassResult { ... },
//       .is_wanted = [](const Model&, const Preparation& all) { return all.block_size > 0; }};
//
// A schedule lists passes in their order, and all other lists of passes follow from it. A pass
// names itself in errors, checks in debug builds what it requires and ensures, and can be switched
// off by its name (`--disable-pass`), which tells from which of them a difference comes.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/model.h"

namespace bitpress::graph {

// The result of a pass. Reports show it if it has a label.
struct PassResult {
  PassResult(bool modified) : is_modified(modified) {}

  bool is_modified;
  std::string name = {};                                             // of the pass
  std::string label = {};                                            // "rotated"
  std::string text = {};                                             // "12 layers in blocks of 16"
  std::vector<std::pair<std::string, int64_t>> counts = {};          // the same in JSON
  std::vector<std::pair<std::string, std::string>> left_alone = {};  // nodes, with the reason
};

// `Context` is what the passes of one schedule share: options, what earlier ones found, reports.
template <typename Context>
struct Pass {
  std::string_view name;  // "insert-quantizers"
  PassResult (*run)(Model&, Context&);
  // Returns whether the options and the model call for the pass. Null: always.
  bool (*is_wanted)(const Model&, const Context&) = nullptr;
  // The contract, which debug builds check. Models are valid ONNX before and after besides.
  bool (*requires_before)(const Model&, const Context&) = nullptr;
  bool (*ensures_after)(const Model&, const Context&) = nullptr;
  // The words of the setting of a pass that runs only on request, which gives one of them: "a|b".
  std::string_view setting = {};
  bool can_be_off = true;  // false: later passes need it
  bool is_exact = true;    // false: it changes the precision of values, as its options ask for
};

using PassNames = std::set<std::string, std::less<>>;

// Throws Error(kInvalidArgument), with the nearest name, where one of `names` is not in `all`.
void CheckPassNames(const PassNames& names, std::span<const std::string_view> all);

// Runs one pass. Throws Error as it does, with the name in front of the message. The model is in an
// unspecified, but valid state then.
PassResult RunPass(Model& model, std::string_view name,
                   const std::function<PassResult(Model&)>& run,
                   const std::function<bool(const Model&)>& requires_before = {},
                   const std::function<bool(const Model&)>& ensures_after = {});

// Runs the passes of a schedule that are wanted and not switched off.
template <typename Context>
std::vector<PassResult> RunSchedule(Model& model, std::span<const Pass<Context>* const> schedule,
                                    Context& context, const PassNames& disabled) {
  std::vector<PassResult> results;
  for (const Pass<Context>* const pass : schedule) {
    const bool is_off = pass->can_be_off && disabled.contains(pass->name);
    if (is_off || (pass->is_wanted != nullptr && !pass->is_wanted(model, context))) continue;
    const auto bind = [&](auto* contract) -> std::function<bool(const Model&)> {
      if (contract == nullptr) return {};
      return [&context, contract](const Model& checked) { return contract(checked, context); };
    };
    results.push_back(RunPass(
        model, pass->name, [&](Model& changed) { return pass->run(changed, context); },
        bind(pass->requires_before), bind(pass->ensures_after)));
  }
  return results;
}

// Returns the names of the passes of a schedule that can be switched off.
template <typename Context>
std::vector<std::string_view> NamesOf(std::span<const Pass<Context>* const> schedule) {
  std::vector<std::string_view> names;
  for (const Pass<Context>* const pass : schedule) {
    if (pass->can_be_off) names.push_back(pass->name);
  }
  return names;
}

}  // namespace bitpress::graph
