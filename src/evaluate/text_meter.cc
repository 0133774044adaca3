// Texts of speech and of printed lines: the character and word errors of what greedy decoding of
// CTC scores gives.
#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>

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
    // The files of evaluations hold blank + 1 as a class, see ReadCode.
    constexpr int64_t kMostBlank = std::numeric_limits<int32_t>::max() - 1;
    if (spec.settings.contains("blank")) blank_ = spec.Integer("blank", 0, 0, kMostBlank);
    if (const std::string file = spec.Text("vocabulary"); !file.empty()) ReadVocabulary(file);
    labels_file_ = spec.Text("labels");
    if (!labels_file_.empty()) {
      if (vocabulary_.empty() && characters_.empty()) {
        Fail(ErrorCode::kInvalidArgument,
             "texts of labels need the vocabulary: text:labels={},vocabulary=FILE", labels_file_);
      }
      labels_ = ReadColumn(labels_file_, "text");
    }
  }

  void Add(const TaskSample& sample) override {
    const SampleOutput& found = sample.outputs[output_];
    if (found.dims.size() != 2) {
      Fail(ErrorCode::kInvalidArgument, "'{}': scores of texts have [steps, classes], not {} axes",
           sample.name, found.dims.size());
    }
    if (blank_ && *blank_ >= found.dims[1]) {
      Fail(ErrorCode::kInvalidArgument, "task setting blank is {}, and the output has {} classes",
           *blank_, found.dims[1]);
    }
    if (vocabulary_.empty() && !characters_.empty()) UseCharacters(found.dims[1]);
    has_reference_ = has_reference_ || !sample.reference.empty();
    Codes path = PathOf(found);
    Codes reference = has_reference_ ? PathOf(sample.reference[output_]) : Codes();
    for (const int64_t code : has_reference_ ? reference : path) ++num_steps_[code];
    // The blank may follow from all samples, so that paths are kept, not texts.
    Paths& paths = paths_.emplace_back(Paths{WithoutRepeats(path), WithoutRepeats(reference), {}});
    const std::string* const label = LabelOf(labels_, sample.name);
    if (label != nullptr) paths.label = *label;
  }

  TaskReport Result() const override {
    TaskReport report{.task = "text", .num_samples = paths_.size()};
    const int64_t blank = blank_.value_or(CommonClass());
    report.how = fmt::format("CTC, blank {}{}", blank, blank_ ? "" : ", the commonest class");
    const bool has_labels =
        std::ranges::any_of(paths_, [](const Paths& paths) { return paths.label.has_value(); });
    if (!labels_file_.empty() && !has_labels) report.how += "; " + NoLabelIn(labels_file_);
    ErrorRate against_float, characters, reference_characters, words, reference_words;
    std::map<std::string, int64_t> known;
    for (const Paths& paths : paths_) {
      const Codes found = WithoutBlanks(paths.found, blank);
      const Codes wanted = WithoutBlanks(paths.reference, blank);
      if (has_reference_) against_float.Add(wanted, found);
      if (!paths.label) continue;
      const Codes text = CodePoints(*paths.label), text_words = Words(*paths.label, known);
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

  void Merge(const TaskMeter& other) override {
    const auto& same = dynamic_cast<const TextMeter&>(other);
    if (blank_ != same.blank_ || vocabulary_ != same.vocabulary_ ||
        has_reference_ != same.has_reference_) {
      FailOtherSettings();
    }
    paths_.insert(paths_.end(), same.paths_.begin(), same.paths_.end());
    for (const auto& [code, count] : same.num_steps_) num_steps_[code] += count;
  }

  void Write(ByteWriter& writer) const override {
    writer.Compact(blank_ ? static_cast<uint64_t>(*blank_) + 1 : 0);
    writer.Compact(vocabulary_.size());
    for (const std::string& text : vocabulary_) writer.Text(text);
    writer.Number(static_cast<uint8_t>(has_reference_));
    writer.Compact(num_steps_.size());
    for (const auto& [code, count] : num_steps_) {
      writer.Compact(static_cast<uint64_t>(code));
      writer.Compact(count);
    }
    std::vector<Paths> sorted = paths_;
    std::ranges::sort(sorted);
    writer.Compact(sorted.size());
    for (const Paths& paths : sorted) {
      WriteCodes(paths.found, writer);
      WriteCodes(paths.reference, writer);
      writer.Number(static_cast<uint8_t>(paths.label.has_value()));
      if (paths.label) writer.Text(*paths.label);
    }
  }

  void Read(ByteReader& reader) override {
    const int64_t blank = ReadCode(reader);
    blank_ = blank > 0 ? std::optional(blank - 1) : std::nullopt;
    vocabulary_.resize(reader.Count(1));
    for (std::string& text : vocabulary_) text = reader.Text();
    has_reference_ = reader.Number<uint8_t>() != 0;
    for (size_t i = reader.Count(2); i > 0; --i) {
      const int64_t code = ReadCode(reader);
      num_steps_[code] = reader.Compact();
    }
    paths_.resize(reader.Count(3));
    for (Paths& paths : paths_) {
      paths.found = ReadCodes(reader);
      paths.reference = ReadCodes(reader);
      if (reader.Number<uint8_t>() != 0) paths.label = reader.Text();
    }
  }

 private:
  // A sample: the likeliest classes of its steps, repeats once, and its text.
  struct Paths {
    Codes found, reference;
    std::optional<std::string> label;

    auto operator<=>(const Paths&) const = default;
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

  static Codes WithoutRepeats(Codes path) {
    const auto rest = std::ranges::unique(path);
    path.erase(rest.begin(), rest.end());
    return path;
  }

  // Returns the text of a path without repeats.
  static Codes WithoutBlanks(Codes path, int64_t blank) {
    std::erase(path, blank);
    return path;
  }

  // Returns the class that most steps have.
  int64_t CommonClass() const {
    const auto most =
        std::ranges::max_element(num_steps_, {}, [](const auto& entry) { return entry.second; });
    return most == num_steps_.end() ? 0 : most->first;
  }

  static void WriteCodes(const Codes& codes, ByteWriter& writer) {
    writer.Compact(codes.size());
    for (const int64_t code : codes) writer.Compact(static_cast<uint64_t>(code));
  }

  static Codes ReadCodes(ByteReader& reader) {
    Codes codes(reader.Count(1));
    for (int64_t& code : codes) code = ReadCode(reader);
    return codes;
  }

  static int64_t ReadCode(ByteReader& reader) {
    const uint64_t code = reader.Compact();
    if (code > std::numeric_limits<int32_t>::max()) reader.FailDamaged("a class is too large");
    return static_cast<int64_t>(code);
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
  std::string labels_file_;  // "": none
  std::map<std::string, std::string> labels_;
  std::vector<Paths> paths_;
  std::map<int64_t, uint64_t> num_steps_;  // of each class, the float model's if there is one
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
