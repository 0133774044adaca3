// The user's wish: the formats of activations, weights and biases, the places of quantizers, and
// the ways to choose scales. MakePlan turns it into a plan. A preset or a format name gives a whole
// configuration; settings (`key=value`) change single fields:
//
//   QuantConfig config = ConfigByName("MXFP4E2M1");
//   ApplySetting(config, "activations=none");
//
// One table of settings feeds parsing, the help text, the echo in plan files and the error
// messages. Plain data; all functions are pure.
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
             // and their fused kin
  kAll,      // also every float activation around every other operator, as AMD Quark places its
             // quantizers
  kQdq,      // integers: values around the operators that ONNX Runtime fuses with them, outputs
             // included; see qdq_placement.h
};

// The operators that quantizers are written as.
enum class OperatorSet {
  kBitpress,   // bitpress::QuantizeDequantize_<format>
  kQuark,      // com.amd.quark::MXQuantizeDequantize and its kin
  kCast,       // two of ONNX's Cast, to the format and back: bf16, fp16, fp8
  kQuarkCast,  // kCast for bf16, kQuark for all other formats: Quark's BF16QDQToCast
};
// Returns whether the operators are those of AMD Quark.
inline bool IsQuark(OperatorSet operators) {
  return operators == OperatorSet::kQuark || operators == OperatorSet::kQuarkCast;
}
// Returns whether the format is written as Casts.
bool WritesCasts(OperatorSet operators, const formats::FormatSpec& spec);

// The share of the products that the guard may take from integers, unless the user gives one.
// Beyond it, a model is hardly faster than the float one.
inline constexpr double kDefaultGuardShare = 0.5;

// The wish for a whole model.
struct QuantConfig {
  // The name of the preset, or the name of this configuration in plans and reports.
  std::string name;
  // The formats by name; "none": that side stays float.
  std::string activations = "none";
  std::string weights = "none";
  // The format of biases. By "default" they are int32 where they are added to products of integers,
  // and stay float elsewhere: they are a thousandth of a model's bytes and enter sums that are
  // float anyway.
  std::string biases = "default";
  // The format of tables that Gather looks rows up in, such as embeddings of words. Few of their
  // rows are read, so that their format is about bytes only. By "default" they follow the weights
  // (ResolveEmbeddings).
  std::string embeddings = "default";
  // The format of the key-value caches of decoders: integers that attention holds, or another
  // format that rounds what enters a cache of floats.
  std::string kv_cache = "none";
  Granularity kv_cache_granularity = Granularity::kPerAxis;
  RangeMethod kv_cache_range{.kind = RangeMethod::Kind::kMse};
  Placement placement = Placement::kDefault;
  // The choice of a block's shared exponent; nothing: DefaultScaleChoice.
  std::optional<formats::ScaleChoice> activation_scale;
  std::optional<formats::ScaleChoice> weight_scale;
  // The rounding of elements. Biases have that of weights.
  formats::RoundingMode activation_rounding = formats::RoundingMode::kHalfToEven;
  formats::RoundingMode weight_rounding = formats::RoundingMode::kHalfToEven;
  OperatorSet operators = OperatorSet::kBitpress;
  // The network itself becomes one of FLOAT16, but for operators that need FLOAT.
  bool is_half_network = false;
  ops::ShortAxis short_axis = ops::ShortAxis::kFlatten;
  // The axis of blocks around convolutions and operators that do not multiply, counted from the end
  // if it is negative. Nothing: the axis that a convolution sums over, and 1 around other
  // operators.
  std::optional<int64_t> block_axis;
  // The symmetry of integer formats. Nothing: unsigned activations are asymmetric, all others
  // symmetric.
  std::optional<bool> activation_symmetric;
  std::optional<bool> weight_symmetric;
  formats::ScaleKind activation_scale_kind = formats::ScaleKind::kFloat;
  formats::ScaleKind weight_scale_kind = formats::ScaleKind::kFloat;
  RangeMethod activation_range{.kind = RangeMethod::Kind::kPercentile};
  RangeMethod weight_range{.kind = RangeMethod::Kind::kMinMax};
  Granularity weight_granularity = Granularity::kPerAxis;
  int64_t weight_block_size = 32;  // elements of a block, for Granularity::kPerBlock
  IntegerKernels integer_kernels = IntegerKernels::kSafe;
  // At most so many samples, from the start, give the scales of activations; 0: all. Fine-tuning
  // has a number of its own.
  int64_t calibration_samples = 0;
  // The least distance in dB between every output and the error that rounding activations to
  // integers brings into it. Calibration leaves activations float that cost more
  // (calibrate/guard.h). Nothing: all activations of the plan are quantized.
  std::optional<double> guard_db;
  // The most of the products of integers, as a share from 0 to 1, that the guard may make floats.
  double guard_share = kDefaultGuardShare;
  // Range methods that the guard may give activations instead of activation_range.
  std::vector<RangeMethod> guard_ranges;
  // The float model is equalized before anything else; nothing: see ResolveEqualization.
  std::optional<bool> equalize;
  EqualizeOptions equalization;
  // The inputs of matrix products are rotated in blocks of this size (rewrite/rotate.cc); 0: not.
  int64_t rotation = 0;
  // Passes of the preparation that run on request (Rewrites::passes).
  std::vector<std::string> passes;
  // The float model is smoothed with samples before it is planned; nothing: it is not.
  std::optional<SmoothWish> smooth;
  // Values in bf16, fp16 and fp8 are divided by a scale of their tensor before they are rounded.
  bool activation_scaled = false;
  bool weight_scaled = false;
  // If an operator reads a value in another format than its producer computes in, quantizers of
  // both formats stand in a row.
  bool dual_quant = false;
  // Pairs "PRODUCER>READER" of operators between which values have no quantizer
  // (joined_operators.h), in formats without blocks, or also in those with.
  std::vector<std::string> float_between;
  bool float_between_blocks = false;
  // The passes that learn weights from samples before they are quantized, in this order.
  std::vector<FinetunePass> finetune;
  FinetuneSettings finetune_settings;
  // Regular expressions (ECMAScript). A node whose whole name matches one stays float.
  std::vector<std::string> exclude_nodes;
  std::vector<std::string> exclude_op_types;
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

// A field of QuantConfig as text.
struct Setting {
  std::string_view key;
  std::string allowed;  // "compute|all", "FORMAT|none", ... for help and errors
  std::string_view help;
  // Sets the field. Throws Error(kInvalidArgument), whose message does not name the key.
  std::function<void(QuantConfig&, std::string_view value)> set;
  std::function<std::string(const QuantConfig&)> get;
  bool is_derived = false;  // sets several fields at once: not echoed
  // Not echoed at its default, so that the files of configurations without it stay as they were.
  bool is_quiet = false;
};
// Returns all settings.
std::span<const Setting> AllSettings();

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
