// bitpress quantize: writes the quantized model.
#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "base/atomic_file.h"
#include "base/error.h"
#include "command.h"
#include "graph/staged_model.h"
#include "json_option.h"
#include "progress_bar.h"
#include "quantization_options.h"
#include "quantized_text.h"
#include "tasks/json_file.h"
#include "tasks/quantize.h"
#include "tasks/report.h"
#include "word_option.h"

namespace bitpress::apps {
namespace {

struct QuantizeArguments {
  QuantizationArguments inputs;
  emit::ApplyOptions apply;
  std::string cache_scales_output;
  std::string page;
  JsonOption json;
  std::string command_line;
  bool is_external = false;
  bool is_checked = true;
  bool is_verbose = false;
};

// Writes the page about the model that was just written.
void WritePage(const QuantizeArguments& options, const tasks::QuantizeOptions& request,
               const tasks::QuantizeReport& quantized) {
  tasks::ReportOptions page;
  page.model = options.inputs.output;
  page.reference = options.inputs.model;
  page.output = options.page;
  page.samples = request.samples;
  page.preparation = request.preparation;
  page.quantized = &quantized;
  page.commands = {{"Quantize, and this page", options.command_line}};
  page.num_threads = request.num_threads;
  page.progress = request.progress;
  tasks::WriteReport(page);
}

// Checks before any work that the page can be written, and that it replaces no model.
void CheckPage(const QuantizeArguments& options) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (fs::equivalent(options.inputs.model, options.inputs.output, error)) {
    throw CLI::ValidationError(
        "--report compares with the float model, which -o would replace: write to another file");
  }
  const fs::path page = fs::weakly_canonical(options.page, error);
  for (const std::string& other : {options.inputs.model, options.inputs.output}) {
    if (page == fs::weakly_canonical(other, error)) {
      throw CLI::ValidationError("--report names the file of a model: choose another name");
    }
  }
  const AtomicFile probe(options.page);
}

void RunQuantize(QuantizeArguments& options) {
  if (!options.page.empty()) CheckPage(options);
  std::vector<std::string> notices;
  tasks::QuantizeOptions request;
  options.inputs.Fill(request, notices);
  request.cache_scales_output = options.cache_scales_output;
  request.apply = options.apply;
  if (options.is_external) request.external_data = graph::ExternalData::kAlways;
  request.is_checked = options.is_checked;
  if (!request.calibration.empty() && request.samples.is_given() && request.plan_file.empty() &&
      request.config.finetune.empty() && !request.config.guard) {
    throw CLI::ValidationError(
        "--calibration has the statistics already; --data besides it is for fine-tuning and for "
        "the guard only");
  }
  tasks::JsonFile file(options.json.file());
  tasks::QuantizeReport report;
  if (const std::string note = graph::ReplacedDataNote(request.output); !note.empty()) {
    std::fputs(fmt::format("note: {}\n", note).c_str(), stderr);
  }
  {
    ProgressBar bar;
    request.progress = bar.Sink();
    report = tasks::Quantize(request);
    if (!options.page.empty()) WritePage(options, request, report);
  }
  std::string text = DescribeQuantized(request, report, options.is_verbose);
  if (!options.page.empty()) text += fmt::format("  report: {}\n", options.page);
  for (const std::string& pass : request.disabled_passes) {
    text += fmt::format("  note: pass {} was switched off\n", pass);
  }
  for (const std::string& notice : notices) text += fmt::format("  note: {}\n", notice);
  const auto to_json = [&] {
    nlohmann::ordered_json json = tasks::ToJson(report);
    json["disabled_passes"] = request.disabled_passes;
    json["notes"] = notices;
    return json;
  };
  file.Write(to_json());
  options.json.Print(text, to_json);
}

// Adds the options for the form of the written model, and for the checks and the report after it.
void AddForms(CLI::App& command, QuantizeArguments& options) {
  command
      .add_option("--save-kv-scales", options.cache_scales_output,
                  "also write the scales of the caches to such a file")
      ->type_name("FILE");
  AddWordOption<emit::Storage>(
      command, "--storage", options.apply.storage, emit::kStorageWords,
      "the storage of weights. packed (default): codes and scales at their real width; simulated: "
      "the quantized values as float32; qdq: integers as codes behind a DequantizeLinear, also "
      "those of INT4 in blocks, and floats behind the quantizers of activations for other formats");
  AddWordOption<emit::Target>(
      command, "--target", options.apply.target, emit::kTargetWords,
      "the operators of weights in blocks. auto (default): bitpress for block formats, but for "
      "convolutions that are faster as floats and FLOAT16 products; portable for integers and "
      "with operators=quark; bitpress: matrix products and convolutions of our library, which "
      "compute from the codes of all block formats and are functions of standard operators without "
      "it, and MatMulNBits and GatherBlockQuantized for integers; portable: standard operators, "
      "which decode the weights when the model is loaded; onnxruntime: MatMulNBits and "
      "GatherBlockQuantized, which compute from the codes of integers, MXINT8, MX6, MX4, MXFP4 and "
      "MXFP6E2M3");
  AddWordOption<emit::AccuracyLevel>(
      command, "--accuracy-level", options.apply.accuracy_level, emit::kAccuracyLevelWords,
      "the accuracy of MatMulNBits. 4 (default): activations are rounded to 8 bits at run time; "
      "1: activations stay float, for weights of 4 bits only");
  AddWordOption<emit::IntegerForm>(
      command, "--form", options.apply.form, emit::kIntegerFormWords,
      "the form of integer models. qdq (default): float operators between DequantizeLinear and "
      "QuantizeLinear; qoperator: QLinearConv, QLinearMatMul, QGemm and other operators on "
      "integers");
  AddWordOption<bool>(
      command, "--portable", options.apply.is_portable, kSwitchWords,
      "the need for Bitpress's operator library. on (default): quantizers are also written as "
      "functions of standard operators, so that the model runs without the library, but slower; "
      "off: the model runs with the library only");
  command.add_flag("--external-data", options.is_external,
                   "store the weights in a file of their own, OUTPUT.data; models over 2 GB always "
                   "do");
  AddCheckOption(command, options.is_checked);
  command
      .add_option("--report", options.page,
                  "also write a page about the model to this HTML file (see `bitpress report`)")
      ->type_name("FILE");
  command.add_flag("--verbose", options.is_verbose,
                   "print also the formats, reasons, fine-tuned layers and operators behind the "
                   "verdict");
  options.json.Add(command);
}

}  // namespace

