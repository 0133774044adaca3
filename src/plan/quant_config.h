// The user's wish: which formats for activations, weights and biases, where quantizers stand, and
// how scales are chosen. A preset or a format name gives a whole configuration; settings
// (`key=value`) change single fields. One table of settings feeds parsing, the help text, the echo
// in plan files and the error messages. Plain data; all functions are pure.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/format_spec.h"
#include "ops/compute_ops.h"
#include "plan/equalization.h"
#include "plan/finetune_passes.h"
#include "plan/finetune_settings.h"
#include "plan/integer_treatment.h"
#include "plan/rule.h"

namespace bitpress::plan {

// What a tensor is to the operator that reads it.
enum class Role {
  kActivation,  // computed at run time: an operator quantizes it in the running model
  kWeight,      // a constant parameter: quantized once, when the model is written
  kBias,        // the constant added to the result
};

enum class Placement {
  kDefault,  // qdq where activations are integers, else compute
  kCompute,  // inputs and weights of the operators that multiply: Conv, ConvTranspose, Gemm, MatMul
             // and their fused kin
  kAll,      // also every float activation around every other operator, as AMD Quark places its
             // quantizers
  kQdq,      // integers: values around the operators that ONNX Runtime fuses with them, outputs
             // included; see qdq_placement.h
};

// Whose operator names are written into the model.
enum class OperatorSet {
  kBitpress,  // bitpress::QuantizeDequantize_<format>
  kQuark,     // com.amd.quark::MXQuantizeDequantize and its kin
  kCast,      // ONNX's Cast there and back: bf16, fp16, fp8
};

struct QuantConfig {
  // The preset, or how this configuration is called in plans and reports.
  std::string name;
  // A format name, or "none": that side stays float.
  std::string activations = "none";
  std::string weights = "none";
  // Biases are a thousandth of a model's bytes and enter sums that are float anyway: float unless
  // asked.
  std::string biases = "none";
  // Tables that Gather looks rows up in: embeddings of words. Most of them are read at few rows, so
  // their format is about bytes only; float unless asked.
  std::string embeddings = "none";
  Placement placement = Placement::kDefault;
  // How the shared exponent of a block is chosen; nothing: DefaultScaleChoice.
  std::optional<formats::ScaleChoice> activation_scale;
  std::optional<formats::ScaleChoice> weight_scale;
  formats::RoundingMode rounding = formats::RoundingMode::kHalfToEven;
  OperatorSet operators = OperatorSet::kBitpress;
  ops::ShortAxis short_axis = ops::ShortAxis::kFlatten;
  // Of integer formats. Nothing: unsigned activations asymmetric, all others symmetric.
  std::optional<bool> activation_symmetric;
  std::optional<bool> weight_symmetric;
  formats::ScaleKind activation_scale_kind = formats::ScaleKind::kFloat;
  formats::ScaleKind weight_scale_kind = formats::ScaleKind::kFloat;
  RangeMethod activation_range{.kind = RangeMethod::Kind::kPercentile};
  RangeMethod weight_range{.kind = RangeMethod::Kind::kMinMax};
  Granularity weight_granularity = Granularity::kPerAxis;
  int64_t weight_block_size = 32;                          // of per_block
  IntegerKernels integer_kernels = IntegerKernels::kSafe;  // of weights
  // Of the float model, before anything else; nothing: see ResolveEqualization.
  std::optional<bool> equalize;
  EqualizeOptions equalization;
  // Of the float model, with samples, before it is planned; nothing: not.
  std::optional<SmoothWish> smooth;
  // Of bf16, fp16 and fp8: values are divided by a scale of their tensor before they are rounded.
  bool activation_scaled = false;
  bool weight_scaled = false;
  // Where an operator reads a value in another format than the one its producer computes in, both
  // quantizers stand in a row.
  bool dual_quant = false;
  // What learns weights from samples before they are quantized, in this order.
  std::vector<FinetunePass> finetune;
  FinetuneSettings finetune_settings;
  // Regular expressions (ECMAScript); a node whose whole name matches one stays float.
  std::vector<std::string> exclude_nodes;
  std::vector<std::string> exclude_op_types;
  // Other settings for some nodes or tensors; where they disagree the later one counts.
  std::vector<Rule> rules;

  bool operator==(const QuantConfig&) const = default;
};

// The scale choice for a tensor of this role where the user gave none. The only place that knows
// the defaults.
formats::ScaleChoice DefaultScaleChoice(const formats::FormatSpec& spec, Role role);

// A named configuration.
struct Preset {
  std::string_view name;  // Quark's name
  std::string_view activations;
  std::string_view weights;
  std::string_view settings = "";  // further ones: "key=value,key=value"
  std::string_view rule = "";      // see ParseRule
};
std::span<const Preset> AllPresets();

// The preset called `name` (any case), or both sides in the format called `name`; with the suffix
// _ADAQUANT or _ADAROUND fine-tuned too. Throws
// Error(kInvalidArgument) with the nearest name.
QuantConfig ConfigByName(std::string_view name);

// One field of QuantConfig as text.
struct Setting {
  std::string_view key;
  std::string allowed;  // "compute|all", "FORMAT|none", ... for help and errors
  std::string_view help;
  std::function<void(QuantConfig&, std::string_view value)>
      set;  // throws Error(kInvalidArgument) without the key
  std::function<std::string(const QuantConfig&)> get;
  bool is_derived = false;  // sets several fields at once: not echoed
};
std::span<const Setting> AllSettings();

// Applies one setting. Throws Error(kInvalidArgument) naming the key, with the nearest key or the
// allowed values.
void ApplySetting(QuantConfig& config, std::string_view key, std::string_view value);
// The same for "key=value".
void ApplySetting(QuantConfig& config, std::string_view assignment);

// JSON on one line: "name", the settings as strings, "rules".
std::string ToJson(const QuantConfig& config);
// Reads what ToJson wrote or a person: an optional "preset" to begin with, settings (as strings,
// numbers, true and false, or lists), "rules" as a list of objects with selectors and settings.
// Throws Error(kInvalidArgument) on broken JSON, and on unknown words with the nearest.
QuantConfig ConfigFromJson(std::string_view json);

// The placement that kDefault means.
Placement ResolvePlacement(const QuantConfig& config);

// The format a side is quantized to with this configuration, scale choice and rounding filled in;
// nothing for "none".
std::optional<formats::FormatSpec> ResolveFormat(const QuantConfig& config, Role role);

// The same for the tables of Gather.
std::optional<formats::FormatSpec> ResolveEmbeddings(const QuantConfig& config);

// Throws Error(kUnsupported) if the operator set has no operator that computes this format.
void CheckHasOperator(OperatorSet operators, const formats::FormatSpec& spec);

// Whether that operator also takes and gives float16. REQUIRES: CheckHasOperator passes.
bool HasHalfOperator(OperatorSet operators, const formats::FormatSpec& spec);

std::string_view RoleName(Role role);
Role ParseRole(std::string_view word);
std::string_view OperatorSetName(OperatorSet operators);
OperatorSet ParseOperatorSet(std::string_view word);

}  // namespace bitpress::plan
