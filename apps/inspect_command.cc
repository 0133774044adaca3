// bitpress inspect: shows the content of a model or a calibration file.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/paths.h"
#include "base/text.h"
#include "command.h"
#include "evaluate/other_processor.h"
#include "evaluation_text.h"
#include "json_option.h"
#include "moments_text.h"
#include "sample_options.h"
#include "tasks/calibrate.h"
#include "tasks/evaluate.h"
#include "tasks/inspect.h"
#include "tasks/json_file.h"
#include "tasks/tuning.h"

namespace bitpress::apps {
namespace {

// Returns "FLOAT [N, 3, 224, 224]".
std::string TypeAndShape(const graph::ValueInfo& info) {
  std::string text(DataTypeName(info.type));
  if (!info.has_shape) return text + " of unknown shape";
  std::vector<std::string> dims;
  for (const graph::Dimension& dim : info.shape) {
    dims.push_back(dim.value >= 0       ? std::to_string(dim.value)
                   : dim.symbol.empty() ? "?"
                                        : dim.symbol);
  }
  return fmt::format("{} [{}]", text, Join(dims, ", "));
}

void AppendCounts(std::string& text, std::string_view title,
                  const std::map<std::string, size_t>& counts) {
  if (counts.empty()) return;
  text += fmt::format("{}:\n", title);
  for (const auto& [name, count] : counts) text += fmt::format("  {:>6} {}\n", count, name);
}

double BitsEach(uint64_t num_bytes, int64_t num_elements) {
  return num_elements == 0 ? 0
                           : 8 * static_cast<double>(num_bytes) / static_cast<double>(num_elements);
}

// Returns "; attn_q in layer 3", the roles in which a constant is read, or "".
std::string PlaceText(const tasks::InspectReport& report, const std::string& name) {
  const auto found = report.places.find(name);
  if (found == report.places.end()) return "";
  std::vector<std::string> words;
  for (const ops::LayerPlace& place : found->second) {
    words.push_back(std::string(ops::LayerRoleName(place.role)) +
                    (place.layer ? fmt::format(" in layer {}", *place.layer) : ""));
  }
  return "; " + Join(words, ", ");
}

// Lists the totals of constants that are alike, and each constant if asked.
std::string ListConstants(const tasks::InspectReport& report, bool with_tensors) {
  const std::vector<weights::StoredConstant>& constants = report.constants;
  struct Sum {
    size_t num_tensors = 0;
    int64_t num_elements = 0;
    uint64_t num_bytes = 0;
  };
  std::map<std::string, Sum> sums;
  Sum all;
  for (const weights::StoredConstant& constant : constants) {
    // The part of a reason from " '" on names a single node.
    const std::string reason = constant.reason.substr(0, constant.reason.find(" '"));
    const std::string kind =
        reason.empty() ? constant.format : constant.format + " (" + reason + ")";
    for (Sum* sum : {&sums[kind], &all}) {
      ++sum->num_tensors;
      sum->num_elements += constant.num_elements();
      sum->num_bytes += constant.num_bytes;
    }
  }
  if (constants.empty()) return "";
  std::string text = "constants:\n";
  for (const auto& [kind, sum] : sums) {
    text += fmt::format("  {:>6} {}: {} elements, {}, {:.2f} bits each\n", sum.num_tensors, kind,
                        sum.num_elements, HumanBytes(sum.num_bytes),
                        BitsEach(sum.num_bytes, sum.num_elements));
  }
  text += fmt::format("  {:>6} in all: {} elements, {}, {:.2f} bits each\n", all.num_tensors,
                      all.num_elements, HumanBytes(all.num_bytes),
                      BitsEach(all.num_bytes, all.num_elements));
  if (!with_tensors) return text;
  text += "tensors:\n";
  for (const weights::StoredConstant& constant : constants) {
    text += fmt::format(
        "  {} {} [{}]: {}, {:.2f} bits each{}{}{}\n", constant.name, constant.format,
        fmt::join(constant.dims, ", "), HumanBytes(constant.num_bytes),
        BitsEach(constant.num_bytes, constant.num_elements()), PlaceText(report, constant.name),
        constant.reason.empty() ? "" : "; ", constant.reason);
  }
  return text;
}

std::string InspectionText(const std::string& path, const tasks::InspectReport& report,
                           bool with_tensors) {
  std::string text = fmt::format("{}: {}, IR version {}\n", path, HumanBytes(report.file_bytes),
                                 report.ir_version);
  text += "operator sets:";
  for (const auto& [domain, version] : report.opset_imports) {
    text += fmt::format(" {} {}", domain.empty() ? "ai.onnx" : domain, version);
  }
  text += "\n";
  for (const tasks::NamedValue& value : report.inputs) {
    text += fmt::format("input:  {} {}\n", value.name, TypeAndShape(value.info));
  }
  for (const tasks::NamedValue& value : report.outputs) {
    text += fmt::format("output: {} {}\n", value.name, TypeAndShape(value.info));
  }
  AppendCounts(text, "operators", report.operators);
  AppendCounts(text, "quantizers among them", report.quantizers);
  for (const std::string& name : report.functions) text += fmt::format("function: {}\n", name);
  text += ListConstants(report, with_tensors);
  if (!report.saturating_nodes.empty()) {
    evaluate::ProcessorReport processors;
    processors.nodes = report.saturating_nodes;
    text += fmt::format("x86 without VNNI: {} (bitpress check --data does)\n",
                        evaluate::DescribeSaturation(processors));
    for (const processors::SaturatingNode& node : report.saturating_nodes) {
      if (!with_tensors) break;
      text += fmt::format("  {} '{}': {} of {} pairs of weights\n", node.op_type, node.name,
                          node.num_pairs, node.num_all_pairs);
    }
  }
  for (const auto& [key, value] : report.metadata) {
    if (key == "bitpress.unpacked") continue;  // the constants show it
    text += fmt::format("metadata: {} = {}\n", key, Replaced(value, "\n", "\\n"));
  }
  return text;
}

// Returns "-1.234", or "-" for a tensor without finite values.
std::string Number(const calibrate::TensorStatistics& tensor, double value) {
  return tensor.is_empty() ? "-" : fmt::format("{:.4g}", value);
}

// Returns "384 of axis -1, magnitudes up to 0.31 to 27.9", with the least and the largest of the
// channels' maxima. Returns "" if there are no channels.
std::string DescribeChannels(const calibrate::TensorStatistics& tensor) {
  const auto& axis = tensor.axis_statistics();
  if (!axis || axis->slices.empty()) return "";
  const auto [least, most] =
      std::ranges::minmax(axis->slices, {}, [](const auto& slice) { return slice.AbsMax(); });
  return fmt::format("{} of axis {}, magnitudes up to {:.4g} to {:.4g}", axis->slices.size(),
                     axis->axis, least.AbsMax(), most.AbsMax());
}

// Lists the channels, one a line.
std::string ListChannels(const calibrate::TensorStatistics& tensor) {
  std::string text;
  if (!tensor.axis_statistics()) return text;
  size_t index = 0;
  for (const calibrate::SliceStatistics& slice : tensor.axis_statistics()->slices) {
    if (slice.extremes.is_empty()) {
      text += fmt::format("  [{}] no finite element\n", index++);
      continue;
    }
    text +=
        fmt::format("  [{}] {} elements, {:.4g} to {:.4g}, mean {:.4g}, mean square {:.4g}\n",
                    index++, slice.num_finite, slice.extremes.min, slice.extremes.max,
                    slice.sum.Mean(slice.num_finite), slice.sum_of_squares.Mean(slice.num_finite));
  }
  return text;
}

// Lists the tensors, one a line, and the channels of each if asked.
std::string InspectionText(const std::string& path, const calibrate::CalibrationTable& table,
                           bool with_channels) {
  size_t width = 5;
  for (const auto& [name, tensor] : table.tensors) width = std::max(width, name.size());
  std::string text = fmt::format("{}: statistics of '{}' ({:016x}), {} samples\n", path,
                                 table.model_name, table.model_fingerprint, table.num_samples);
  text += DescribeLeftOut(table.left_out);
  const bool has_channels = std::ranges::any_of(
      table.tensors, [](const auto& entry) { return entry.second.axis_statistics().has_value(); });
  constexpr const char* kRow = "{:<{}} {:>14} {:>11} {:>11} {:>11} {:>11} {:>6} {:>9}{}\n";
  text += fmt::format(fmt::runtime(kRow), "value", width, "elements", "min", "max", "mean", "std",
                      "zeros", "NaN, inf", has_channels ? "  channels" : "");
  for (const auto& [name, tensor] : table.tensors) {
    const bool has_range = !tensor.is_empty();
    text += fmt::format(
        fmt::runtime(kRow), name, width, tensor.num_elements(),
        Number(tensor, has_range ? tensor.min() : 0), Number(tensor, has_range ? tensor.max() : 0),
        Number(tensor, has_range ? tensor.Mean() : 0),
        Number(tensor, has_range ? tensor.StandardDeviation() : 0),
        tensor.num_elements() == 0
            ? "-"
            : fmt::format("{:.0f} %", 100 * static_cast<double>(tensor.num_zeros()) /
                                          static_cast<double>(tensor.num_elements())),
        tensor.num_elements() - tensor.num_finite(),
        has_channels ? "  " + DescribeChannels(tensor) : "");
    if (with_channels) text += ListChannels(tensor);
  }
  return text;
}

}  // namespace

void AddInspectCommand(CLI::App& program) {
  struct Options {
    std::string model;
    bool with_tensors = false;
    JsonOption json;
  };
  CLI::App* const command = program.add_subcommand(
      "inspect",
      "Show a model's inputs, outputs, operators, formats and sizes, or what a calibration file or "
      "an evaluation file holds.");
  const auto options = std::make_shared<Options>();
  command
      ->add_option("model", options->model,
                   "the ONNX model, a calibration file (.bpc), an evaluation file (.bpe) or a file "
                   "of moments (.bpm)")
      ->required()
      ->type_name("FILE");
  command->add_flag("--tensors", options->with_tensors,
                    "list every constant with its format, shape and bytes, and the reason if it "
                    "is float; for a calibration file, list every channel");
  options->json.Add(*command, "all of it, every constant included,");
  command->footer(
      "Examples:\n  bitpress inspect model.onnx\n  bitpress inspect quantized.onnx --tensors\n"
      "  bitpress inspect stats.bpc\n"
      "  bitpress inspect quantized.onnx --json - | jq .operators\n");
  command->callback([options] {
    tasks::JsonFile file(options->json.file());
    const auto show = [&](const auto& report) {
      file.Write(tasks::ToJson(report));
      options->json.Print(InspectionText(options->model, report, options->with_tensors),
                          [&] { return tasks::ToJson(report); });
    };
    const std::filesystem::path model = PathOf(options->model);
    if (tasks::IsCalibration(model)) {
      show(tasks::ReadCalibration(model));
    } else if (tasks::IsMoments(model)) {
      const auto summary = tasks::ReadMoments(model);
      file.Write(ToJson(summary));
      options->json.Print(ToText(options->model, summary, true), [&] { return ToJson(summary); });
    } else if (tasks::IsEvaluation(model)) {
      const auto report = evaluate::ReportOf(tasks::ReadEvaluation(model));
      file.Write(evaluate::ToJson(report));
      options->json.Print(ToText(report), [&] { return evaluate::ToJson(report); });
    } else {
      show(tasks::Inspect(model));
    }
  });
}

}  // namespace bitpress::apps