void AddQuantizeCommand(CLI::App& program, const std::string& command_line) {
  CLI::App* const command =
      program.add_subcommand("quantize", "Quantize a float model: write it with fewer bits.");
  const auto options = std::make_shared<QuantizeArguments>();
  options->command_line = command_line;
  AddQuantizationOptions(*command, options->inputs,
                         "the file to write; may be the model itself (it is replaced at the end)");
  AddForms(*command, *options);
  command->footer(
      ListPresets() +
      "\nExamples:\n"
      "  bitpress quantize model.onnx -o model_mx6.onnx --config MX6\n"
      "  bitpress quantize model.onnx -o mixed.onnx --config MX9 --weights mxfp4_e2m1\n"
      "  bitpress quantize model.onnx -o out.onnx --plan plan.json\n"
      "  bitpress quantize model.onnx -o model_int8.onnx --config INT8 --data photos \\\n"
      "      --samples 100 --image \"resize=256,crop=224,mean=0.498,std=0.502\"\n"
      "  bitpress quantize decoder.onnx -o small_cache.onnx --config none --set kv_cache=int8 \\\n"
      "      --text learn.txt --tokenizer tokenizer.json --sequence 256 --samples 32\n"
      "  bitpress quantize model.onnx -o tuned.onnx --config MXFP8E4M3_ADAQUANT --data photos \\\n"
      "      --samples 100 --image \"resize=256,crop=224,mean=0.498,std=0.502\"\n");
  command->callback([options] { RunQuantize(*options); });
}

}  // namespace bitpress::apps
