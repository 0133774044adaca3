// What was learned so far, in a file beside the output, so that a run that was stopped goes on
// where it stopped. A record is written as a whole or does not count. A journal of another model,
// plan, recipe, version or of other samples is not read (journal_key.h).
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "formats/qparams.h"

namespace bitpress::finetune {

// The samples that the errors of a layer are of.
enum class Judge : uint8_t {
  kNone,      // there were none: the layer never ran, or on NaN and infinity only
  kHeldBack,  // the layer did not learn from them
  kLearned,   // none were held back, so that those it learned from judge themselves
};
// Returns "", "held_back" or "learned".
std::string_view JudgeName(Judge judge);

// What became of one layer. Errors are mean squares over positions and outputs of the samples that
// judge, in parts of the variance of the float outputs.
struct TunedLayerReport {
  std::string node;
  std::string op_type;
  std::string weight;
  std::string format;
  double error_before = 0;  // quantized directly
  double error_after = 0;   // of what the model has now
  Judge judge = Judge::kNone;
  bool is_tuned = false;
  std::string taken_from;  // the pass whose weights were the best, if it is tuned
  std::string note;        // why not, or what was odd
};

// "Conv 'conv1'"; with the weight where a node has several: "LSTM 'cell', 'w'".
std::string NameOf(const TunedLayerReport& layer);

struct LearnedLayer {
  TunedLayerReport report;
  // Where report.is_tuned; integers and scaled floats have parameters too.
  std::vector<float> weights;
  std::vector<float> bias;  // empty: none, or no new one
  std::vector<formats::QParams> params;
};

class LearningJournal {
 public:
  // Reads the records of a file that starts with `key`; begins it anew if it has another one.
  // An empty path: nothing is read or written. Throws Error(kIo) if the file cannot be written.
  LearningJournal(std::filesystem::path path, const std::string& key);

  const std::map<std::string, LearnedLayer>& found() const { return found_; }  // by weight
  // Throws Error(kIo).
  void Add(const LearnedLayer& layer);

 private:
  void Read(const std::string& header);

  std::filesystem::path path_;
  std::map<std::string, LearnedLayer> found_;
  std::ofstream file_;
};

}  // namespace bitpress::finetune
