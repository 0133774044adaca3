#include "interop/quark_algorithms.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <set>
#include <string_view>

#include "base/text.h"
#include "base/words.h"
#include "interop/files.h"
#include "plan/strict_json.h"

namespace bitpress::interop {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;
using plan::ObjectReader;
using Notes = std::vector<std::string>;

enum class Algorithm {
  kSmoothQuant,
  kCle,
  kGptq,
  kBiasCorrection,
  kAdaRound,
  kAdaQuant,
  kQuarot,
  kAutoMixprecision
};
constexpr std::array<std::pair<std::string_view, Algorithm>, 8> kAlgorithms{
    {{"smooth_quant", Algorithm::kSmoothQuant},
     {"cle", Algorithm::kCle},
     {"gptq", Algorithm::kGptq},
     {"bias_correction", Algorithm::kBiasCorrection},
     {"adaround", Algorithm::kAdaRound},
     {"adaquant", Algorithm::kAdaQuant},
     {"quarot", Algorithm::kQuarot},
     {"auto_mixprecision", Algorithm::kAutoMixprecision}}};

// A word of an algorithm whose value is that of a setting, or that changes nothing for a reason.
struct Parameter {
  std::string name;
  std::string_view setting = "";
  std::string_view reason = "";
};

// The share of a bias that counts as range where Quark "appends" it, and its number of all samples.
constexpr double kBiasShare = 0.05;
constexpr double kAllSamples = 1e9;
// Options of the table of fine-tuning that are GPTQ's alone, and those that are no parameter here:
// GPTQ has the last two in another meaning (ReadGptq).
constexpr std::string_view kOfGptq[] = {"BlockSize", "PercDamp", "ActOrder"};
constexpr std::string_view kOfNone[] = {"OptimAlgorithm", "MSE", "PerChannel"};

// Returns "lr_adjust" for "LRAdjust".
std::string SnakeCase(std::string_view name) {
  const auto is_upper = [&](size_t i) { return std::isupper(static_cast<uint8_t>(name[i])) != 0; };
  std::string snake;
  for (size_t i = 0; i < name.size(); ++i) {
    const bool ends_capitals = i + 1 < name.size() && !is_upper(i + 1);
    if (i > 0 && is_upper(i) && (!is_upper(i - 1) || ends_capitals)) snake += '_';
    snake += name[i];
  }
  return ToLower(snake);
}

std::vector<Parameter> ParametersOf(Algorithm algorithm) {
  constexpr std::string_view kEvery = "every channel with a weight is scaled";
  switch (algorithm) {
    case Algorithm::kSmoothQuant:
      return {{"alpha", "smooth_quant"}};
    case Algorithm::kCle:
      return {{"cle_steps", "equalize_steps"},
              {"cle_balance_method", "", "ranges are balanced by their largest magnitude"},
              {"cle_weight_threshold", "", kEvery},
              {"cle_scale_use_threshold", "", kEvery},
              {"cle_total_layer_diff_threshold", "",
               "steps end where no factor changes by a thousandth"}};
    case Algorithm::kGptq:
    case Algorithm::kAdaRound:
    case Algorithm::kAdaQuant:
      break;
    default:
      return {};
  }
  std::vector<Parameter> parameters;
  for (const plan::FinetuneOption& option : plan::AllFinetuneOptions()) {
    if (bitpress::IsOneOf(option.name, kOfNone)) continue;
    if (bitpress::IsOneOf(option.name, kOfGptq) == (algorithm == Algorithm::kGptq)) {
      parameters.push_back({SnakeCase(option.name), option.setting, option.reason});
    }
  }
  return parameters;
}

// The passes of fine-tuning that algorithms ask for.
struct Learning {
  bool has_gptq = false;
  bool searches_clips = false;  // GPTQ's "mse"
  bool corrects_biases = false;
  std::optional<Algorithm> rounding = {};  // AdaRound or AdaQuant

  // Returns the setting finetune, in the order in which Quark learns. One word is a recipe.
  std::string text() const {
    std::vector<std::string> words;
    if (searches_clips) words.emplace_back("clip_search");
    if (has_gptq) words.emplace_back("gptq");
    if (corrects_biases || searches_clips) words.emplace_back("bias_correction");
    if (rounding) words.emplace_back(WordOf<Algorithm>(kAlgorithms, *rounding));
    return Join(words, "+");
  }
};

// The algorithms as far as they are read.
struct Reading {
  std::vector<std::pair<std::string, std::string>> settings = {};
  Learning learning = {};

  // Adds a setting whose value stands at `word`, and throws if it is no such value.
  void Add(std::string_view key, const std::string& value, const std::string& word) {
    WithContext(word, [&] {
      plan::QuantConfig tried;
      plan::ApplySetting(tried, key, value);
    });
    settings.emplace_back(key, value);
  }
};

// One object of the list. A null stands for a word that is not there.
class AlgorithmReader {
 public:
  AlgorithmReader(const json& object, std::string where)
      : object_(object), where_(std::move(where)), reader_(object, where_) {}

