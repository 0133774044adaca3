// Texts of speech and of printed lines: the character and word errors of what greedy decoding of
// CTC scores gives.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/text.h"
#include "evaluate/task_meters.h"

namespace bitpress::evaluate {
namespace {

using Codes = std::vector<int64_t>;

// Returns the code points of a UTF-8 text; bytes that are none count for themselves.
Codes CodePoints(std::string_view text) {
  Codes codes;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool continues = (byte & 0xc0) == 0x80;
    if (continues && !codes.empty()) {
      codes.back() = codes.back() << 8 | byte;
    } else {
      codes.push_back(byte);
    }
  }
  return codes;
}

// Returns the words of a text as numbers that are equal for equal words.
Codes Words(std::string_view text, std::map<std::string, int64_t>& known) {
  Codes words;
  for (const std::string& word : SplitOutsideParentheses(text, " \t\n\r")) {
    words.push_back(known.emplace(word, std::ssize(known)).first->second);
  }
  return words;
}

// Edits over the length of what was wanted.
struct ErrorRate {
  uint64_t edits = 0, length = 0;

  void Add(const Codes& wanted, const Codes& found) {
    edits += EditDistance(wanted, found);
    length += wanted.size();
  }
  // The rate of edits; with nothing wanted, their number.
  double value() const {
    return static_cast<double>(edits) / static_cast<double>(std::max<uint64_t>(1, length));
  }
};

class TextMeter : public TaskMeter {
 public:
  TextMeter(const TaskSpec& spec, size_t output, const std::vector<std::string>& characters)
      : output_(output), characters_(characters) {
    const double blank = spec.Number("blank", -1);
    if (blank >= 0) blank_ = static_cast<int64_t>(blank);
    if (const std::string file = spec.Text("vocabulary"); !file.empty()) ReadVocabulary(file);
    if (const std::string labels = spec.Text("labels"); !labels.empty()) {
      if (vocabulary_.empty() && characters_.empty()) {
        Fail(ErrorCode::kInvalidArgument,
             "texts of labels need the vocabulary: text:labels={},vocabulary=FILE", labels);
      }
      labels_ = ReadColumn(labels, "text");
    }
  }

  void Add(const TaskSample& sample) override {
    const SampleOutput& found = sample.outputs[output_];
    if (found.dims.size() != 2) {
      Fail(ErrorCode::kInvalidArgument, "'{}': scores of texts have [steps, classes], not {} axes",
           sample.name, found.dims.size());
    }
    if (vocabulary_.empty() && !characters_.empty()) UseCharacters(found.dims[1]);
    // The blank may follow from all samples, so that paths are kept, not texts.
    paths_.push_back({sample.name, PathOf(found),
                      sample.reference.empty() ? Codes() : PathOf(sample.reference[output_])});
    has_reference_ = has_reference_ || !sample.reference.empty();
  }

  TaskReport Result() const override {
    TaskReport report{.task = "text", .num_samples = paths_.size()};
    const int64_t blank = blank_.value_or(CommonClass());
    report.how = fmt::format("CTC, blank {}{}", blank, blank_ ? "" : ", the commonest class");
    ErrorRate against_float, characters, reference_characters, words, reference_words;
    std::map<std::string, int64_t> known;
    for (const Paths& paths : paths_) {
      const Codes found = Collapsed(paths.found, blank);
      const Codes wanted = Collapsed(paths.reference, blank);
      if (has_reference_) against_float.Add(wanted, found);
      const std::string* const label = LabelOf(labels_, paths.sample);
      if (label == nullptr) continue;
      const Codes text = CodePoints(*label), text_words = Words(*label, known);
      characters.Add(text, CodePoints(TextOf(found)));
      words.Add(text_words, Words(TextOf(found), known));
      if (!has_reference_) continue;
      reference_characters.Add(text, CodePoints(TextOf(wanted)));
      reference_words.Add(text_words, Words(TextOf(wanted), known));
    }
    const auto of_reference = [&](const ErrorRate& rate) {
      return has_reference_ ? std::optional(rate.value()) : std::nullopt;
    };
    if (has_reference_ && against_float.length + against_float.edits == 0) {
      report.why_no_loss = fmt::format(
          "neither model gives a text in {}: give samples of speech or of printed lines",
          WithNoun(paths_.size(), "sample"));
    } else if (has_reference_) {
      report.figures.push_back(
          {"character errors against the float texts", against_float.value(), {}});
      report.SetLoss(against_float.value(), "character errors against float", "characters",
                     against_float.length);
    }
    if (characters.length == 0) return report;
    report.figures.push_back(
        {"character errors", characters.value(), of_reference(reference_characters)});
    report.figures.push_back({"word errors", words.value(), of_reference(reference_words)});
    if (has_reference_) {
      report.SetLoss(characters.value() - reference_characters.value(), "rise of character errors");
    }
    return report;
  }

