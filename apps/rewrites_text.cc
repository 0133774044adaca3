#include "rewrites_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "base/text.h"

namespace bitpress::apps {
namespace {

std::string ListLeftAlone(const std::vector<std::pair<std::string, std::string>>& left_alone) {
  constexpr size_t kMost = 10;
  std::string text;
  for (size_t i = 0; i < std::min(kMost, left_alone.size()); ++i) {
    const auto& [node, reason] = left_alone[i];
    text += fmt::format("        not {}: {}\n", node, reason);
  }
  if (left_alone.size() > kMost) {
    text += fmt::format("        and {} more\n", left_alone.size() - kMost);
  }
  return text;
}

std::string DescribeFixedInputs(std::span<const std::string> names) {
  constexpr size_t kMost = 3;
  return fmt::format(
      "  constants:   {} inputs have values in the file and are constants now, which no caller can "
      "replace: {}{}\n",
      names.size(), Join(names.first(std::min(kMost, names.size())), ", "),
      names.size() > kMost ? ", ..." : "");
}

std::string DescribePreparation(const rewrite::RewriteReport& report) {
  std::string text;
  const rewrite::OptimizerReport& optimizer = report.optimizer;
  if (!optimizer.undone.empty()) {
    text += fmt::format("  pass optimize was undone: {}\n", optimizer.undone);
  }
  if (!optimizer.kept_computed.empty()) {
    text += fmt::format(
        "  computed at load as before, because they are larger than what they are computed from: "
        "{} constants, '{}'{}\n",
        optimizer.kept_computed.size(), optimizer.kept_computed.front(),
        optimizer.kept_computed.size() > 1 ? ", ..." : "");
  }
  if (report.num_in_blocked_layout > 0) {
    text += fmt::format(
        "  stay float: {} operators in the layout of one machine; quantize the model that ONNX "
        "Runtime did not optimize yet\n",
        report.num_in_blocked_layout);
  }
  return text;
}

// Says what became FLOAT16, and with `is_verbose` why operators keep FLOAT.
std::string DescribeNarrowed(const rewrite::NarrowReport& report, bool is_verbose) {
  if (report.was_half) return "  FLOAT16:     the network is FLOAT16 already and stays as it is\n";
  std::string text = fmt::format(
      "  FLOAT16:     {} operators and {} constants; inputs and outputs keep their type; {} "
      "operators "
      "keep FLOAT\n",
      report.num_half_nodes, report.constants.num_constants, report.kept.size());
  if (!is_verbose) return text;
  std::map<std::pair<std::string, std::string>, size_t> counts;
  for (const auto& [node, reason] : report.kept) {
    ++counts[{node.substr(0, node.find(' ')), reason}];
  }
  for (const auto& [kept, count] : counts) {
    text += fmt::format("  {:>5} {} in FLOAT: {}\n", count, kept.first, kept.second);
  }
  return text;
}

}  // namespace

std::string DescribeRewrites(const rewrite::RewriteReport& report, bool is_verbose) {
  std::string text = DescribePreparation(report);
  if (!report.fixed_inputs.empty()) text += DescribeFixedInputs(report.fixed_inputs);
  if (report.num_widened > 0) {
    text +=
        "  FLOAT16:     the network was made FLOAT first, because integers have FLOAT scales; "
        "inputs and outputs keep their type (--disable-pass widen-half leaves it)\n";
  }
  if (report.narrowed) text += DescribeNarrowed(*report.narrowed, is_verbose);
  for (const graph::PassResult& pass : report.passes) {
    if (pass.label.empty()) continue;
    text += fmt::format("  {:<12} {}; left alone {}\n", pass.label + ":", pass.text,
                        pass.left_alone.size());
    if (is_verbose) text += ListLeftAlone(pass.left_alone);
  }
  return text;
}

std::string DescribeScaled(std::string_view what, const rewrite::SmoothReport& report) {
  const auto num_folded = std::ranges::count_if(
      report.smoothed, [](const auto& activation) { return !activation.folded_into.empty(); });
  return fmt::format(
      "  {:<12} {} activations, {} folded into what comes before, {} by a Mul; left alone {}\n",
      what, report.smoothed.size(), num_folded, std::ssize(report.smoothed) - num_folded,
      report.left_alone.size());
}

std::string DescribeSmoothing(const rewrite::SmoothReport& report, bool is_verbose) {
  std::string text = DescribeScaled("smoothed:", report);
  if (!is_verbose) return text;
  if (!report.smoothed.empty()) {
    const auto [least, most] =
        std::ranges::minmax_element(report.smoothed, {}, &rewrite::SmoothedActivation::alpha);
    text += fmt::format("        alpha from {:.2f} to {:.2f}\n", least->alpha, most->alpha);
  }
  for (const auto& [value, reason] : report.left_alone) {
    text += fmt::format("        not '{}': {}\n", value, reason);
  }
  return text;
}

}  // namespace bitpress::apps
