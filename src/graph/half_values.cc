#include "graph/half_values.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "base/mapped_memory.h"
#include "formats/float_bits.h"

namespace bitpress::graph {

float WidenedHalf(uint16_t half) {
  const uint32_t sign = (half & 0x8000U) << 16;
  const uint32_t exponent = (half >> 10) & 0x1FU;
  const uint32_t mantissa = half & 0x3FFU;
  if (exponent == 0x1F) return formats::FloatFromBits(sign | 0x7F800000U | mantissa << 13);
  if (exponent != 0) return formats::FloatFromBits(sign | (exponent + 112) << 23 | mantissa << 13);
  const float magnitude = static_cast<float>(mantissa) * 0x1p-24F;
  return sign != 0 ? -magnitude : magnitude;
}

uint16_t NarrowedFloat(float value) {
  constexpr uint32_t kSmallestNormal = 0x38800000U;  // 2^-14
  constexpr uint32_t kOverflows = 0x477FF000U;       // 65520, from which on rounding gives infinity
  const uint32_t bits = formats::FloatBits(value);
  const auto sign = static_cast<uint16_t>(bits >> 16 & 0x8000U);
  const uint32_t magnitude = bits & ~formats::kFloatSignBit;
  if (magnitude > formats::kFloatExponentMask) return sign | 0x7E00U;
  if (magnitude == formats::kFloatExponentMask) return sign | 0x7C00U;
  if (magnitude >= kOverflows) return sign | 0x7BFFU;
  if (magnitude < kSmallestNormal) {
    const double units = std::nearbyint(std::ldexp(formats::ToDouble(std::fabs(value)), 24));
    return static_cast<uint16_t>(sign | static_cast<uint16_t>(units));
  }
  // Half of the last kept bit is added, less one where that bit is even. A carry goes on into the
  // exponent, as it should.
  const uint32_t rounded = magnitude + 0xFFFU + (magnitude >> 13 & 1U);
  return static_cast<uint16_t>(sign | ((rounded >> 13) - (112U << 10)));
}

bool IsTypeAttribute(std::string_view name) {
  constexpr std::array<std::string_view, 4> kNames = {"to", "dtype", "output_dtype",
                                                      "output_datatype"};
  return std::ranges::find(kNames, name) != kNames.end();
}

NodeSpec CastSpec(const Model& model, const std::string& from, const std::string& to,
                  DataType type) {
  return {model.FreshNodeName(to + "_cast"),        "Cast", "", {from}, {to},
          {{"to", int64_t{static_cast<int>(type)}}}};
}

void ConvertInitializer(Model& model, const std::string& from, const std::string& to, DataType type,
                        const ConvertBytes& convert) {
  constexpr size_t kLeastSpilledBytes = size_t{1} << 20;
  const HeldInitializer source = model.HoldInitializer(from);
  const size_t num_bytes = NumBytes(type, NumElements(source.dims));
  if (num_bytes < kLeastSpilledBytes) {
    Tensor converted{type, source.dims, std::vector<std::byte>(num_bytes)};
    convert(source.bytes, converted.bytes.data());
    model.SetInitializer(to, std::move(converted));
    return;
  }
  auto file = std::make_shared<MappedMemory>(num_bytes);
  convert(source.bytes, file->data());
  file->Release();
  source.Release();
  const std::span<const std::byte> bytes{file->data(), file->size()};
  model.SetHeldInitializer(to, {type, source.dims, bytes, std::move(file), /*is_mapped=*/true});
}

}  // namespace bitpress::graph