 private:
  struct Paths {
    std::string sample;
    Codes found, reference;  // the likeliest class of each step
  };

  static Codes PathOf(const SampleOutput& output) {
    const auto num_steps = static_cast<size_t>(output.dims[0]);
    const auto num_classes = static_cast<size_t>(output.dims[1]);
    Codes path;
    for (size_t step = 0; step < num_steps; ++step) {
      const auto scores = output.values.subspan(step * num_classes, num_classes);
      path.push_back(std::ranges::max_element(scores) - scores.begin());
    }
    return path;
  }

  // Returns the text of a path: repeats are one class, and blanks go.
  static Codes Collapsed(const Codes& path, int64_t blank) {
    Codes text;
    for (size_t i = 0; i < path.size(); ++i) {
      if (path[i] != blank && (i == 0 || path[i] != path[i - 1])) text.push_back(path[i]);
    }
    return text;
  }

  // Returns the class that most steps have.
  int64_t CommonClass() const {
    std::map<int64_t, size_t> counts;
    for (const Paths& paths : paths_) {
      for (const int64_t code : has_reference_ ? paths.reference : paths.found) ++counts[code];
    }
    const auto most =
        std::ranges::max_element(counts, {}, [](const auto& entry) { return entry.second; });
    return most == counts.end() ? 0 : most->first;
  }

  std::string TextOf(const Codes& codes) const {
    std::string text;
    for (const int64_t code : codes) {
      if (code >= std::ssize(vocabulary_)) {
        Fail(ErrorCode::kInvalidArgument,
             "the vocabulary has {} lines, and the model gives class {}: one line a class, that of "
             "the blank too",
             vocabulary_.size(), code);
      }
      text += vocabulary_[static_cast<size_t>(code)];
    }
    return text;
  }

  // Makes the vocabulary of the characters that the model's metadata list, as PaddleOCR means them:
  // the blank is before them, and a space may be behind them.
  void UseCharacters(int64_t num_classes) {
    vocabulary_ = {""};
    vocabulary_.insert(vocabulary_.end(), characters_.begin(), characters_.end());
    if (num_classes == std::ssize(vocabulary_) + 1) vocabulary_.emplace_back(" ");
    if (num_classes != std::ssize(vocabulary_)) {
      if (labels_.empty()) return characters_.clear(), vocabulary_.clear();
      Fail(ErrorCode::kInvalidArgument,
           "the model's metadata list {} characters, which do not fit its {} classes: give the "
           "vocabulary (text:vocabulary=FILE)",
           characters_.size(), num_classes);
    }
    if (!blank_) blank_ = 0;
  }

  void ReadVocabulary(const std::string& file) {
    vocabulary_ = Split(ReadFile(file), '\n');
    for (std::string& line : vocabulary_) {
      if (line.ends_with('\r')) line.pop_back();
    }
    if (!vocabulary_.empty() && vocabulary_.back().empty()) vocabulary_.pop_back();
  }

  size_t output_;
  std::optional<int64_t> blank_;
  std::vector<std::string> vocabulary_, characters_;
  std::map<std::string, std::string> labels_;
  std::vector<Paths> paths_;
  bool has_reference_ = false;
};

}  // namespace

std::unique_ptr<TaskMeter> MakeTextMeter(const TaskSpec& spec, size_t output,
                                         const std::vector<std::string>& characters) {
  return std::make_unique<TextMeter>(spec, output, characters);
}

size_t EditDistance(std::span<const int64_t> wanted, std::span<const int64_t> found) {
  // The distances of the beginnings of `found` from one beginning of `wanted`.
  std::vector<size_t> row(found.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < wanted.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i + 1);
    for (size_t j = 0; j < found.size(); ++j) {
      const size_t replaced = diagonal + (wanted[i] == found[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, diagonal + 1, row[j] + 1});
    }
  }
  return row.back();
}

}  // namespace bitpress::evaluate