  bool Has(const char* key) { return reader_.Has(key) && !object_.at(key).is_null(); }
  bool Flag(const char* key, bool otherwise) { return Has(key) ? reader_.Bool(key) : otherwise; }
  int64_t Int(const char* key, int64_t otherwise) {
    return Has(key) ? reader_.Int(key) : otherwise;
  }
  // Returns the value of a word as that of a setting.
  std::string Value(const char* key) {
    return object_.at(key).is_array() ? Join(reader_.Strings(key), ";") : reader_.Text(key);
  }
  bool IsAllSamples(const char* key) {
    return object_.at(key).is_number() && reader_.Number(key) >= kAllSamples;
  }
  const std::string& where() const { return where_; }
  void Finish() {
    reader_.Has("name");
    reader_.Finish();
  }

 private:
  const json& object_;
  std::string where_;
  ObjectReader reader_;
};

void ReadParameters(Algorithm algorithm, AlgorithmReader& reader, Reading& reading, Notes& notes) {
  for (const auto& [name, setting, reason] : ParametersOf(algorithm)) {
    if (!reader.Has(name.c_str())) continue;
    if (setting.empty()) {
      notes.push_back(fmt::format("{}: {} is left out: {}", reader.where(), name, reason));
    } else if (setting != "finetune_samples" || !reader.IsAllSamples(name.c_str())) {
      reading.Add(setting, reader.Value(name.c_str()), fmt::format("{}: {}", reader.where(), name));
    }
  }
}

// GPTQ's words have the format of the weights, whatever global_config says.
void ReadGptq(AlgorithmReader& reader, Reading& reading) {
  const bool is_symmetric = reader.Flag("weight_symmetric", true);
  const int64_t bits = reader.Int("bits", 8), group_size = reader.Int("group_size", -1);
  const bool is_per_channel = reader.Flag("per_channel", false);
  const std::string format = WithContext(fmt::format("{}: bits", reader.where()),
                                         [&] { return IntegerName(bits, is_symmetric); });
  reading.Add("weights", format, reader.where());
  reading.Add("weight_symmetric", is_symmetric ? "true" : "false", reader.where());
  reading.Add("weight_granularity",
              group_size > 0   ? "per_block"
              : is_per_channel ? "per_axis"
                               : "per_tensor",
              reader.where());
  if (group_size > 0) {
    reading.Add("weight_block_size", std::to_string(group_size),
                fmt::format("{}: group_size", reader.where()));
  }
  reading.learning.has_gptq = true;
  reading.learning.searches_clips = reader.Flag("mse", false);
}

void ReadAlgorithm(const json& object, Reading& reading, Notes& notes) {
  const std::string name = ObjectReader(object, "algo_config").String("name");
  const auto algorithm = ParseWord<Algorithm>(kAlgorithms, name, "algo_config: name");
  AlgorithmReader reader(object, fmt::format("algo_config: '{}'", name));
  switch (algorithm) {
    case Algorithm::kSmoothQuant:
      reading.Add("smooth_quant", "0.5", reader.where());
      break;
    case Algorithm::kCle: {
      const bool has_bias = reader.Flag("cle_scale_append_bias", true);
      reading.Add("equalize", "on", reader.where());
      reading.Add("equalize_steps", "1", reader.where());
      reading.Add("equalize_bias", fmt::format("{}", has_bias ? kBiasShare : 0.0), reader.where());
      break;
    }
    case Algorithm::kGptq:
      ReadGptq(reader, reading);
      break;
    case Algorithm::kBiasCorrection:
      reading.learning.corrects_biases = true;
      break;
    case Algorithm::kAdaRound:
    case Algorithm::kAdaQuant:
      if (reading.learning.rounding) {
        notes.push_back(fmt::format("{} is left out: of AdaRound and AdaQuant the first one counts",
                                    reader.where()));
        return;
      }
      reading.learning.rounding = algorithm;
      break;
    case Algorithm::kQuarot:
      notes.push_back(fmt::format("{} is left out: rotations that go into the weights are not done",
                                  reader.where()));
      return;
    case Algorithm::kAutoMixprecision:
      notes.push_back(
          fmt::format("{} is left out: a plan measures nothing; scripts and `bitpress search` do",
                      reader.where()));
      return;
  }
  ReadParameters(algorithm, reader, reading, notes);
  reader.Finish();
}

// Returns the algorithms whose passes are those, nothing if there are none.
std::optional<Learning> LearningOf(const std::vector<plan::FinetunePass>& passes) {
  constexpr std::optional<Algorithm> kRoundings[] = {std::nullopt, Algorithm::kAdaRound,
                                                     Algorithm::kAdaQuant};
  for (const bool corrects_biases : {false, true}) {
    for (const auto& [has_gptq, searches_clips] :
         {std::pair(false, false), std::pair(true, false), std::pair(true, true)}) {
      for (const std::optional<Algorithm>& rounding : kRoundings) {
        const Learning learning{has_gptq, searches_clips, corrects_biases, rounding};
        if (plan::ParseFinetunePasses(learning.text()) == passes) return learning;
      }
    }
  }
  return std::nullopt;
}

// The algorithms of a configuration while they are written.
class AlgorithmWriter {
 public:
  AlgorithmWriter(const plan::QuantConfig& config, Notes& notes) : config_(config), notes_(notes) {}

