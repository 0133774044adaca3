#include "target_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string_view>
#include <vector>

#include "base/text.h"
#include "tasks/verdict.h"

namespace bitpress::apps {
namespace {

std::string DescribeRun(const deploy::TargetReport& report) {
  if (report.is_run) {
    return fmt::format("  {}: loads and runs{}{}\n", report.runtime,
                       report.num_decoded > 0 ? ", " : "", tasks::DecodedText(report));
  }
  if (!report.is_loaded) {
    return fmt::format("  {}: DOES NOT LOAD on this machine: {}\n", report.runtime, report.error);
  }
  return fmt::format("  {}: loads, but did not run {}: {}\n", report.runtime,
                     report.is_made_up ? "on a made-up sample (give --data to run a real one)"
                                       : "on the first sample",
                     report.error);
}

std::string DescribeOutput(const deploy::OutputCloseness& output) {
  // The mean of the samples says little of one that is so much farther off.
  constexpr double kFarFromMeanDb = 10;
  if (output.num_lost > 0) return fmt::format("'{}' NaN or infinite", output.name);
  std::string text = fmt::format("'{}' ", output.name);
  text += std::isinf(output.sqnr_db) && output.sqnr_db > 0
              ? "the same"
              : fmt::format("{:.1f} dB", output.sqnr_db);
  if (output.worst_db < output.sqnr_db - kFarFromMeanDb) {
    text += fmt::format(" (worst sample {:.1f})", output.worst_db);
  }
  return text + (output.varies ? "" : " (which does not vary)");
}

std::string DescribeCloseness(const deploy::Closeness& closeness) {
  if (!closeness.why_not.empty()) {
    return fmt::format("  outputs were not compared with the given model's: {}\n",
                       closeness.why_not);
  }
  std::vector<deploy::OutputCloseness> outputs = closeness.outputs;
  std::ranges::stable_sort(outputs, {}, &deploy::OutputCloseness::sqnr_db);
  constexpr size_t kMost = 4;
  std::vector<std::string> words;
  for (size_t i = 0; i < std::min(kMost, outputs.size()); ++i) {
    words.push_back(DescribeOutput(outputs[i]));
  }
  if (outputs.size() > kMost) words.push_back(fmt::format("{} more", outputs.size() - kMost));
  if (words.empty()) return "";
  return fmt::format(
      "  closeness to the given model on the first {}: {}\n",
      closeness.num_runs == 1 ? "sample" : fmt::format("{} samples", closeness.num_runs),
      Join(words, ", "));
}

}  // namespace

std::string DescribeProcessors(const evaluate::ProcessorReport& report, size_t max_nodes,
                               std::optional<double> of_model) {
  if (report.nodes.empty()) return "";
  std::string text = "  x86 without VNNI: " + evaluate::DescribeSaturation(report);
  text += report.sqnr_db ? "\n" : " (give --data)\n";
  if (report.is_harmful(of_model))
    text += fmt::format("  WARNING: {}\n", evaluate::kHarmfulWarning);
  for (const std::string& what : report.not_simulated) {
    text += fmt::format("  not simulated: {}\n", what);
  }
  std::vector<processors::SaturatingNode> nodes = report.nodes;
  std::ranges::stable_sort(nodes, std::greater(), &processors::SaturatingNode::num_pairs);
  for (size_t i = 0; i < std::min(max_nodes, nodes.size()); ++i) {
    text += fmt::format("    {} '{}': {} of {} pairs of weights\n", nodes[i].op_type, nodes[i].name,
                        nodes[i].num_pairs, nodes[i].num_all_pairs);
  }
  return text;
}

std::string DescribeDynamicConvolutions(size_t count) {
  if (count == 0) return "";
  return fmt::format(
      "slow: {} of dynamic ranges, which ONNX Runtime computes several times more slowly than "
      "float "
      "ones; use static ranges (--config INT8 --data DIR), or leave them float (--set "
      "exclude_op_types=Conv)",
      WithNoun(count, "convolution"));
}

std::string DescribeTarget(const deploy::TargetReport& report, size_t max_float_nodes,
                           size_t max_saturating_nodes) {
  std::string text = DescribeRun(report);
  if (!report.checker_error.empty()) {
    text += fmt::format("  WARNING: {}\n", report.checker_error);
  }
  if (report.closeness) text += DescribeCloseness(*report.closeness);
  if (report.is_run && !report.is_described) {
    text += "  its operators were not counted, because it is large: see `bitpress check`\n";
  }
  if (!report.library_operators.empty()) {
    text += fmt::format("  needs our library: {}\n", CountAll(report.library_operators));
  }
  if (report.num_integer_nodes() > 0) {
    text += fmt::format("  computed on integers: {}\n", CountAll(report.integer_operators));
  }
  if (const auto found = report.integer_operators.find("ConvInteger");
      found != report.integer_operators.end()) {
    text += fmt::format("  {}\n", DescribeDynamicConvolutions(found->second));
  }
  text += DescribeProcessors(report.processor, max_saturating_nodes, report.worst_db());
  const size_t num_shown = std::min(max_float_nodes, report.float_nodes.size());
  for (size_t i = 0; i < num_shown; ++i) {
    const deploy::FloatNode& node = report.float_nodes[i];
    text += fmt::format("  computed in float: {} '{}': {}\n", node.op_type, node.name, node.reason);
  }
  if (num_shown < report.float_nodes.size()) {
    text += fmt::format("  and {} more in float: see `bitpress check`\n",
                        report.float_nodes.size() - num_shown);
  }
  return text;
}

}  // namespace bitpress::apps
