// Packing and unpacking element by element. packed_tensor.h defines the bytes.
//
// Packing finds the smallest exponent that holds a block's largest magnitude, and every value that
// quantize-dequantize gives has a code there. Let e be the exponent that it used: each value is a
// multiple of 2^(e - f) within the largest one, so the found exponent is not above e. The grid of a
// smaller exponent contains that of e as far as it reaches (mantissas of floats stay, and their
// subnormals become normal), and it reaches the largest magnitude. The same holds for a sub-block.
#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "base/error.h"
#include "formats/block_scale.h"
#include "formats/float_bits.h"
#include "formats/pack.h"
#include "formats/packed_tensor.h"
#include "formats/reference.h"

namespace bitpress::formats::ref {
namespace {

// The least exponent of 8 bits. Only sub-blocks of zeros go below it, as in ref::QuantizeBlock.
// Nothing is lost, and scale * 2^-shift stays a float32 that is not zero.
constexpr int kLeastExponent = -kFloatBias;

// One block along the axis: its elements, scale and shifts.
struct Block {
  size_t first = 0;   // index of its first element
  size_t length = 0;  // number of elements, which are `stride` apart
  size_t stride = 1;
  size_t scale = 0;        // index of its scale
  size_t first_shift = 0;  // index of its first shift; the others follow `stride` apart
};

template <class Function>
void ForEachBlock(const FormatSpec& spec, int64_t outer, int64_t axis, int64_t inner,
                  Function&& function) {
  // In formats without blocks each element is a block.
  const size_t block = spec.is_blocked() ? static_cast<size_t>(spec.block_size) : 1;
  const size_t sub = spec.sub_block_size > 0 ? static_cast<size_t>(spec.sub_block_size) : block;
  const size_t length = static_cast<size_t>(axis), stride = static_cast<size_t>(inner);
  const size_t blocks = (length + block - 1) / block, subs = (length + sub - 1) / sub;
  for (size_t o = 0; o < static_cast<size_t>(outer); ++o) {
    for (size_t b = 0; b < blocks; ++b) {
      for (size_t i = 0; i < stride; ++i) {
        function(Block{(o * length + b * block) * stride + i, std::min(block, length - b * block),
                       stride, (o * blocks + b) * stride + i,
                       (o * subs + b * (block / sub)) * stride + i});
      }
    }
  }
}

size_t NumSubBlocks(const FormatSpec& spec, size_t length) {
  const size_t sub = static_cast<size_t>(spec.sub_block_size);
  return length / sub + (length % sub != 0 ? 1 : 0);
}
size_t NumShifts(const FormatSpec& spec, int64_t outer, int64_t axis, int64_t inner) {
  return static_cast<size_t>(outer) * NumSubBlocks(spec, static_cast<size_t>(axis)) *
         static_cast<size_t>(inner);
}

// The parts before packing, with a byte for each code.
struct Planes {
  std::vector<uint8_t> codes, low_codes, shifts;
};

}  // namespace

BlockCodec::BlockCodec(const FormatSpec& spec)
    : spec_(spec), sub_block_size_(static_cast<size_t>(spec.sub_block_size)) {
  BITPRESS_DCHECK(WhyNotPackable(spec).empty());
  scales_.fill(1.0f);
  if (spec.is_blocked()) scales_ = ScaleTable(spec);
}

float BlockCodec::Value(uint32_t code, uint8_t scale, int shift) const {
  // Both factors are float32, and so is the product. Nothing is rounded for codes of Encode.
  const float factor = RoundToFloat(std::ldexp(ToDouble(scales_[scale]), -shift));
  return RoundToFloat(ElementOf(spec_, code) * ToDouble(factor));
}

int BlockCodec::ShiftOf(std::span<const float> sub_block, double scale) const {
  const int max_shift = (1 << spec_.sub_block_shift_bits) - 1;
  const bool is_zero = std::all_of(sub_block.begin(), sub_block.end(), [](float y) {
    return !IsFinite(y) || (FloatBits(y) & ~kFloatSignBit) == 0;
  });
  if (is_zero) return max_shift;
  const int exponent = FloorLog2(scale);
  return std::clamp(exponent - LeastExponent(spec_, sub_block, kLeastExponent), 0, max_shift);
}

size_t BlockCodec::EncodeAt(double scale, std::span<const float> y, std::span<uint16_t> codes,
                            std::span<uint8_t> shifts) const {
  const uint8_t scale_code =
      spec_.is_blocked() ? static_cast<uint8_t>(EncodeScale(spec_, scale)) : uint8_t{0};
  size_t first_bad = y.size();
  int shift = 0;
  for (size_t i = 0; i < y.size(); ++i) {
    if (!shifts.empty() && i % sub_block_size_ == 0) {
      shift = ShiftOf(y.subspan(i, std::min(sub_block_size_, y.size() - i)), scale);
      shifts[i / sub_block_size_] = static_cast<uint8_t>(shift);
    }
    const double value = IsFinite(y[i]) ? ToDouble(y[i]) : 0;  // others have no code
    codes[i] = static_cast<uint16_t>(EncodeElement(spec_, value, std::ldexp(scale, -shift)));
    const bool is_exact =
        IsFinite(y[i]) && FloatBits(Value(codes[i], scale_code, shift)) == FloatBits(y[i]);
    if (!is_exact) first_bad = std::min(first_bad, i);
  }
  return first_bad;
}

size_t BlockCodec::Encode(std::span<const float> y, std::span<uint16_t> codes, uint8_t& scale,
                          std::span<uint8_t> shifts) const {
  BITPRESS_DCHECK(y.size() == codes.size());
  BITPRESS_DCHECK(!spec_.is_blocked() || y.size() <= static_cast<size_t>(spec_.block_size));
  BITPRESS_DCHECK(shifts.empty() || shifts.size() == NumSubBlocks(spec_, y.size()));
  scale = 0;
  if (!spec_.is_blocked()) return EncodeAt(1, y, codes, shifts);
  // The first scale that holds all values, or the one that holds the most before one without a
  // code.
  double chosen = 0, tried = 0;
  size_t first_bad = 0;
  for (const double candidate : ScalesToPack(spec_, y)) {
    tried = candidate;
    const size_t bad = EncodeAt(candidate, y, codes, shifts);
    if (chosen != 0 && bad <= first_bad) continue;
    chosen = candidate;
    first_bad = bad;
    if (bad == y.size()) break;
  }
  if (tried != chosen) EncodeAt(chosen, y, codes, shifts);
  scale = static_cast<uint8_t>(EncodeScale(spec_, chosen));
  return first_bad;
}

void BlockCodec::Decode(std::span<const uint16_t> codes, uint8_t scale,
                        std::span<const uint8_t> shifts, std::span<float> y) const {
  BITPRESS_DCHECK(y.size() == codes.size());
  BITPRESS_DCHECK(shifts.empty() || shifts.size() == NumSubBlocks(spec_, codes.size()));
  for (size_t i = 0; i < codes.size(); ++i) {
    y[i] = Value(codes[i], scale, shifts.empty() ? 0 : shifts[i / sub_block_size_]);
  }
}

PackedTensor PackTensor(const FormatSpec& spec, int64_t outer, int64_t axis, int64_t inner,
                        std::span<const float> y) {
  PackedTensor packed(SizesOf(spec, outer, axis, inner));
  CheckPackedSizes(spec, outer, axis, inner, y.size(), packed.view().sizes());
  const BlockCodec codec(spec);
  const int low_bits = LowCodePlaneBits(spec);
  const bool is_wide = CodePlaneBits(spec) > 8;
  Planes planes;
  planes.codes.resize(y.size());
  planes.low_codes.resize(y.size());
  if (!packed.shifts.empty()) planes.shifts.resize(NumShifts(spec, outer, axis, inner));
  size_t first_bad = y.size();
  ForEachBlock(spec, outer, axis, inner, [&](const Block& block) {
    std::vector<float> values(block.length);
    std::vector<uint16_t> codes(block.length);
    std::vector<uint8_t> shifts(packed.shifts.empty() ? 0 : NumSubBlocks(spec, block.length));
    for (size_t k = 0; k < block.length; ++k) values[k] = y[block.first + k * block.stride];
    uint8_t scale = 0;
    const size_t bad = codec.Encode(values, codes, scale, shifts);
    if (bad < block.length) first_bad = std::min(first_bad, block.first + bad * block.stride);
    if (spec.is_blocked()) packed.scales[block.scale] = scale;
    for (size_t k = 0; k < shifts.size(); ++k) {
      planes.shifts[block.first_shift + k * block.stride] = shifts[k];
    }
    for (size_t k = 0; k < block.length; ++k) {
      const size_t index = block.first + k * block.stride;
      if (is_wide) {
        packed.codes[2 * index] = static_cast<uint8_t>(codes[k]);
        packed.codes[2 * index + 1] = static_cast<uint8_t>(codes[k] >> 8);
      } else {
        planes.codes[index] = static_cast<uint8_t>(codes[k] >> low_bits);
        planes.low_codes[index] = static_cast<uint8_t>(codes[k] & ((1 << low_bits) - 1));
      }
    }
  });
  if (first_bad < y.size()) FailNotRepresentable(spec, first_bad, y[first_bad]);
  if (!is_wide) PackCodes(planes.codes, CodePlaneBits(spec), packed.codes);
  if (low_bits > 0) PackCodes(planes.low_codes, low_bits, packed.low_codes);
  if (!planes.shifts.empty()) PackCodes(planes.shifts, spec.sub_block_shift_bits, packed.shifts);
  return packed;
}

void UnpackTensor(const FormatSpec& spec, int64_t outer, int64_t axis, int64_t inner,
                  const PackedView& packed, std::span<float> y) {
  CheckPackedSizes(spec, outer, axis, inner, y.size(), packed.sizes());
  const BlockCodec codec(spec);
  const int low_bits = LowCodePlaneBits(spec);
  const bool is_wide = CodePlaneBits(spec) > 8;
  Planes planes;
  planes.codes.resize(y.size());
  planes.low_codes.resize(y.size());
  if (!is_wide) UnpackCodes(packed.codes, CodePlaneBits(spec), planes.codes);
  if (low_bits > 0) UnpackCodes(packed.low_codes, low_bits, planes.low_codes);
  if (!packed.shifts.empty()) {
    planes.shifts.resize(NumShifts(spec, outer, axis, inner));
    UnpackCodes(packed.shifts, spec.sub_block_shift_bits, planes.shifts);
  }
  ForEachBlock(spec, outer, axis, inner, [&](const Block& block) {
    std::vector<float> values(block.length);
    std::vector<uint16_t> codes(block.length);
    std::vector<uint8_t> shifts(packed.shifts.empty() ? 0 : NumSubBlocks(spec, block.length));
    for (size_t k = 0; k < block.length; ++k) {
      const size_t index = block.first + k * block.stride;
      codes[k] = static_cast<uint16_t>(
          is_wide ? packed.codes[2 * index] | packed.codes[2 * index + 1] << 8
                  : planes.codes[index] << low_bits | planes.low_codes[index]);
    }
    for (size_t k = 0; k < shifts.size(); ++k) {
      shifts[k] = planes.shifts[block.first_shift + k * block.stride];
    }
    codec.Decode(codes, spec.is_blocked() ? packed.scales[block.scale] : uint8_t{0}, shifts,
                 values);
    for (size_t k = 0; k < block.length; ++k) y[block.first + k * block.stride] = values[k];
  });
}

}  // namespace bitpress::formats::ref
