// bitpress hub: makes the files of a model folder under the names that runtimes look for.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "base/paths.h"
#include "base/text.h"
#include "command.h"
#include "json_option.h"
#include "progress_bar.h"
#include "sample_options.h"
#include "task_option.h"
#include "tasks/hub.h"
#include "tasks/json_file.h"

namespace bitpress::apps {
namespace {

struct HubArguments {
  tasks::HubOptions request;
  std::string dtypes;
  SampleArguments samples;
  JsonOption json;
};

std::string ClosenessOf(const tasks::HubFile& file) {
  if (!file.sqnr_db) return fmt::format("not compared: {}", file.why_not_compared);
  return fmt::format("{:5.1f} dB, cosine {:.4f} at '{}'", *file.sqnr_db, file.cosine.value_or(0),
                     file.worst_output);
}

// Returns how transformers.js is told to load the chosen files, "" if it looks for other names.
std::string DtypesOf(const tasks::HubReport& report) {
  std::vector<std::string> dtypes;
  for (const tasks::HubFile& file : report.files) {
    if (std::ranges::count(report.choice->files, file.file) == 0) continue;
    if (!tasks::IsOfTransformersJs(file)) return "";
    dtypes.push_back(
        fmt::format("\"{}\": \"{}\"", PathText(PathOf(file.model).stem()), file.dtype));
  }
  return fmt::format("; for transformers.js: dtype: {{{}}}", Join(dtypes, ", "));
}

std::string SummarizeChoice(const tasks::HubReport& report) {
  const tasks::HubChoice& choice = *report.choice;
  if (choice.files.empty()) {
    return fmt::format("  WARNING: {}: {}\n", choice.budget, choice.why_not);
  }
  return fmt::format("  {}: {}\n    {}{}{}\n", choice.budget, Join(choice.files, ", "),
                     HumanBytes(choice.num_bytes),
                     choice.sqnr_db ? fmt::format(", {:.1f} dB or more", *choice.sqnr_db)
                                    : ", with the outputs of the float models",
                     DtypesOf(report));
}

std::string Summarize(const tasks::HubReport& report) {
  size_t width = 0;
  for (const tasks::HubFile& file : report.files) width = std::max(width, file.file.size());
  std::string text = fmt::format("{}: {} models, {} other files\n", PathText(report.output),
                                 report.files.size(), report.copied.size());
  for (const tasks::HubFile& file : report.files) {
    text +=
        fmt::format("  {:{}}  {:>9}  {:3.0f} %  {}\n", file.file, width, HumanBytes(file.num_bytes),
                    100 * static_cast<double>(file.num_bytes) /
                        static_cast<double>(std::max<uint64_t>(1, file.float_bytes)),
                    ClosenessOf(file));
  }
  if (report.choice) text += SummarizeChoice(report);
  if (report.are_samples_random) {
    text += "  compared on random tokens; --text FILE --tokenizer FILE compares on a text\n";
  }
  for (const tasks::HubFile& file : report.files) {
    for (const std::string& name : file.missing_in_web) {
      text += fmt::format("  WARNING: {}: onnxruntime-web has no operator {}\n", file.file, name);
    }
    for (const std::string& warning : file.warnings) {
      text += fmt::format("  WARNING: {}: {}\n", file.file, warning);
    }
  }
  for (const std::string& name : report.left_out) {
    text += fmt::format("  left out: {}: no float model by its name\n", name);
  }
  return text;
}

void RunHub(HubArguments& options) {
  options.request.samples = options.samples.Spec();
  for (std::string& dtype : Split(options.dtypes, ',')) {
    if (!dtype.empty()) options.request.dtypes.push_back(std::move(dtype));
  }
  tasks::JsonFile file(options.json.file());
  ProgressBar bar;
  options.request.progress = bar.Sink();
  const tasks::HubReport report = tasks::MakeHubFolder(options.request);
  file.Write(tasks::ToJson(report));
  options.json.Print(Summarize(report), [&] { return tasks::ToJson(report); });
}

}  // namespace

void AddHubCommand(CLI::App& program) {
  CLI::App* const command = program.add_subcommand(
      "hub", "Make the files of a model folder that transformers.js and others look for.");
  const auto options = std::make_shared<HubArguments>();
  command
      ->add_option("folder", options->request.folder,
                   "the model's folder: config.json, the tokenizer, and onnx/ with float models")
      ->required()
      ->type_name("DIR");
  command
      ->add_option("-o,--output", options->request.output, "the folder to write; may be DIR itself")
      ->required()
      ->type_name("DIR");
  command
      ->add_option("--dtypes", options->dtypes,
                   fmt::format("the files to make, joined by commas: {} (default: those without "
                               "the name of a processor)",
                               Join(tasks::HubDtypes(), ", ")))
      ->type_name("LIST");
  command
      ->add_option("--budget", options->request.budget,
                   "choose one file for each float model: limits joined by commas, of the bytes of "
                   "all of them together (bytes<=60MB, or a share of the float models, bytes<=30%) "
                   "and of the energy of each one's error (loss<=1%)")
      ->type_name("LIMITS");
  AddSampleOptions(*command, options->samples);
  AddTaskOption(*command, "threads", options->request.num_threads);
  options->json.Add(*command);
  command->footer(
      "Each float model of onnx/, such as an encoder and a merged decoder, becomes a file for\n"
      "each dtype: model_fp16.onnx, model_quantized.onnx (q8), model_int8.onnx, model_uint8.onnx,\n"
      "model_q4.onnx, model_q4f16.onnx, model_qint8_avx512_vnni.onnx. Each runs in plain ONNX\n"
      "Runtime, is compared with the float model on the samples, and has an operator named that\n"
      "onnxruntime-web lacks. All other files are copied. In a folder of ONNX Runtime GenAI\n"
      "(genai_config.json) one dtype takes the names that are there. --budget says which files to\n"
      "load together: the closest ones of so many bytes, or the smallest of so small a loss.\n"
      "\nExample:\n"
      "  bitpress hub all-MiniLM-L6-v2 -o out --dtypes fp16,q8,q4\n"
      "  bitpress hub whisper-tiny -o out --dtypes fp32,fp16,q8,q4 --budget \"bytes<=30%\"\n");
  command->callback([options] { RunHub(*options); });
}

}  // namespace bitpress::apps
