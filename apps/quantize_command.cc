// bitpress quantize: writes the quantized model.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/text.h"
#include "command.h"
#include "config_options.h"
#include "pipeline_report.h"
#include "progress_bar.h"
#include "target_text.h"

namespace bitpress::apps {
namespace {

enum class Check { kAuto, kOn, kOff };

struct Options {
  std::string model;
  std::string output;
  std::string plan_file;
  ConfigOptions config;
  transform::ApplyOptions apply;
  std::string calibration;
  std::string data;
  std::string labels;
  std::string image;
  std::string page;
  size_t num_samples = 0;
  bool is_external = false;
  Check check = Check::kAuto;
  size_t num_threads = 0;
};

// "mx6 5, float 1", for the rows of one role.
std::string CountFormats(const plan::QuantPlan& plan, plan::Role role) {
  std::map<std::string, size_t> counts;
  for (const plan::TensorPlan& row : plan.tensors) {
    if (row.role == role) ++counts[row.is_quantized() ? row.format : "float"];
  }
  std::vector<std::string> words;
  for (const auto& [format, count] : counts) words.push_back(fmt::format("{} {}", count, format));
  return words.empty() ? "none" : Join(words, ", ");
}

// "    12 float: the reason" for each of the reasons, most frequent first.
std::string ListCounted(std::string_view what, const std::vector<std::string>& reasons) {
  std::map<std::string, size_t> counts;
  // Without the name of a node the reasons of many tensors are one.
  for (const std::string& reason : reasons) ++counts[reason.substr(0, reason.find(" '"))];
  std::vector<std::pair<size_t, std::string>> sorted;
  for (const auto& [reason, count] : counts) sorted.emplace_back(count, reason);
  std::ranges::stable_sort(sorted, std::ranges::greater(), &std::pair<size_t, std::string>::first);
  constexpr size_t kMost = 5;
  std::string text;
  for (size_t i = 0; i < std::min(kMost, sorted.size()); ++i) {
    text += fmt::format("  {:>5} {}: {}\n", sorted[i].first, what, sorted[i].second);
  }
  if (sorted.size() > kMost) text += "        and more: see `bitpress plan`\n";
  return text;
}

// Why tensors other than biases stay float.
std::string ListReasons(const plan::QuantPlan& plan) {
  std::vector<std::string> reasons;
  for (const plan::TensorPlan& row : plan.tensors) {
    if (!row.is_quantized() && row.role != plan::Role::kBias) reasons.push_back(row.reason);
  }
  return ListCounted("float", reasons);
}

// How many nodes a pass rewrote, and what became of the others.
template <typename Rewritten>
std::string DescribeRewritten(std::string_view done, std::string_view not_done,
                              const Rewritten& rewritten) {
  std::vector<std::string> reasons;
  for (const auto& [name, reason] : rewritten.omissions) reasons.push_back(reason);
  return fmt::format("  {:>5} nodes {}\n", rewritten.num_nodes, done) +
         ListCounted(not_done, reasons);
}

// "26 pairs of layers, 24 of them with a Min behind a Clip; 20 left alone", and why.
std::string DescribeEqualization(const transform::EqualizeReport& report) {
  const auto num_bounded =
      std::ranges::count_if(report.pairs, [](const auto& pair) { return pair.is_bounded; });
  std::string text = fmt::format(
      "  equalized:   {} pairs of layers, {} of them with a limit for each channel; left alone "
      "{}\n",
      report.pairs.size(), num_bounded, report.left_alone.size());
  constexpr size_t kMost = 10;
  for (size_t i = 0; i < std::min(kMost, report.left_alone.size()); ++i) {
    const auto& [node, reason] = report.left_alone[i];
    text += fmt::format("        not {}: {}\n", node, reason);
  }
  if (report.left_alone.size() > kMost) {
    text += fmt::format("        and {} more\n", report.left_alone.size() - kMost);
  }
  return text;
}

// How many activations were smoothed, and where their factors went.
std::string DescribeScaled(std::string_view what, const transform::SmoothReport& report) {
  const auto num_folded = std::ranges::count_if(
      report.smoothed, [](const auto& activation) { return !activation.folded_into.empty(); });
  return fmt::format(
      "  {:<12} {} activations, {} folded into what comes before, {} by a Mul; left alone {}\n",
      what, report.smoothed.size(), num_folded, std::ssize(report.smoothed) - num_folded,
      report.left_alone.size());
}

std::string DescribeSmoothing(const transform::SmoothReport& report) {
  std::string text = DescribeScaled("smoothed:", report);
  if (!report.smoothed.empty()) {
    const auto [least, most] =
        std::ranges::minmax_element(report.smoothed, {}, &transform::SmoothedActivation::alpha);
    text += fmt::format("        alpha from {:.2f} to {:.2f}\n", least->alpha, most->alpha);
  }
  for (const auto& [value, reason] : report.left_alone) {
    text += fmt::format("        not '{}': {}\n", value, reason);
  }
  return text;
}

using Weights = std::vector<std::shared_ptr<const transform::WeightStatistics>>;

// How many bytes and bits the quantized weights take, and the one that lost most.
std::string DescribeWeights(const Weights& weights) {
  if (weights.empty()) return "";
  uint64_t num_bytes = 0;
  int64_t num_elements = 0;
  for (const auto& weight : weights) {
    num_bytes += weight->stored_bytes;
    num_elements += weight->num_elements;
  }
  const auto& worst =
      **std::ranges::min_element(weights, {}, [](const auto& weight) { return weight->sqnr_db; });
  std::string text =
      fmt::format("  quantized constants: {}, {:.2f} bits each", HumanBytes(num_bytes),
                  8 * static_cast<double>(num_bytes) / static_cast<double>(num_elements));
  // What was fine-tuned is a value of its format already.
  if (std::isfinite(worst.sqnr_db)) {
    text += fmt::format("; least accurate: '{}', SQNR {:.1f} dB", worst.value, worst.sqnr_db);
  }
  return text + "\n";
}

// How much nearer to the float model's the outputs of the layers came, and which stayed behind.
std::string DescribeFinetuning(const finetune::FinetuneReport& report) {
  if (report.layers.empty() && report.left_out.empty()) return "";
  size_t num_tuned = 0;
  double log_before = 0;
  double log_after = 0;
  std::string notes;
  for (const finetune::LayerReport& layer : report.layers) {
    if (!layer.note.empty()) {
      notes += fmt::format("  {} '{}': {}: {}\n", layer.op_type, layer.node,
                           layer.is_tuned ? "tuned" : "not tuned", layer.note);
    }
    if (!layer.is_tuned) continue;
    ++num_tuned;
    log_before += std::log10(layer.error_before);
    log_after += std::log10(std::max(layer.error_after, 1e-12));
  }
  std::string text = fmt::format("  fine-tuned:  {} of {} layers", num_tuned,
                                 report.layers.size() + report.left_out.size());
  if (num_tuned > 0) {
    const auto count = static_cast<double>(num_tuned);
    text += fmt::format(", SQNR of their outputs on held-back samples {:.1f} -> {:.1f} dB",
                        -10 * log_before / count, -10 * log_after / count);
  }
  if (report.num_resumed > 0) {
    text += fmt::format(" ({} were in the journal of a stopped run)", report.num_resumed);
  }
  text += "\n" + notes;
  for (const auto& [weight, reason] : report.left_out) {
    text += fmt::format("  not tuned: '{}': {}\n", weight, reason);
  }
  return text;
}

std::string Summarize(const Options& options, const pipeline::QuantizeReport& report) {
  const plan::QuantPlan& plan = report.plan;
  std::string text = fmt::format("{}: {} ({} before)\n", options.output,
                                 HumanBytes(report.output_bytes), HumanBytes(report.input_bytes));
  text += fmt::format("  activations: {}\n", CountFormats(plan, plan::Role::kActivation));
  text += fmt::format("  weights:     {}\n", CountFormats(plan, plan::Role::kWeight));
  text += fmt::format("  biases:      {}\n", CountFormats(plan, plan::Role::kBias));
  text += ListReasons(plan);
  if (report.equalized) text += DescribeEqualization(*report.equalized);
  if (report.smoothed) text += DescribeSmoothing(*report.smoothed);
  for (const transform::PortableFunctions::Omission& omission :
       report.transform.portable.omissions) {
    text += fmt::format("  needs our library: {}: {}\n", omission.op_type, omission.reason);
  }
  if (options.apply.target == transform::Target::kOnnxRuntime) {
    text += DescribeRewritten("compute from codes of weights", "decoded at load",
                              report.transform.native);
  }
  if (options.apply.form == transform::IntegerForm::kQOperator) {
    text += DescribeRewritten("are operators on integers", "between Q and DQ as ever",
                              report.transform.integer);
  }
  for (const auto& [value, reason] : report.left_float) {
    text += fmt::format("  left float: '{}': {}\n", value, reason);
  }
  if (!report.finetune.scaled.smoothed.empty() || !report.finetune.scaled.left_alone.empty()) {
    text += DescribeScaled("awq:", report.finetune.scaled);
  }
  text += DescribeFinetuning(report.finetune);
  text += DescribeWeights(report.transform.weights);
  constexpr size_t kMostNodes = 5;
  return report.target ? text + DescribeTarget(*report.target, kMostNodes) : text;
}

void CheckPlanAgrees(const Options& options) {
  if (options.config.HasChanges()) {
    throw CLI::ValidationError(
        "--plan holds the decisions already; --weights, --activations, --set and --rule cannot "
        "change them (edit the plan, or make another one)");
  }
  if (options.config.config.empty()) return;
  const std::string wanted = options.config.Resolve().name;
  const std::string found = pipeline::ReadPlan(options.plan_file).config.name;
  if (wanted != found) {
    Fail(ErrorCode::kInvalidArgument, "plan '{}' was made with --config {}, not {}",
         options.plan_file, found, wanted);
  }
}

// The page about the model that was just written.
void WritePage(const Options& options, const pipeline::QuantizeOptions& request,
               const pipeline::QuantizeReport& quantized) {
  pipeline::ReportOptions page;
  page.model = options.output;
  page.reference = options.model;
  page.output = options.page;
  page.data = options.data;
  page.labels_csv = options.labels;
  page.image = options.image;
  page.num_samples = options.num_samples;
  page.preparation = request.preparation;
  page.quantized = &quantized;
  page.commands = {{"Quantize, and this page", CommandLine()}};
  page.num_threads = options.num_threads;
  page.progress = request.progress;
  pipeline::WriteReport(page);
}

void Run(const Options& options) {
  if (!options.page.empty()) {
    std::error_code error;
    if (std::filesystem::equivalent(options.model, options.output, error)) {
      throw CLI::ValidationError(
          "--report compares with the float model, which -o would replace: write to another file");
    }
    const AtomicFile probe(options.page);  // before any work
  }
  std::vector<std::string> notices;
  pipeline::QuantizeOptions request;
  request.model = options.model;
  request.output = options.output;
  request.plan_file = options.plan_file;
  request.preparation = options.config.preparation();
  request.calibration = options.calibration;
  request.data = options.data;
  request.labels_csv = options.labels;
  request.image = options.image;
  request.num_samples = options.num_samples;
  request.apply = options.apply;
  request.is_external = options.is_external;
  request.num_threads = options.num_threads;
  if (options.check != Check::kAuto) request.is_checked = options.check == Check::kOn;
  if (options.plan_file.empty()) {
    if (options.config.config.empty()) {
      throw CLI::RequiredError("--config NAME or --plan FILE");
    }
    request.config = options.config.Resolve(&notices);
  } else {
    CheckPlanAgrees(options);
  }
  if (!options.calibration.empty() && !options.data.empty() && options.plan_file.empty() &&
      request.config.finetune.empty()) {
    throw CLI::ValidationError(
        "--calibration has the statistics already; --data besides it is for fine-tuning only");
  }
  pipeline::QuantizeReport report;
  {
    ProgressBar bar;
    request.progress = bar.Sink();
    report = pipeline::Quantize(request);
    if (!options.page.empty()) WritePage(options, request, report);
  }
  std::string text = Summarize(options, report);
  if (!options.page.empty()) text += fmt::format("  report: {}\n", options.page);
  for (const std::string& notice : notices) text += fmt::format("  note: {}\n", notice);
  Print(text);
}

}  // namespace

void AddQuantizeCommand(CLI::App& program) {
  CLI::App* const command = program.add_subcommand("quantize", "Write a quantized model.");
  const auto options = std::make_shared<Options>();
  command->add_option("model", options->model, "the float ONNX model")
      ->required()
      ->type_name("MODEL");
  command
      ->add_option("-o,--output", options->output,
                   "the file to write; may be the model itself (it is replaced at the end)")
      ->required()
      ->type_name("FILE");
  AddConfigOptions(*command, options->config);
  command
      ->add_option("--plan", options->plan_file,
                   "take the decisions from this file of `bitpress plan`")
      ->type_name("FILE");
  command
      ->add_option("--calibration", options->calibration,
                   "integers: statistics of the activations, a file of `bitpress calibrate`")
      ->type_name("FILE");
  AddSampleOptions(*command, options->data, options->labels, options->image, options->num_samples)
      ->description(
          "or gather them from these samples: a folder of photos, of .npy or .npz arrays, or of "
          "TensorProto .pb files");
  const std::map<std::string, transform::Storage> storages{
      {"packed", transform::Storage::kPacked}, {"simulated", transform::Storage::kSimulated}};
  command
      ->add_option("--storage", options->apply.storage,
                   "packed (default): codes and scales at their real width; simulated: float32 "
                   "that holds the quantized values")
      ->transform(CLI::CheckedTransformer(storages).description(""))
      ->type_name("packed|simulated");
  const std::map<std::string, transform::Target> targets{
      {"portable", transform::Target::kPortable}, {"onnxruntime", transform::Target::kOnnxRuntime}};
  command
      ->add_option("--target", options->apply.target,
                   "portable (default): standard operators; onnxruntime: integer weights in blocks "
                   "as MatMulNBits and GatherBlockQuantized, which compute from the codes")
      ->transform(CLI::CheckedTransformer(targets).description(""))
      ->type_name("portable|onnxruntime");
  const std::map<std::string, transform::AccuracyLevel> levels{
      {"1", transform::AccuracyLevel::kFloat}, {"4", transform::AccuracyLevel::kInt8}};
  command
      ->add_option("--accuracy-level", options->apply.accuracy_level,
                   "of MatMulNBits: 4 (default): activations rounded to 8 bits at run time; 1: "
                   "products of floats, weights of 4 bits only")
      ->transform(CLI::CheckedTransformer(levels).description(""))
      ->type_name("1|4");
  const std::map<std::string, transform::IntegerForm> forms{
      {"qdq", transform::IntegerForm::kQdq}, {"qoperator", transform::IntegerForm::kQOperator}};
  command
      ->add_option("--form", options->apply.form,
                   "integers: qdq (default): float operators between DequantizeLinear and "
                   "QuantizeLinear; qoperator: QLinearConv, QLinearMatMul, QGemm and their kin")
      ->transform(CLI::CheckedTransformer(forms).description(""))
      ->type_name("qdq|qoperator");
  const std::map<std::string, bool> switches{{"on", true}, {"off", false}};
  command
      ->add_option("--portable", options->apply.is_portable,
                   "on (default): quantizers also as functions of standard operators, so that the "
                   "model runs without our library too, slower; off: with the library only")
      ->transform(CLI::CheckedTransformer(switches).description(""))
      ->type_name("on|off");
  command->add_flag("--external-data", options->is_external,
                    "keep the weights in a file of their own, OUTPUT.data (models over 2 GB always "
                    "do)");
  const std::map<std::string, Check> checks{
      {"auto", Check::kAuto}, {"on", Check::kOn}, {"off", Check::kOff}};
  command
      ->add_option("--check", options->check,
                   "afterwards load the model in ONNX Runtime, run a sample and say what computes "
                   "on integers (see `bitpress check`); auto (default): if it is at most 100 MB")
      ->transform(CLI::CheckedTransformer(checks).description(""))
      ->type_name("auto|on|off");
  command
      ->add_option("--report", options->page,
                   "also write a page (HTML) about the model there: see `bitpress report`")
      ->type_name("FILE");
  AddThreadsOption(*command, options->num_threads);
  command->footer(
      ListPresets() +
      "\nExamples:\n"
      "  bitpress quantize model.onnx -o model_mx6.onnx --config MX6\n"
      "  bitpress quantize model.onnx -o mixed.onnx --config MX9 --weights mxfp4_e2m1\n"
      "  bitpress quantize model.onnx -o out.onnx --plan plan.json\n"
      "  bitpress quantize model.onnx -o model_int8.onnx --config INT8 --data photos \\\n"
      "      --samples 100 --image \"resize=256,crop=224,mean=0.498,std=0.502\"\n"
      "  bitpress quantize model.onnx -o tuned.onnx --config MXFP8E4M3_ADAQUANT --data photos \\\n"
      "      --samples 100 --image \"resize=256,crop=224,mean=0.498,std=0.502\"\n");
  command->callback([options] { Run(*options); });
}

}  // namespace bitpress::apps
