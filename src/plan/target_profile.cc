#include "plan/target_profile.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/error.h"
#include "base/text.h"

namespace bitpress::plan {
namespace {

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

void CheckTarget(Target target, const QuantPlan& plan) {
  const TargetProfile& profile = ProfileOf(target);
  for (const TensorPlan& row : plan.tensors) {
    if (!row.is_quantized()) continue;
    for (const TargetRule& rule : profile.rules) {
      const std::string why_not = rule.why_not(row);
      if (why_not.empty()) continue;
      const std::string node =
          row.uses.empty() ? "" : fmt::format(" of {} '{}'", row.uses[0].op_type, row.uses[0].node);
      Fail(ErrorCode::kUnsupported, "target {} does not take the plan: {} '{}'{} has {} ({})",
           profile.name, RoleName(row.role), row.value, node, why_not, rule.source);
    }
  }
}

}  // namespace bitpress::plan
