#include "sample_options.h"

#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/child_process.h"
#include "base/environment.h"
#include "base/error.h"
#include "base/paths.h"
#include "base/text.h"
#include "data/left_out.h"

namespace bitpress::apps {
namespace {

// Upper bound of an option, as kMostSamples.
constexpr int kMostTokens = 10'000'000;

std::string LastLine(const std::filesystem::path& file) {
  std::ifstream stream(SystemPath(file));
  std::string last;
  for (std::string line; std::getline(stream, line);) {
    if (const std::string_view text = Trim(line); !text.empty()) last = text;
  }
  return last;
}

// The tokenizer writes ids, and the special tokens around them as JSON; or a folder with a file for
// each line.
constexpr const char* kIds = "text.npy";
constexpr const char* kSpecial = "special.json";
constexpr const char* kLines = "lines";

// Writes the tokens of texts to `folder`. The tokenizer is a library of Python, which runs in a
// process of its own.
void Tokenize(const SampleArguments& samples, const std::filesystem::path& folder) {
  // The command of the Python package sets this variable to its interpreter.
  const std::string python = EnvironmentVariable("BITPRESS_PYTHON");
  if (python.empty()) {
    Fail(ErrorCode::kUnsupported,
         "--text needs the command of the Python package, which has the tokenizer (pip install "
         "\"bitpress[text]\", or python3 -m bitpress); or give token ids with --tokens FILE.npy");
  }
  std::vector<std::string> arguments = {"-m", "bitpress._text", "--tokenizer", samples.tokenizer};
  if (samples.lines) {
    arguments.insert(arguments.end(), {"--lines", PathText(folder / kLines)});
  } else {
    arguments.insert(arguments.end(),
                     {"--ids", PathText(folder / kIds), "--special", PathText(folder / kSpecial)});
  }
  if (!samples.encoding.empty()) {
    arguments.insert(arguments.end(), {"--encoding", samples.encoding});
  }
  arguments.push_back("--");
  arguments.insert(arguments.end(), samples.text.begin(), samples.text.end());
  const std::filesystem::path log = folder / "log.txt";
  const ChildEnd end = RunProgram(PathOf(python), arguments, {}, log);
  if (end.kind == ChildEnd::Kind::kExit && end.exit_code == 0) return;
  const std::string why = LastLine(log);
  Fail(ErrorCode::kInvalidArgument, "--text: {}",
       why.empty() ? fmt::format("the tokenizer ended with {}", end.how) : why);
}

void CheckOneKind(const SampleArguments& samples) {
  const int num_kinds = (samples.data.empty() ? 0 : 1) + (samples.tokens.empty() ? 0 : 1) +
                        (samples.text.empty() ? 0 : 1);
  if (num_kinds > 1) {
    Fail(ErrorCode::kInvalidArgument, "give one of --data, --tokens and --text, not several");
  }
  if (samples.text.empty() != samples.tokenizer.empty()) {
    Fail(ErrorCode::kInvalidArgument, "{}",
         samples.text.empty() ? "--tokenizer is for --text, which is not given"
                              : "--text needs --tokenizer, the model's tokenizer.json");
  }
  if (samples.text.empty() && !samples.encoding.empty()) {
    Fail(ErrorCode::kInvalidArgument, "--encoding is for --text, which is not given");
  }
  if (samples.text.empty() && samples.lines) {
    Fail(ErrorCode::kInvalidArgument, "--lines is for --text, which is not given");
  }
  if (samples.lines && samples.sequence > 0) {
    Fail(ErrorCode::kInvalidArgument, "--sequence cuts a text, and with --lines each line is one");
  }
  if (!samples.data.empty() && samples.sequence > 0) {
    Fail(ErrorCode::kInvalidArgument, "--sequence is for --tokens and --text");
  }
  if (samples.data.empty() && num_kinds > 0 && !(samples.labels.empty() && samples.image.empty())) {
    Fail(ErrorCode::kInvalidArgument, "--labels and --image are for --data");
  }
}

}  // namespace

data::SampleSpec SampleArguments::Spec() {
  CheckOneKind(*this);
  data::SampleSpec spec{.folder = PathOf(data),
                        .labels_csv = PathOf(labels),
                        .image = image,
                        .tokens = PathOf(tokens),
                        .num_tokens = sequence,
                        .opener = {},
                        .limit = limit,
                        .shard = shard.empty() ? data::Shard() : data::ParseShard(shard),
                        .whole_items = whole_items};
  if (!data.empty() && labels.empty()) {  // a table says itself what counts
    const std::string left_out = data::DescribeFilesLeftOut(data);
    if (!left_out.empty()) std::fputs(fmt::format("note: {}\n", left_out).c_str(), stderr);
  }
  if (text.empty()) return spec;
  scratch = std::make_shared<ScratchFolder>();
  Tokenize(*this, scratch->path());
  if (lines) {
    spec.folder = scratch->path() / kLines;
    return spec;
  }
  spec.tokens = scratch->path() / kIds;
  std::ifstream file(scratch->path() / kSpecial);
  const nlohmann::json special = nlohmann::json::parse(file);
  spec.prefix = special.at("prefix").get<std::vector<int64_t>>();
  spec.suffix = special.at("suffix").get<std::vector<int64_t>>();
  return spec;
}

CLI::Option* AddDataOptions(CLI::App& command, SampleArguments& samples) {
  CLI::Option* const folder = command.add_option(
      "--data", samples.data,
      "the folder with the samples: photos (.jpg, .png, .webp, .bmp, .tiff), .npy or .npz "
      "arrays, or TensorProto "
      ".pb files");
  folder->type_name("DIR");
  command
      .add_option("--labels", samples.labels,
                  "a CSV file with the columns file,class; files that it does not list are not "
                  "used")
      ->type_name("CSV");
  command
      .add_option("--image", samples.image,
                  "the conversion of photos to tensors, joined by commas: resize=N and crop=N in "
                  "pixels, fit=shorter|letterbox|stretch (how a photo gets the size; default: its "
                  "shorter side has it), mean=A or A/B/C, std=A or A/B/C, layout=nchw|nhwc, "
                  "channels=rgb|bgr")
      ->type_name("SPEC");
  command.add_flag("--whole-items", samples.whole_items,
                   "each array of --data is one sample, whatever its first dimension says: its "
                   "rows belong together (default: found by running the first row)");
  command
      .add_option("--text", samples.text,
                  "text files as samples of a model that reads tokens, instead of --data; needs "
                  "--tokenizer and the command of the Python package")
      ->type_name("FILE...");
  command
      .add_option("--tokenizer", samples.tokenizer,
                  "the tokenizer of --text: the model's tokenizer.json")
      ->type_name("FILE");
  command.add_flag(
      "--lines", samples.lines,
      "each line of --text is a sample, as encoders read sentences (default: a text is "
      "cut into pieces of equal length, as language models read them)");
  command.add_option("--encoding", samples.encoding, "the encoding of --text (default: utf-8)")
      ->type_name("NAME");
  command
      .add_option("--tokens", samples.tokens,
                  "token ids instead of --text: an .npy file of integers, [tokens] or [texts, "
                  "tokens]. Attention mask, positions and empty caches follow from them")
      ->type_name("FILE");
  command
      .add_option("--sequence", samples.sequence,
                  "tokens of a sample; texts are cut into such pieces, without the rest (default: "
                  "what the model fixes, else 512)")
      ->check(CLI::Range(2, kMostTokens))
      ->type_name("N");
  return folder;
}

CLI::Option* AddSampleOptions(CLI::App& command, SampleArguments& samples, Samples are) {
  CLI::Option* const folder = AddDataOptions(command, samples);
  command.add_option("--samples", samples.limit, "most samples to use (default: 0, all)")
      ->check(CLI::Range(0, kMostSamples))
      ->type_name("N");
  if (are == Samples::kRequired) {
    command.parse_complete_callback([&samples] {
      if (!samples.is_given()) throw CLI::RequiredError("--data, --tokens or --text");
    });
  }
  return folder;
}

void AddShardOption(CLI::App& command, SampleArguments& samples) {
  command
      .add_option("--shard", samples.shard,
                  "only one of several parts of the samples: 2/8 is the second of eight; "
                  "`bitpress merge` adds up the files of all parts")
      ->type_name("K/N");
}

void AddEvaluationTaskOption(CLI::App& command, std::string& task) {
  command
      .add_option(
          "--task", task,
          "the task in whose terms a model is measured: classes, detection, segmentation, "
          "embedding, text, regression, auto (default: found from the outputs) or none; settings "
          "follow behind a colon: \"detection:layout=yolo8,labels=instances.json\"")
      ->type_name("TASK[:KEY=VALUE,...]");
}

CLI::Option* AddMostFailuresOption(CLI::App& command, size_t& most_failures) {
  return command
      .add_option("--most-failures", most_failures,
                  "leave out samples that cannot be read or run, at most so many (default: 0, the "
                  "first one is an error); the file says which")
      ->check(CLI::Range(0, kMostSamples))
      ->type_name("N");
}

std::string DescribeLeftOut(std::span<const std::string> names) {
  if (names.empty()) return "";
  std::string text = fmt::format("left out: {} samples that failed:", names.size());
  for (size_t i = 0; i < names.size(); ++i) {
    text += fmt::format("{} '{}'", i == 0 ? "" : ",", names[i]);
  }
  return text + "\n";
}

std::string DescribeFailures(std::span<const data::FailedSample> samples) {
  std::string text;
  for (const data::FailedSample& sample : samples) {
    text += fmt::format("  '{}': {}\n", sample.name, sample.why);
  }
  return text;
}

}  // namespace bitpress::apps
