#include "formats/parameters.h"

#include <algorithm>
#include <array>
#include <map>
#include <vector>

#include "base/error.h"
#include "base/text.h"

namespace bitpress::formats {
namespace {

constexpr FormatParameter kBits{"bits", "bits", "bits", 16, true, &FormatSpec::element_bits};
// Shared exponents of 8 bits, blocks of 8: bfp16.
constexpr std::array<FormatParameter, 3> kOfBlockFloat{{
    kBits,
    {"block", "block_size", "block", 8, true, &FormatSpec::block_size},
    {"exponent_bits", "exponent_bits", "exponent", 8, false, &FormatSpec::scale_bits},
}};
// Shared exponents of 8 bits: mx4, mx6, mx9 and their like.
constexpr std::array<FormatParameter, 4> kOfMicroexponents{{
    kBits,
    {"block", "block_size", "block", 16, true, &FormatSpec::block_size},
    {"sub_block", "sub_block_size", "subblock", 2, false, &FormatSpec::sub_block_size},
    {"shift_bits", "sub_block_shift_bits", "shift", 1, false, &FormatSpec::sub_block_shift_bits},
}};
constexpr std::array<FormatParameter, 1> kOfMicroscaling{
    {{"block", "block_size", "block", 32, true, &FormatSpec::block_size}}};

constexpr std::array<std::string_view, 8> kBases{
    "bfp", "mx", "mxfp8_e5m2", "mxfp8_e4m3", "mxfp6_e3m2", "mxfp6_e2m3", "mxfp4_e2m1", "mxint8"};

const FormatSpec& RowOf(std::string_view name) {
  return *std::ranges::find(AllFormats(), name, &FormatSpec::name);
}

// Returns the row whose fields the parameters change.
FormatSpec Template(std::string_view base) {
  return RowOf(base == "bfp" ? "bfp16" : base == "mx" ? "mx9" : base);
}

std::string NameOf(std::string_view base, const FormatSpec& spec) {
  std::vector<std::string> words;
  for (const FormatParameter& parameter : ParametersOf(base)) {
    const int64_t value = ValueOf(spec, parameter);
    if (!parameter.is_required && value == parameter.fallback) continue;
    words.push_back(fmt::format("{}={}", parameter.key, value));
  }
  return fmt::format("{}({})", base, Join(words, ", "));
}

}  // namespace

std::string_view BaseName(const FormatSpec& spec) {
  return std::string_view(spec.name).substr(0, spec.name.find('('));
}

std::span<const FormatParameter> ParametersOf(std::string_view base) {
  if (base == "bfp") return kOfBlockFloat;
  if (base == "mx") return kOfMicroexponents;
  if (std::ranges::find(kBases, base) != kBases.end()) return kOfMicroscaling;
  return {};
}

int64_t ValueOf(const FormatSpec& spec, const FormatParameter& parameter) {
  const int64_t value = spec.*parameter.field;
  return parameter.field == &FormatSpec::element_bits ? value + spec.scale_bits : value;
}

FormatSpec MakeFormat(std::string_view base,
                      const std::function<int64_t(const FormatParameter&)>& value) {
  FormatSpec spec = Template(base);
  for (const FormatParameter& parameter : ParametersOf(base)) {
    const int64_t wanted = value(parameter);
    if (wanted < 0 || wanted > kMaxBlockSize) {
      Fail(ErrorCode::kInvalidArgument, "format {}: {}={} is not a size", base, parameter.key,
           wanted);
    }
    spec.*parameter.field = static_cast<int>(wanted);
  }
  if (ParametersOf(base).front().field == &FormatSpec::element_bits) {
    spec.element_bits -= spec.scale_bits;
  }
  spec.name = NameOf(base, spec);
  if (base != "bfp" && base != "mx" && spec.block_size == RowOf(base).block_size) spec.name = base;
  Validate(spec);
  return spec;
}

FormatSpec ParseParameters(std::string_view name) {
  const size_t open = name.find('(');
  const std::string_view base = name.substr(0, open);
  const std::span<const FormatParameter> parameters = ParametersOf(base);
  std::vector<std::string> keys;
  std::string usage, example;
  for (const FormatParameter& parameter : parameters) {
    keys.emplace_back(parameter.key);
    usage += fmt::format("{}{}=N", usage.empty() ? "" : ", ", parameter.key);
    if (!parameter.is_required) continue;
    example += fmt::format("{}{}={}", example.empty() ? "" : ", ", parameter.key,
                           parameter.key == "bits" ? 13 : 64);
  }
  example = fmt::format("{}({})", base, example);
  std::map<std::string, int64_t> values;
  for (const std::string& part : Split(name.substr(open + 1, name.size() - open - 2), ',')) {
    const size_t equals = part.find('=');
    const std::string key(Trim(std::string_view(part).substr(0, equals)));
    if (equals == std::string::npos || std::ranges::find(keys, key) == keys.end()) {
      Fail(ErrorCode::kInvalidArgument, "format '{}': '{}' is none of {}{}", name, Trim(part),
           usage, DidYouMean(key, keys));
    }
    const int64_t value = ParseInt(std::string_view(part).substr(equals + 1),
                                   fmt::format("format '{}', {}", name, key));
    const int64_t least = key == "shift_bits" ? 0 : 1;
    if (value < least || value > kMaxBlockSize) {
      Fail(ErrorCode::kInvalidArgument, "format '{}': {}={} is not a size; write {}", name, key,
           value, example);
    }
    values[key] = value;
  }
  return MakeFormat(base, [&](const FormatParameter& parameter) {
    const auto found = values.find(std::string(parameter.key));
    if (found != values.end()) return found->second;
    if (parameter.is_required) {
      Fail(ErrorCode::kInvalidArgument, "format '{}': {} is missing; write {}", name, parameter.key,
           example);
    }
    return parameter.fallback;
  });
}

std::span<const std::string_view> ParametricBases() { return kBases; }

}  // namespace bitpress::formats