  ordered_json Write() {
    LeaveOutIfChanged("rotate");
    WriteSmoothing();
    WriteEqualization();
    WriteLearning();
    return std::move(list_);
  }

 private:
  std::string Text(std::string_view key) const { return plan::FindSetting(key).get(config_); }
  bool IsChanged(std::string_view key) const {
    return Text(key) != plan::FindSetting(key).get(plan::QuantConfig());
  }
  void LeaveOut(std::string_view key) {
    notes_.push_back(
        fmt::format("{}={} is left out: AMD Quark has no word for it", key, Text(key)));
  }
  void LeaveOutIfChanged(std::string_view key) {
    if (IsChanged(key)) LeaveOut(key);
  }

  // Appends an algorithm with its parameters. Those of AdaRound and AdaQuant have defaults of their
  // own in Quark, so that only what was changed is written.
  ordered_json& Add(Algorithm algorithm) {
    ordered_json its = {{"name", WordOf<Algorithm>(kAlgorithms, algorithm)}};
    const bool has_defaults =
        algorithm == Algorithm::kAdaRound || algorithm == Algorithm::kAdaQuant;
    for (const auto& [name, setting, reason] : ParametersOf(algorithm)) {
      if (setting.empty() || (has_defaults && !IsChanged(setting))) continue;
      written_.insert(setting);
      if (setting == "finetune_op_types") {
        its[name] = config_.finetune_settings.op_types;
      } else {
        its[name] = ordered_json::parse(Text(setting));
      }
    }
    list_.push_back(std::move(its));
    return list_.back();
  }

  void WriteSmoothing() {
    if (!config_.smooth_quant) return;
    if (config_.smooth_quant->alpha) {
      Add(Algorithm::kSmoothQuant);
    } else {
      LeaveOut("smooth_quant");
    }
  }

  void WriteEqualization() {
    if (!config_.equalize.value_or(false)) return;
    const double share = config_.equalization.bias_share;
    Add(Algorithm::kCle)["cle_scale_append_bias"] = share != 0;
    if (share != 0 && share != kBiasShare) {
      notes_.push_back(fmt::format("equalize_bias={} is left out: AMD Quark takes a share of {}",
                                   Text("equalize_bias"), kBiasShare));
    }
    LeaveOutIfChanged("equalize_clips");
    LeaveOutIfChanged("equalize_clip_gain");
  }

  void WriteLearning() {
    if (config_.finetune.empty()) return;
    const std::optional<Learning> learning = LearningOf(config_.finetune);
    if (!learning || (learning->has_gptq && !HasWeightsOfGptq())) return LeaveOut("finetune");
    if (learning->has_gptq) {
      const bool is_per_block = config_.weight_granularity == plan::Granularity::kPerBlock;
      ordered_json& its = Add(Algorithm::kGptq);
      its["bits"] = IntegerBitsOf(config_.weights)->bits;
      its["group_size"] = is_per_block ? config_.weight_block_size : -1;
      its["per_channel"] = config_.weight_granularity == plan::Granularity::kPerAxis;
      its["weight_symmetric"] = config_.weight_symmetric.value_or(true);
      its["mse"] = learning->searches_clips;
    }
    if (learning->corrects_biases) Add(Algorithm::kBiasCorrection);
    if (learning->rounding) Add(*learning->rounding);
    for (const plan::Setting& setting : plan::AllSettings()) {
      const bool is_other = setting.scope == plan::SettingScope::kFinetune &&
                            setting.key != "finetune" && !written_.contains(setting.key);
      if (is_other) LeaveOutIfChanged(setting.key);
    }
  }

  // Returns whether GPTQ's words can say the format of the weights: signed integers are symmetric.
  bool HasWeightsOfGptq() const {
    const std::optional<IntegerBits> bits = IntegerBitsOf(config_.weights);
    constexpr int64_t kBits[] = {4, 8, 16};
    return bits && std::ranges::count(kBits, bits->bits) > 0 &&
           bits->is_signed == config_.weight_symmetric.value_or(true);
  }

  const plan::QuantConfig& config_;
  Notes& notes_;
  ordered_json list_ = ordered_json::array();
  std::set<std::string_view> written_ = {};  // settings that some algorithm has
};

}  // namespace

std::vector<std::pair<std::string, std::string>> ReadAlgorithms(const json& algorithms,
                                                                Notes& notes) {
  // Quark equalizes where it is told to; our default follows from the weights.
  Reading reading{.settings = {{"equalize", "off"}}};
  for (const json& object : algorithms) ReadAlgorithm(object, reading, notes);
  const std::string passes = reading.learning.text();
  if (!passes.empty()) reading.settings.emplace_back("finetune", passes);
  return std::move(reading.settings);
}

ordered_json WriteAlgorithms(const plan::QuantConfig& config, Notes& notes) {
  return AlgorithmWriter(config, notes).Write();
}

}  // namespace bitpress::interop
