#include "target_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/text.h"

namespace bitpress::apps {
namespace {

std::string CountAll(const std::map<std::string, size_t>& counts) {
  std::vector<std::string> words;
  for (const auto& [name, count] : counts) words.push_back(fmt::format("{} {}", count, name));
  return Join(words, ", ");
}

std::string DescribeRun(const evaluate::TargetReport& report) {
  if (report.is_run) return fmt::format("  {}: loads and runs\n", report.runtime);
  if (!report.is_loaded) {
    return fmt::format("  {}: DOES NOT LOAD on this machine: {}\n", report.runtime, report.error);
  }
  return fmt::format("  {}: loads, but did not run {}: {}\n", report.runtime,
                     report.is_made_up ? "on a made-up sample (give --data to run a real one)"
                                       : "on the first sample",
                     report.error);
}

}  // namespace

std::string DescribeTarget(const evaluate::TargetReport& report, size_t max_nodes) {
  std::string text = DescribeRun(report);
  if (!report.library_operators.empty()) {
    text += fmt::format("  needs our library: {}\n", CountAll(report.library_operators));
  }
  if (report.num_integer_nodes() > 0) {
    text += fmt::format("  computed on integers: {}\n", CountAll(report.integer_operators));
  }
  const size_t num_shown = std::min(max_nodes, report.float_nodes.size());
  for (size_t i = 0; i < num_shown; ++i) {
    const evaluate::FloatNode& node = report.float_nodes[i];
    text += fmt::format("  computed in float: {} '{}': {}\n", node.op_type, node.name, node.reason);
  }
  if (num_shown < report.float_nodes.size()) {
    text += fmt::format("  and {} more in float: see `bitpress check`\n",
                        report.float_nodes.size() - num_shown);
  }
  return text;
}

}  // namespace bitpress::apps
