// Keeps learned layers in a file beside the output, so that a fine-tuning run that was stopped
// continues where it stopped. A record that was not written completely does not count. A journal
// with another key, that is, of another model, plan, recipe, version or other samples, is not read
// (journal_key.h).
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "base/fields.h"
#include "base/words.h"
#include "formats/qparams.h"

namespace bitpress::finetune {

// The samples that the errors of a layer were measured on.
enum class ValidatedOn : uint8_t {
  kNone,       // no samples: the layer never ran, or only on NaN and infinity
  kHeldBack,   // samples that the layer did not learn from
  kLearned,    // the samples that the layer learned from, because the user wants none held back
  kHalves,     // each half of the samples, for what was learned from the other half
  kPositions,  // each half of the positions of one sample, likewise
};
inline constexpr std::array<std::pair<std::string_view, ValidatedOn>, 5> kValidatedOnWords{
    {{"", ValidatedOn::kNone},
     {"held_back", ValidatedOn::kHeldBack},
     {"learned", ValidatedOn::kLearned},
     {"halves", ValidatedOn::kHalves},
     {"positions", ValidatedOn::kPositions}}};
constexpr Words<ValidatedOn> FieldWords(const ValidatedOn*) { return kValidatedOnWords; }
// Returns "held-back samples", for sentences. REQUIRES: not kNone.
std::string_view SamplesOf(ValidatedOn samples);

// The result of fine-tuning for one layer. Errors are mean squares over positions and outputs of
// the validation samples, as a share of the variance of the float outputs.
struct TunedLayerReport {
  std::string node;
  std::string op_type;
  std::string weight;
  std::string format;
  double error_before = 0;
  double error_after = 0;
  ValidatedOn validated_on = ValidatedOn::kNone;
  bool is_tuned = false;
  std::string taken_from;
  std::string choice;
  std::string note;
};
constexpr auto FieldsOf(const TunedLayerReport*) {
  using Report = TunedLayerReport;
  return std::tuple(
      Field{"node", &Report::node}, Field{"op_type", &Report::op_type},
      Field{"weight", &Report::weight}, Field{"format", &Report::format},
      Field{"is_tuned", &Report::is_tuned, "The model has learned weights."},
      Field{"error_before", &Report::error_before,
            "Noise over signal of its output, with weights rounded to nearest, on the samples that "
            "validate."},
      Field{"error_after", &Report::error_after, "The same with the weights that the model has."},
      Field{"validated_on", &Report::validated_on,
            "The samples that the errors were measured on. 'held_back': samples that it did not "
            "learn from. 'halves': each half of the samples, for what was learned from the other. "
            "'positions': each half of the positions of one sample, likewise. 'learned': samples "
            "that it learned from, because finetune_hold_back is 0. '': none, because it never ran "
            "or nothing could validate."},
      Field{"taken_from", &Report::taken_from,
            "The pass whose weights it has. '' if it stays as rounded."},
      Field{"choice", &Report::choice,
            "The ridges and shares that were chosen for it. '' if it stays as rounded."},
      Field{"note", &Report::note, "Why it is not tuned, or a warning. May be ''."});
}

// Returns "Conv 'conv1'", or "LSTM 'cell', 'w'" with the weight if a node has several.
std::string NameOf(const TunedLayerReport& layer);

struct LearnedWeights {
  std::vector<float> weights;
  std::vector<float> bias;               // empty: the layer has none, or needs no new one
  std::vector<formats::QParams> params;  // scales and zero points of integers and scaled floats
};

// A record of the journal.
struct LearnedLayer {
  TunedLayerReport report;
  LearnedWeights learned;  // empty unless report.is_tuned
  // The weights learned from each half, if halves of the samples or positions validated each other:
  // two or none.
  std::vector<LearnedWeights> of_halves;
};

// Returns whether a file starts like a journal, of whatever version, and false if it cannot be
// read.
bool IsLearningJournal(const std::filesystem::path& path);

// Writes a journal with the records of several, which are of one work: each layer once, in the
// order of the files. One record is in memory at a time. Returns the number of layers. Throws
// Error(kInvalidArgument) if a file is no journal, is of another work or ends within a record, and
// Error(kIo), naming the file.
size_t MergeLearningJournals(std::span<const std::filesystem::path> paths,
                             const std::filesystem::path& output);

class LearningJournal {
 public:
  // Reads the records of a file that starts with `key`. Empties the file if it has another key. If
  // `path` is empty, nothing is ever read or written. Throws Error(kIo) if the file cannot be
  // written.
  LearningJournal(std::filesystem::path path, const std::string& key);

  // Returns the number of weights that the file had records of.
  size_t num_found() const { return found_.size(); }
  // Reads the record of a weight; nothing if the file had none. Throws Error(kIo).
  std::optional<LearnedLayer> Find(const std::string& weight) const;
  // Writes a record. Throws Error(kIo).
  void Add(const LearnedLayer& layer);

 private:
  void Read(const std::string& header);

  std::filesystem::path path_;
  // The place of a record's bytes in the file. All records may be larger than memory.
  struct Place {
    uint64_t begin = 0;
    size_t length = 0;
  };
  std::map<std::string, Place> found_;
  std::ofstream file_;
};

}  // namespace bitpress::finetune
