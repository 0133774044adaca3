// The options for samples that several subcommands share.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/scratch_folder.h"
#include "cli.h"
#include "data/source.h"

namespace bitpress::apps {

// Upper bound of numbers of samples. Without one, CLI11 reads a negative number as a large one.
inline constexpr int kMostSamples = 1'000'000'000;

// The values of the options for samples.
struct SampleArguments {
  std::string data = {}, labels = {}, image = {};
  std::string tokens = {};             // .npy of token ids
  std::vector<std::string> text = {};  // files
  std::string tokenizer = {}, encoding = {};
  bool lines = false;  // of `text` are the samples
  size_t sequence = 0;
  size_t limit = 0;
  bool whole_items = false;
  std::string shard = {};                       // "2/8"
  std::shared_ptr<ScratchFolder> scratch = {};  // has the tokens of a text

  bool is_given() const { return !data.empty() || !tokens.empty() || !text.empty(); }
  // Returns the samples; a text is tokenized first. The result lives as long as this object.
  // Throws Error(kInvalidArgument) if options do not fit together, and what the tokenizer says.
  data::SampleSpec Spec();
};

enum class Samples { kOptional, kRequired };

// Add --data, --labels, --image, and the options for tokens and texts; the second one adds
// --samples too. With kRequired a command line without samples is wrong. `samples` must outlive the
// subcommand. Return the option for --data.
CLI::Option* AddDataOptions(CLI::App& command, SampleArguments& samples);
CLI::Option* AddSampleOptions(CLI::App& command, SampleArguments& samples,
                              Samples are = Samples::kOptional);

// Adds --shard, for commands whose files `bitpress merge` adds up.
void AddShardOption(CLI::App& command, SampleArguments& samples);

// Adds --task, the task in whose terms a model is measured.
void AddEvaluationTaskOption(CLI::App& command, std::string& task);

// Adds --most-failures, the number of samples that may fail, and returns it.
CLI::Option* AddMostFailuresOption(CLI::App& command, size_t& most_failures);
// Returns "left out: 2 samples that failed: 'a', 'b'" as a line; "" without any.
std::string DescribeLeftOut(std::span<const std::string> names);
// Returns a line for each such sample with its error.
std::string DescribeFailures(std::span<const data::FailedSample> samples);

}  // namespace bitpress::apps
