// The user's request: the formats of activations, weights and biases, the places of quantizers, and
// the ways to choose scales. MakePlan turns it into a plan. A preset or a format name gives a whole
// configuration; settings (`key=value`) change single fields:
//
//   QuantConfig config = ConfigByName("MXFP4E2M1");
//   ApplySetting(config, "activations=none");
//
// One table, settings.inc, gives the fields, and how they are read, written and described. Plain
// data; all functions are pure.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/format_spec.h"
#include "ops/compute_ops.h"
#include "plan/equalization.h"
#include "plan/finetune_passes.h"
#include "plan/finetune_settings.h"
#include "plan/integer_treatment.h"
#include "plan/rule.h"

namespace bitpress::plan {

// The role of a tensor for the operator that reads it.
enum class Role {
  kActivation,  // computed at run time: an operator quantizes it in the running model
  kWeight,      // a constant parameter: quantized once, when the model is written
  kBias,        // the constant added to the result
};

// The places of quantizers of activations.
enum class Placement {
  kDefault,  // kQdq if activations are integers, else kCompute
  kCompute,  // inputs and weights of the operators that multiply: Conv, ConvTranspose, Gemm, MatMul
             // and the fused forms
  kAll,      // also every float activation around every other operator, as AMD Quark places its
             // quantizers
  kQdq,      // integers: values around the operators that ONNX Runtime fuses with them, outputs
             // included; see qdq_placement.h
};

// The operators that quantizers are written as.
enum class OperatorSet {
  kBitpress,   // bitpress::QuantizeDequantize_<format>
  kQuark,      // com.amd.quark::MXQuantizeDequantize and similar
  kCast,       // two of ONNX's Cast, to the format and back: bf16, fp16, fp8
  kQuarkCast,  // kCast for bf16, kQuark for all other formats: Quark's BF16QDQToCast
};
// Returns whether the operators are those of AMD Quark.
inline bool IsQuark(OperatorSet operators) {
  return operators == OperatorSet::kQuark || operators == OperatorSet::kQuarkCast;
}
// Returns whether the format is written as Casts.
bool WritesCasts(OperatorSet operators, const formats::FormatSpec& spec);

// The type of the network's own values.
enum class Network {
  kGiven,    // as the given model has it
  kFloat16,  // FLOAT16, but for operators that need FLOAT
};

// The request for a whole model: the settings of settings.inc, and rules.
struct QuantConfig {
  // The name of the preset, or the name of this configuration in plans and reports.
  std::string name;
#define BITPRESS_SETTING(type, key, value, ...) type key = value;
#include "plan/settings.inc"
  EqualizeOptions equalization;
  FinetuneSettings finetune_settings;
  // Other settings for some nodes or tensors. If rules disagree, the later one counts.
  std::vector<Rule> rules;

  bool operator==(const QuantConfig&) const = default;
};

// Returns the scale choice for a tensor of this role if the user gave none. No other place knows
// the defaults.
formats::ScaleChoice DefaultScaleChoice(const formats::FormatSpec& spec, Role role);

// A named configuration.
struct Preset {
  std::string_view name;  // Quark's name
  std::string_view activations;
  std::string_view weights;
  std::string_view settings = "";  // further settings: "key=value,key=value"
  std::string_view rule = "";      // see ParseRule
};
// Returns all presets.
std::span<const Preset> AllPresets();

// Returns the preset called `name` (in any case), or the configuration with weights and activations
// in the format called `name`, or that with everything float ("none"). The suffix _ADAQUANT or
// _ADAROUND adds fine-tuning. Throws Error(kInvalidArgument) with the nearest name.
QuantConfig ConfigByName(std::string_view name);

// What a setting is about.
enum class SettingScope {
  kWeights,      // the weights of a layer
  kActivations,  // what a layer reads
  kLayer,        // a layer as a whole, or both sides of it
  kModel,        // the model as a whole: it cannot stand in a rule
  kFinetune,     // learning, which a plan with all decisions does not hold
};

// A row of settings.inc, as text.
struct Setting {
  std::string_view key;
  std::string allowed;  // "compute|all", "FORMAT|none", ... for help and errors
  std::string help;     // ends with the default
  SettingScope scope = SettingScope::kLayer;
  // Sets the field. Throws Error(kInvalidArgument), whose message does not name the key.
  std::function<void(QuantConfig&, std::string_view value)> set;
  std::function<std::string(const QuantConfig&)> get;
  bool has_fraction = false;  // a number that need not be whole
  bool is_derived = false;    // sets several fields at once: not in JSON
  bool is_quiet = false;      // not in JSON at its default

  bool is_per_node() const {
    return scope != SettingScope::kModel && scope != SettingScope::kFinetune;
  }
};
// Returns all settings.
std::span<const Setting> AllSettings();
// Returns a setting. Throws Error(kInvalidArgument) with the nearest key, or because the setting is
// gone.
const Setting& FindSetting(std::string_view key);
// Returns the settings that are gone, each with the value that it had by default. Files may have
// them with that value, which means what happens without them.
std::span<const std::pair<std::string_view, std::string_view>> RemovedSettings();

// Applies one setting. Throws Error(kInvalidArgument) naming the key, with the nearest key or the
// allowed values.
void ApplySetting(QuantConfig& config, std::string_view key, std::string_view value);
// Applies one setting "key=value".
void ApplySetting(QuantConfig& config, std::string_view assignment);

// Returns JSON on one line: "name", the settings as strings, "rules".
std::string ToJson(const QuantConfig& config);
// Reads the JSON of ToJson or of a person: an optional "preset" to begin with, settings (as
// strings, numbers, true and false, or lists), "rules" as a list of objects with selectors and
// settings. Throws Error(kInvalidArgument) on broken JSON, and on unknown words with the nearest.
QuantConfig ConfigFromJson(std::string_view json);

// Returns the placement of a configuration. It is never kDefault.
Placement ResolvePlacement(const QuantConfig& config);

// Returns the format that tensors of this role get, with scale choice and rounding; nothing for
// "none".
std::optional<formats::FormatSpec> ResolveFormat(const QuantConfig& config, Role role);

// Returns the format that the tables of Gather get; nothing for "none". By default they have 8 bits
// or more: the format of the weights if that has blocks and 8 bits, mxint8 for narrower blocks, 16
// bits beside weights of 16 bits, int8 or uint8 beside integers whose activations are dynamic.
// Beside other weights they stay float.
std::optional<formats::FormatSpec> ResolveEmbeddings(const QuantConfig& config);

// Returns why the operator set has no operator that computes this format, or "".
std::string WhyNoOperator(OperatorSet operators, const formats::FormatSpec& spec);
// Throws Error(kUnsupported) with that reason.
void CheckHasOperator(OperatorSet operators, const formats::FormatSpec& spec);

// Returns whether that operator also takes and gives float16. REQUIRES: CheckHasOperator passes.
bool HasHalfOperator(OperatorSet operators, const formats::FormatSpec& spec);

// Return the word of a value, and read it back. Parsers throw Error(kInvalidArgument) with the
// allowed words.
std::string_view RoleName(Role role);
Role ParseRole(std::string_view word);
std::string_view OperatorSetName(OperatorSet operators);
OperatorSet ParseOperatorSet(std::string_view word);

}  // namespace bitpress::plan
