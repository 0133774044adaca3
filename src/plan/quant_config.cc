#include "plan/quant_config.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "base/text.h"
#include "plan/words.h"

namespace bitpress::plan {
namespace {

using formats::FormatSpec;
using formats::ScaleChoice;

// The passes of tuned presets: blocks go on from what adaquant learned. It is a macro, because the
// settings of presets are literals.
#define BITPRESS_ALL_PASSES "least_squares+gptq+adaquant+bias_correction+blocks"

// The settings for symmetric integers whose scales are powers of two, biases included.
constexpr std::string_view kShifts =
    "biases=int8,activation_scale_kind=power_of_two,weight_scale_kind=power_of_two,"
    "weight_granularity=per_tensor,activation_range=mse,weight_range=mse";

constexpr Preset kPresets[] = {
    {"INT8", "uint8", "int8", "embeddings=int8,guard=20,guard_share=1,guard_ranges=mse+min_max"},
    {"INT8_DYNAMIC", "uint8", "int8", "activation_range=dynamic_rows"},
    {"BF16", "bf16", "bf16"},
    {"FP16", "none", "none", "network=float16"},
    {"FP16_SIMULATED", "fp16", "fp16"},
    {"BFP16", "bfp16", "bfp16"},
    {"MX4", "mx4", "mx4"},
    {"MX6", "mx6", "mx6"},
    {"MX9", "mx9", "mx9"},
    {"MXFP8E5M2", "mxfp8_e5m2", "mxfp8_e5m2"},
    {"MXFP8E4M3", "mxfp8_e4m3", "mxfp8_e4m3"},
    {"MXFP6E3M2", "mxfp6_e3m2", "mxfp6_e3m2"},
    {"MXFP6E2M3", "mxfp6_e2m3", "mxfp6_e2m3"},
    {"MXFP4E2M1", "mxfp4_e2m1", "mxfp4_e2m1"},
    {"NVFP4", "nvfp4", "nvfp4", "activation_scaled=true,weight_scaled=true"},
    {"MXINT8", "mxint8", "mxint8"},
    // Four bits for most layers, and more for those that lose most by them.
    {"FOUR_BITS", "mxfp4_e2m1", "mxfp4_e2m1",
     "mean_bits=4.6,finetune=" BITPRESS_ALL_PASSES ",finetune_optional=true"},
    {"FOUR_BITS_NVFP4", "nvfp4", "nvfp4",
     "activation_scaled=true,weight_scaled=true,mean_bits=4.7,finetune=" BITPRESS_ALL_PASSES},
    // AMD Quark's integer configurations, with its types and kinds of scales, and our ranges. Their
    // weights stay int8, because a compiler may read them.
    {"XINT8", "uint8", "int8",
     "biases=int8,activation_symmetric=true,activation_scale_kind=power_of_two,"
     "weight_scale_kind=power_of_two,weight_granularity=per_tensor,activation_range=mse,"
     "weight_range=mse,integer_kernels=safe_int8"},
    {"S8S8_AAWS", "int8", "int8", "activation_symmetric=false,weight_granularity=per_tensor"},
    {"U8S8_AAWS", "uint8", "int8", "weight_granularity=per_tensor,integer_kernels=safe_int8"},
    {"U8U8_AAWA", "uint8", "uint8", "weight_symmetric=false,weight_granularity=per_tensor"},
    {"U16S8_AAWS", "uint16", "int8", "weight_granularity=per_tensor"},
    {"S16S8_ASWS", "int16", "int8", "weight_granularity=per_tensor"},
    {"A8W8", "int8", "int8", "weight_granularity=per_tensor"},
    {"A16W8", "int16", "int8", "weight_granularity=per_tensor"},
    {"INT8_CNN_DEFAULT", "uint8", "int8",
     "activation_range=min_max,weight_granularity=per_tensor,integer_kernels=safe_int8"},
    {"INT16_CNN_DEFAULT", "uint16", "int8",
     "activation_range=min_max,weight_granularity=per_tensor"},
    {"INT8_TRANSFORMER_DEFAULT", "uint8", "int8",
     "activation_range=moving_average,weight_granularity=per_tensor,integer_kernels=safe_int8"},
    {"INT16_TRANSFORMER_DEFAULT", "uint16", "int8",
     "activation_range=moving_average,weight_granularity=per_tensor"},
    // Weights only, rounded to nearest in blocks. Activations stay float, and no samples are
    // needed. Our own 4-bit ones have the scales of the least error of products, MATMUL_NBITS those
    // of the extremes, as AMD Quark and ONNX Runtime's MatMulNBitsQuantizer have them.
    {"INT4_WEIGHTS", "none", "uint4",
     "embeddings=uint8,weight_symmetric=false,weight_granularity=per_block,weight_block_size=32,"
     "weight_range=auto"},
    // A decoder loses most by the values of attention, by what leaves an MLP, and by the head,
    // which takes no bytes beside the table of embeddings if that is the same one.
    {"LM_4BIT", "none", "uint4",
     "embeddings=uint8,weight_symmetric=false,weight_granularity=per_block,weight_block_size=32,"
     "weight_range=auto",
     "roles=lm_head;attn_v;attn_kv;mlp_down: weights=uint8, optional"},
    {"INT8_WEIGHTS", "none", "int8",
     "embeddings=int8,weight_granularity=per_block,weight_block_size=128"},
    {"MATMUL_NBITS", "none", "int4", "weight_granularity=per_block,weight_block_size=128"},
    // Half of the bytes, which are decoded when the model is loaded.
    {"FP16_WEIGHTS", "none", "fp16"},
    {"INT8_CNN_ACCURATE", "uint8", "int8",
     "activation_range=percentile(99.9999),weight_granularity=per_tensor,finetune=adaround,integer_"
     "kernels=safe_int8"},
    {"INT16_CNN_ACCURATE", "uint16", "int8",
     "activation_range=percentile(99.9999),weight_granularity=per_tensor,finetune=adaround"},
    {"INT8_TRANSFORMER_ACCURATE", "uint8", "int8",
     "activation_range=percentile(99.9999),weight_granularity=per_tensor,finetune=adaround,integer_"
     "kernels=safe_int8"},
    {"INT16_TRANSFORMER_ACCURATE", "uint16", "int8",
     "activation_range=percentile(99.9999),weight_granularity=per_tensor,finetune=adaround"},
    {"VINT8", "int8", "int8", kShifts},
    {"UINT8_DYNAMIC_QUANT", "uint8", "uint8",
     "activation_range=dynamic,weight_symmetric=false,weight_granularity=per_tensor"},
    // The configurations of AMD Quark's newer interface.
    {"XINT8_QCONFIG", "int8", "int8", kShifts},
    {"VINT8_QCONFIG", "int8", "int8", kShifts},
    {"A8W8_QCONFIG", "int8", "int8", "weight_granularity=per_tensor"},
    {"A16W8_QCONFIG", "int16", "int8", "weight_granularity=per_tensor"},
    {"BF16_QCONFIG", "bf16", "bf16"},
    {"BFP16_QCONFIG", "bfp16", "bfp16"},
    // Several formats in one model. The operators that multiply get the narrow one.
    {"BF16_BFP16", "bf16", "bfp16"},
    {"BF16_MXINT8", "bf16", "mxint8"},
    {"MX9_INT8", "mx9", "int8", "weight_granularity=per_tensor"},
    {"S16S16_MIXED_S8S8", "int16", "int16",
     "activation_symmetric=false,weight_granularity=per_tensor",
     "op_types=Conv;ConvTranspose;Gemm;MatMul: activations=int8, weights=int8, biases=int8, "
     "optional"},
    {"BF16_MIXED_BFP16", "bf16", "bf16", "placement=all,dual_quant=true",
     "op_types=Conv;ConvTranspose;Gemm;MatMul: activations=bfp16, weights=bfp16, optional"},
    {"BF16_MIXED_MXINT8", "bf16", "bf16", "placement=all,dual_quant=true",
     "op_types=Conv;ConvTranspose;Gemm;MatMul: activations=mxint8, weights=mxint8, optional"},
};

// Returns the configuration of a preset with a suffix: "MX6_ADAQUANT" is MX6 with
// finetune=adaquant. BF16 and FP16 have no scale and round to nearest whatever is learned, so that
// only the weights themselves can be learned.
//
// Presets without activations are for language models, whose many weights take adaquant longer than
// blocks.
std::optional<QuantConfig> TunedConfig(std::string_view name) {
  for (const std::string_view recipe : {"adaquant", "adaround", "blocks"}) {
    const std::string lower = ToLower(name);
    const size_t length = recipe.size() + 1;
    if (lower.size() <= length || !lower.ends_with(recipe)) continue;
    if (lower[lower.size() - length] != '_') continue;
    const std::string_view base = name.substr(0, name.size() - length);
    // A FLOAT16 network has no quantizers to learn with. Their simulation has.
    QuantConfig config = ConfigByName(ToLower(base) == "fp16" ? "FP16_SIMULATED" : base);
    if (ToLower(base) == "fp16") config.name = "FP16";
    const bool has_rounding =
        config.weights != "none" && (formats::FindFormat(config.weights).is_integer() ||
                                     formats::FindFormat(config.weights).is_blocked());
    if (recipe == "adaround" && !has_rounding) {
      Fail(ErrorCode::kInvalidArgument,
           "there is no configuration '{}': {} has no rounding to learn; use {}_ADAQUANT, which "
           "learns weights and biases",
           name, config.weights, config.name);
    }
    const std::string_view blocks =
        config.activations != "none" ? BITPRESS_ALL_PASSES : "gptq+blocks";
    ApplySetting(config, "finetune", recipe == "blocks" ? blocks : recipe);
    for (const char letter : "_" + std::string(recipe)) {
      config.name += static_cast<char>(std::toupper(static_cast<unsigned char>(letter)));
    }
    return config;
  }
  return std::nullopt;
}

}  // namespace

// The choices were measured on EfficientNet-Lite0 (docs/benchmarks/accuracy.md). Integer elements
// round everywhere with the same step, so a raised exponent costs a bit in the whole block, more
// than the few values cost that saturate; floating-point elements of 6 and 8 bits lose nothing but
// their smallest values. A weight is quantized once and can afford the search.
ScaleChoice DefaultScaleChoice(const FormatSpec& spec, Role role) {
  if (!spec.has_exponent_scales()) return spec.scale_choice;  // no shared exponent to choose
  if (role != Role::kActivation) return ScaleChoice::kMse;
  const bool wide_float = spec.has_float_elements() && spec.element_bits > 4;
  return wide_float ? ScaleChoice::kCeil : ScaleChoice::kFloor;
}

std::span<const Preset> AllPresets() { return kPresets; }

QuantConfig ConfigByName(std::string_view name) {
  const std::string_view trimmed = Trim(name);
  if (std::optional<QuantConfig> tuned = TunedConfig(trimmed)) return *std::move(tuned);
  QuantConfig config;
  std::vector<std::string> known;
  for (const Preset& preset : kPresets) {
    known.emplace_back(preset.name);
    if (ToLower(preset.name) == ToLower(trimmed)) {
      config.name = preset.name;
      config.activations = preset.activations;
      config.weights = preset.weights;
      for (const std::string& setting : Split(preset.settings, ',')) {
        if (!setting.empty()) ApplySetting(config, setting);
      }
      if (!preset.rule.empty()) config.rules.push_back(ParseRule(preset.rule));
      return config;
    }
  }
  if (ToLower(trimmed) == "none") {
    config.name = "none";
    return config;
  }
  // FindFormat has more precise errors for a spelling with parameters.
  const bool has_parameters = trimmed.find('(') != std::string_view::npos;
  for (const FormatSpec& spec : formats::AllFormats()) known.push_back(spec.name);
  bool is_format = has_parameters;
  for (const FormatSpec& spec : formats::AllFormats()) {
    is_format = is_format || ToLower(trimmed) == spec.name;
  }
  if (!is_format) {
    Fail(ErrorCode::kInvalidArgument,
         "there is no configuration '{}'{}; it is one of {}, none or the name of a format", name,
         DidYouMean(trimmed, known), Join({known.data(), std::size(kPresets)}, ", "));
  }
  config.name = config.activations = config.weights =
      formats::FindFormat(has_parameters ? std::string(trimmed) : ToLower(trimmed)).name;
  return config;
}

Placement ResolvePlacement(const QuantConfig& config) {
  if (config.placement != Placement::kDefault) return config.placement;
  const auto are_integers = [](const std::string& format) {
    return format != "none" && formats::FindFormat(format).is_integer();
  };
  if (config.activation_range.is_dynamic()) return Placement::kCompute;
  if (config.activations != "none") {
    return are_integers(config.activations) ? Placement::kQdq : Placement::kCompute;
  }
  for (const Rule& rule : config.rules) {
    for (const auto& [key, value] : rule.settings) {
      if (key == "activations" && are_integers(value)) return Placement::kQdq;
    }
  }
  return Placement::kCompute;
}

namespace {

// Weights that learn in blocks get used to steps that are twice as large, not to what saturates,
// where sensitive layers have more bits. With four bits everywhere they do not.
// Quark's operators have one choice.
bool AvoidsSaturation(const QuantConfig& config, const FormatSpec& spec, Role role) {
  return role == Role::kActivation && spec.element_bits == 4 && spec.has_float_elements() &&
         spec.has_exponent_scales() && config.operators == OperatorSet::kBitpress &&
         config.mean_bits > 0 && std::ranges::count(config.finetune, FinetunePass::kBlocks) > 0;
}

ScaleChoice ScaleChoiceOf(const QuantConfig& config, const FormatSpec& spec, Role role) {
  const std::optional<ScaleChoice>& wanted =
      role == Role::kActivation ? config.activation_scale : config.weight_scale;
  if (wanted) return *wanted;
  return AvoidsSaturation(config, spec, role) ? ScaleChoice::kEven : DefaultScaleChoice(spec, role);
}

std::optional<FormatSpec> Resolve(const QuantConfig& config, Role role, const std::string& name) {
  if (name == "none" || name == "default") return std::nullopt;
  FormatSpec spec = formats::FindFormat(name);
  if (spec.is_blocked()) spec.scale_choice = ScaleChoiceOf(config, spec, role);
  spec.rounding = role == Role::kActivation ? config.activation_rounding : config.weight_rounding;
  // The request is for the weights; a bias may have another format.
  const bool is_float = spec.has_float_elements();
  if (is_float && role == Role::kBias) spec.rounding = formats::RoundingMode::kHalfToEven;
  if (is_float && spec.rounding != formats::RoundingMode::kHalfToEven) {
    Fail(ErrorCode::kInvalidArgument,
         "setting rounding: elements of {} are floating-point and round half_to_even only, not {}",
         spec.name, formats::RoundingModeName(spec.rounding));
  }
  formats::Validate(spec);
  return spec;
}

}  // namespace

std::optional<FormatSpec> ResolveFormat(const QuantConfig& config, Role role) {
  return Resolve(config, role,
                 role == Role::kActivation ? config.activations
                 : role == Role::kWeight   ? config.weights
                                           : config.biases);
}

namespace {

std::string DefaultEmbeddings(const QuantConfig& config) {
  if (config.weights == "none") return "none";
  const FormatSpec spec = formats::FindFormat(config.weights);
  if (spec.is_blocked()) return spec.element_bits >= 8 ? config.weights : "mxint8";
  if (!spec.is_integer()) return spec.element_bits == 16 ? config.weights : "none";
  if (config.activations == "none" || !config.activation_range.is_dynamic()) return "none";
  return formats::IntegerRange(spec.element_type).quant_min < 0 ? "int8" : "uint8";
}

}  // namespace

std::optional<FormatSpec> ResolveEmbeddings(const QuantConfig& config) {
  return Resolve(config, Role::kWeight,
                 config.embeddings == "default" ? DefaultEmbeddings(config) : config.embeddings);
}

bool WritesCasts(OperatorSet operators, const FormatSpec& spec) {
  return operators == OperatorSet::kCast || (operators == OperatorSet::kQuarkCast &&
                                             spec.element_type == formats::ElementType::kBFloat16);
}

std::string WhyNoOperator(OperatorSet operators, const FormatSpec& spec) {
  if (spec.is_integer() && spec.has_wider_onnx_type()) {
    return fmt::format(
        "{} is for weights: QuantizeLinear gives no codes of {} bits; use activations=none, or "
        "another format",
        spec.name, spec.element_bits);
  }
  if (operators == OperatorSet::kBitpress || spec.is_integer()) return "";
  if (operators == OperatorSet::kCast) {
    if (spec.is_float()) return "";
    return fmt::format(
        "no Cast gives {}: operators=cast is for bf16, fp16 and fp8; use operators=bitpress",
        spec.name);
  }
  if (spec.quark_name.empty()) {
    return fmt::format(
        "com.amd.quark has no operator for format {}; use operators=bitpress, or a block format",
        spec.name);
  }
  if (spec.is_block_float() && spec.scale_bits != 8) {
    return fmt::format(
        "com.amd.quark has no operator for {}: its shared exponents have 8 bits, not {}; use "
        "operators=bitpress",
        spec.name, spec.scale_bits);
  }
  return "";
}

void CheckHasOperator(OperatorSet operators, const FormatSpec& spec) {
  const std::string why_not = WhyNoOperator(operators, spec);
  if (!why_not.empty()) Fail(ErrorCode::kUnsupported, "{}", why_not);
}

bool HasHalfOperator(OperatorSet operators, const FormatSpec& spec) {
  // ExtendedDequantizeLinear gives float32.
  return !IsQuark(operators) || spec.is_blocked() || WritesCasts(operators, spec);
}

std::string_view GranularityName(Granularity granularity) {
  return WordOf<Granularity>(kGranularities, granularity);
}
Granularity ParseGranularity(std::string_view word) {
  if (word == "tensor") return Granularity::kPerTensor;
  if (word == "channel" || word == "per_channel") return Granularity::kPerAxis;
  if (word == "block") return Granularity::kPerBlock;
  return ParseWord<Granularity>(kGranularities, word);
}

std::string_view RoleName(Role role) { return WordOf<Role>(kRoles, role); }
Role ParseRole(std::string_view word) { return ParseWord<Role>(kRoles, word); }
std::string_view OperatorSetName(OperatorSet operators) {
  return WordOf<OperatorSet>(kOperatorSets, operators);
}
OperatorSet ParseOperatorSet(std::string_view word) {
  return ParseWord<OperatorSet>(kOperatorSets, word);
}

}  // namespace bitpress::plan
