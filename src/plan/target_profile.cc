#include "plan/target_profile.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <span>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "ops/quantizer_nodes.h"

namespace bitpress::plan {
namespace {

// TensorRT fuses Q and DQ with symmetric scales. It has no sums of 8-bit products that saturate,
// and adds float biases.
constexpr TargetSetting kTensorRtSettings[] = {{"activations", "uint8", "int8"},
                                               {"activation_symmetric", "", "true"},
                                               {"weight_symmetric", "", "true"},
                                               {"biases", "default", "none"},
                                               {"integer_kernels", "", "vnni"}};
constexpr std::string_view kTensorRtSource = "TensorRT, working with quantized types";

constexpr TargetRule kTensorRtRules[] = {
    {[](const TensorPlan& row, const graph::Model& /*model*/) -> std::string {
       const bool is_weight = row.role == Role::kWeight;
       if (row.format == "int8" || row.format == "fp8_e4m3") return "";
       if (is_weight && row.format == "int4") return "";
       return fmt::format("format {}; it takes int8 and fp8_e4m3{}", row.format,
                          is_weight ? ", and int4 in blocks" : "");
     },
     kTensorRtSource},
    {[](const TensorPlan& row, const graph::Model& /*model*/) -> std::string {
       return row.integer && !row.integer->is_symmetric ? "codes with a zero point" : "";
     },
     kTensorRtSource},
    {[](const TensorPlan& row, const graph::Model& /*model*/) -> std::string {
       return row.role == Role::kBias ? "a quantized bias; biases stay float" : "";
     },
     kTensorRtSource},
    {[](const TensorPlan& row, const graph::Model& /*model*/) -> std::string {
       return row.is_dynamic() ? "a scale that is computed at run time" : "";
     },
     kTensorRtSource},
};

constexpr TargetRule kCudaRules[] = {
    {[](const TensorPlan& row, const graph::Model& /*model*/) -> std::string {
       return row.is_dynamic() ? "a scale that is computed at run time: its integers would be "
                                 "multiplied on the CPU, between two copies"
                               : "";
     },
     "ONNX Runtime's CUDA provider: MatMulInteger of int8 by int8 only"},
};

bool IsReadBy(const TensorPlan& row, std::initializer_list<std::string_view> op_types) {
  return std::ranges::any_of(row.uses, [&](const TensorUse& use) {
    return std::ranges::find(op_types, use.op_type) != op_types.end();
  });
}

// Returns the length of the axis along which the blocks of a constant run; 0 if it is not known.
int64_t AxisLength(const TensorPlan& row, const graph::Model& model) {
  if (!row.axis || !model.IsInitializer(row.value)) return 0;
  const std::span<const int64_t> dims = model.Initializer(row.value).dims;
  const int64_t rank = static_cast<int64_t>(dims.size());
  const int64_t axis = *row.axis < 0 ? *row.axis + rank : *row.axis;
  return axis >= 0 && axis < rank ? dims[static_cast<size_t>(axis)] : 0;
}

constexpr std::string_view kOpenVinoSource = "OpenVINO 2026.4, its ONNX frontend";

constexpr TargetRule kOpenVinoRules[] = {
    {[](const TensorPlan& row, const graph::Model& /*model*/) -> std::string {
       for (const std::string_view format : {"int4", "uint4", "int8", "uint8", "int16", "uint16"}) {
         if (row.format == format) return "";
       }
       if (row.has_scale_of_products()) return "";
       return fmt::format(
           "format {}; it takes integers of 4, 8 and 16 bits, and expands no "
           "functions of a model",
           row.format);
     },
     kOpenVinoSource},
    {[](const TensorPlan& row, const graph::Model& /*model*/) -> std::string {
       const bool is_block = row.integer && row.integer->granularity == Granularity::kPerBlock;
       if (!is_block || !IsReadBy(row, {"Conv", "ConvTranspose"})) return "";
       return "scales for blocks; weights of convolutions have one for each channel (--rule "
              "'op_types=Conv;ConvTranspose: weights=int8, weight_granularity=per_axis')";
     },
     kOpenVinoSource},
    {[](const TensorPlan& row, const graph::Model& model) -> std::string {
       const bool is_block = row.integer && row.integer->granularity == Granularity::kPerBlock;
       const int64_t length = is_block ? AxisLength(row, model) : 0;
       if (length == 0 || length % row.integer->block_size == 0) return "";
       return fmt::format(
           "blocks of {} along {} elements; they have to divide them "
           "(weight_block_size)",
           row.integer->block_size, length);
     },
     kOpenVinoSource},
};

// Standard operators and those of ONNX Runtime have no function in the model.
bool IsFunction(const graph::Node& node, const graph::Model& model) {
  return model.HasFunction(node.domain(), node.op_type());
}

constexpr TargetNodeRule kTensorRtNodeRules[] = {
    {[](const graph::Node& node, const graph::Model& model) -> std::string {
       if (node.domain().empty() || IsFunction(node, model)) return "";
       return fmt::format("an operator of domain {}; it has the standard ones", node.domain());
     },
     kTensorRtSource},
};

constexpr TargetNodeRule kCudaNodeRules[] = {
    {[](const graph::Node& node, const graph::Model& model) -> std::string {
       if (node.op_type() != "MatMulInteger" && node.op_type() != "ConvInteger") return "";
       if (node.op_type() == "MatMulInteger" &&
           model.InfoOf(node.input(0)).type == DataType::kInt8) {
         return "";
       }
       return "computed on the CPU, between two copies";
     },
     "ONNX Runtime's CUDA provider: MatMulInteger of int8 by int8 only"},
    {[](const graph::Node& node, const graph::Model& /*model*/) -> std::string {
       const bool is_on_codes =
           node.op_type().starts_with("QLinear") ||
           (node.domain() == "bitpress" && ops::ReadsCodes(node) && !ops::IsUnpack(node));
       return is_on_codes ? "computed on the CPU, between two copies (products of our library: "
                            "where that is registered)"
                          : "";
     },
     "ONNX Runtime's CUDA provider: no operators on codes but MatMulNBits and "
     "GatherBlockQuantized"},
};

constexpr TargetNodeRule kOpenVinoNodeRules[] = {
    {[](const graph::Node& node, const graph::Model& model) -> std::string {
       return IsFunction(node, model) ? "a function of the model, and it expands none" : "";
     },
     kOpenVinoSource},
    {[](const graph::Node& node, const graph::Model& /*model*/) -> std::string {
       return node.op_type() == "QLinearMatMul" || node.op_type() == "MatMulIntegerToFloat"
                  ? "an operator on codes that it does not read"
                  : "";
     },
     kOpenVinoSource},
};

constexpr TargetProfile kProfiles[] = {
    {.target = Target::kAutomatic,
     .name = "auto",
     .meaning = "bitpress for block formats, but for convolutions that are faster as floats and "
                "FLOAT16 products; portable for integers and with operators=quark",
     .products = CodeReaders::kQuick},
    {.target = Target::kPortable,
     .name = "portable",
     .meaning = "standard operators, which decode the weights when the model is loaded"},
    {.target = Target::kOnnxRuntime,
     .name = "onnxruntime",
     .meaning = "MatMulNBits and GatherBlockQuantized, which compute from the codes of integers, "
                "MXINT8, MX6, MX4, MXFP4 and MXFP6E2M3",
     .contributed = CodeReaders::kAll},
    {.target = Target::kBitpress,
     .name = "bitpress",
     .meaning = "matrix products and convolutions of our library, which compute from the codes of "
                "all block formats and are functions of standard operators without it, and "
                "MatMulNBits and GatherBlockQuantized for integers",
     .products = CodeReaders::kAll,
     .contributed = CodeReaders::kIntegers},
    {.target = Target::kTensorRt,
     .name = "tensorrt",
     .meaning = "standard operators as NVIDIA TensorRT fuses them: symmetric int8 and fp8_e4m3 "
                "between QuantizeLinear and DequantizeLinear, int4 weights in blocks, float biases",
     .storage = Storage::kQdq,
     .runtime = "TensorRT",
     .settings = kTensorRtSettings,
     .rules = kTensorRtRules,
     .node_rules = kTensorRtNodeRules},
    {.target = Target::kCuda,
     .name = "cuda",
     .meaning = "what ONNX Runtime's CUDA provider computes on the GPU: MatMulNBits and "
                "GatherBlockQuantized as for onnxruntime, our quantizers, and floats",
     .contributed = CodeReaders::kAll,
     .runtime = "a session on CUDA",
     .rules = kCudaRules,
     .node_rules = kCudaNodeRules},
    {.target = Target::kOpenVino,
     .name = "openvino",
     .meaning = "DequantizeLinear for integers, also in blocks, which OpenVINO computes with, and "
                "nothing that needs a function",
     .storage = Storage::kQdq,
     .runtime = "OpenVINO",
     .rules = kOpenVinoRules,
     .node_rules = kOpenVinoNodeRules},
};

}  // namespace

const TargetProfile& ProfileOf(Target target) {
  return *std::ranges::find(kProfiles, target, &TargetProfile::target);
}

Words<Target> TargetWords() {
  static constexpr auto kWords = [] {
    std::array<std::pair<std::string_view, Target>, std::size(kProfiles)> words;
    for (size_t i = 0; i < words.size(); ++i) words[i] = {kProfiles[i].name, kProfiles[i].target};
    return words;
  }();
  return kWords;
}

std::string_view TargetHelp() {
  static const std::string kHelp = [] {
    std::string help = "the operators of weights in blocks, and the rules of a runtime";
    for (size_t i = 0; i < std::size(kProfiles); ++i) {
      help += fmt::format("{} {}: {}", i == 0 ? "." : ";", kProfiles[i].name, kProfiles[i].meaning);
    }
    return help;
  }();
  return kHelp;
}

std::vector<std::string> AdaptTo(Target target, QuantConfig& config) {
  std::vector<std::string> changed;
  for (const TargetSetting& setting : ProfileOf(target).settings) {
    const std::string value = FindSetting(setting.key).get(config);
    if (value == setting.to || (!setting.from.empty() && value != setting.from)) continue;
    ApplySetting(config, setting.key, setting.to);
    changed.push_back(fmt::format("{}={}", setting.key, setting.to));
  }
  return changed;
}

std::vector<std::string> BrokenRules(Target target, const QuantPlan& plan,
                                     const graph::Model& model) {
  const TargetProfile& profile = ProfileOf(target);
  std::vector<std::string> broken;
  for (const TensorPlan& row : plan.tensors) {
    if (!row.is_quantized()) continue;
    for (const TargetRule& rule : profile.rules) {
      const std::string why_not = rule.why_not(row, model);
      if (why_not.empty()) continue;
      const std::string node =
          row.uses.empty() ? "" : fmt::format(" of {} '{}'", row.uses[0].op_type, row.uses[0].node);
      broken.push_back(fmt::format("{} '{}'{} has {} ({})", RoleName(row.role), row.value, node,
                                   why_not, rule.source));
    }
  }
  for (const graph::Node& node : model.AllNodes()) {
    for (const TargetNodeRule& rule : profile.node_rules) {
      const std::string why_not = rule.why_not(node, model);
      if (why_not.empty()) continue;
      broken.push_back(fmt::format("{} is {} ({})", node.Describe(), why_not, rule.source));
    }
  }
  return broken;
}

void CheckRules(Target target, const QuantPlan& plan, const graph::Model& model) {
  const std::vector<std::string> broken = BrokenRules(target, plan, model);
  if (broken.empty()) return;
  Fail(ErrorCode::kUnsupported, "target {} does not take the plan: {}", ProfileOf(target).name,
       broken.front());
}

}  // namespace bitpress::plan
