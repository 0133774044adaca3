// Packing and unpacking element by element; packed_tensor.h says what is stored.
#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "formats/float_bits.h"
#include "formats/pack.h"
#include "formats/packed_tensor.h"
#include "formats/reference.h"

namespace bitpress::formats::ref {
namespace {

// No sub-block that is not all zeros goes below the least exponent of 8 bits, as in
// ref::QuantizeBlock. Nothing is lost, and scale * 2^-shift stays a float32 that is not zero.
constexpr int kLeastExponent = -kFloatBias;

// The smallest exponent with which a magnitude is not above limit * 2^exponent. REQUIRES: magnitude
// is not zero.
int LeastExponent(double magnitude, double limit) {
  const int e = FloorLog2(magnitude) - FloorLog2(limit);
  return magnitude <= std::ldexp(limit, e) ? e : e + 1;
}

// The smallest exponent with which no finite value of `part` saturates; `least` for zeros. Two's
// complement reaches further down than up, so that this is not the exponent of ScaleChoice::kCeil,
// which FakeQuantize cannot reverse: -2, -1.75 in MXINT8 would move to another grid.
int LeastExponent(const FormatSpec& spec, std::span<const float> part, int least) {
  const bool is_twos_complement =
      !IsFloatElement(spec.element_type) && spec.element_type != ElementType::kSignMagnitude;
  const double largest = RangeOf(spec).max_value;
  int exponent = least;
  for (const float y : part) {
    const double value = ToDouble(y);
    if (!IsFinite(y) || value == 0) continue;
    const double limit = is_twos_complement && value < 0 ? 2.0 : largest;
    exponent = std::max(exponent, LeastExponent(std::fabs(value), limit));
  }
  return exponent;
}

// The code nearest to y at that exponent. Not a number: any code.
uint32_t NearestCode(const FormatSpec& spec, float y, int exponent) {
  if (!IsFinite(y)) return 0;
  if (IsFloatElement(spec.element_type)) {
    return EncodeFloat(std::ldexp(ToDouble(y), -exponent), spec.element_type);
  }
  const int fraction_bits = RangeOf(spec).fraction_bits;
  const double top = std::ldexp(1.0, spec.element_bits - 1);
  const double steps = std::nearbyint(std::ldexp(ToDouble(y), fraction_bits - exponent));
  const double code = std::clamp(steps, -top, top - 1);
  const uint32_t sign = 1u << (spec.element_bits - 1);
  if (spec.element_type == ElementType::kSignMagnitude) {
    const uint32_t magnitude = static_cast<uint32_t>(std::min(std::fabs(code), top - 1));
    return magnitude | (std::signbit(steps) ? sign : 0u);
  }
  return static_cast<uint32_t>(static_cast<int32_t>(code)) & (2 * sign - 1);
}

// What the decoder makes of an element and a scale: both are float32, and so is the product.
float Product(float element, float scale) {
  return RoundToFloat(ToDouble(element) * ToDouble(scale));
}

// What the tables of a format say about a code.
class Decoder {
 public:
  explicit Decoder(const FormatSpec& spec)
      : low_bits_(LowCodePlaneBits(spec)), elements_(ElementTable(spec)) {
    scales_.fill(1.0f);
    if (spec.is_blocked()) scales_ = ScaleTable(spec);
  }

  float Scale(uint8_t scale_code, int shift) const {
    return RoundToFloat(std::ldexp(ToDouble(scales_[scale_code]), -shift));
  }
  float Value(uint8_t high, uint8_t low, float scale) const {
    const float sign = low_bits_ > 0 && high >= 128 ? -1.0f : 1.0f;
    const float element = elements_[high];
    return Product(low_bits_ > 0 ? element + sign * static_cast<float>(low) : element, scale);
  }

 private:
  int low_bits_;
  std::vector<float> elements_;
  std::array<float, 256> scales_;
};

// One block along the axis: where it lies and what belongs to it.
struct Block {
  size_t first = 0;   // element
  size_t length = 0;  // elements, `stride` apart
  size_t stride = 1;
  size_t scale = 0;        // index of its scale
  size_t first_shift = 0;  // index of its first shift; the others follow `stride` apart
};

template <class Function>
void ForEachBlock(const FormatSpec& spec, int64_t outer, int64_t axis, int64_t inner,
                  Function&& function) {
  // Without blocks each element is one.
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

// How many sub-blocks a tensor has.
size_t NumShifts(const FormatSpec& spec, int64_t outer, int64_t axis, int64_t inner) {
  const int64_t subs = axis / spec.sub_block_size + (axis % spec.sub_block_size != 0 ? 1 : 0);
  return static_cast<size_t>(outer * subs * inner);
}

// The parts with a byte for each code, as they are before packing.
struct Planes {
  std::vector<uint8_t> high, low, shifts;
};

class Packer {
 public:
  Packer(const FormatSpec& spec, std::span<const float> y, Planes& planes,
         std::span<uint8_t> scales)
      : spec_(spec), decoder_(spec), y_(y), planes_(planes), scales_(scales) {}

  void Pack(const Block& block) {
    std::vector<float> values(block.length);
    for (size_t k = 0; k < block.length; ++k) values[k] = y_[block.first + k * block.stride];
    if (!spec_.is_blocked()) return PackPart(block, 0, values, 0, 1.0f);
    const BlockRange range = RangeOf(spec_);
    const int exponent = std::min(LeastExponent(spec_, values, range.min_shared_exponent),
                                  range.max_shared_exponent);
    const uint8_t scale = static_cast<uint8_t>(exponent - range.min_shared_exponent);
    scales_[block.scale] = scale;
    const size_t sub =
        spec_.sub_block_size > 0 ? static_cast<size_t>(spec_.sub_block_size) : block.length;
    for (size_t begin = 0; begin < block.length; begin += sub) {
      const auto part = std::span(values).subspan(begin, std::min(sub, block.length - begin));
      const int shift = ShiftOf(part, exponent);
      if (!planes_.shifts.empty()) {
        planes_.shifts[block.first_shift + begin / sub * block.stride] =
            static_cast<uint8_t>(shift);
      }
      PackPart(block, begin, part, exponent - shift, decoder_.Scale(scale, shift));
    }
  }

  // Index of the first element that has no exact code, the number of elements if there is none.
  size_t first_bad() const { return first_bad_; }

 private:
  int ShiftOf(std::span<const float> sub_block, int exponent) const {
    if (spec_.sub_block_size == 0) return 0;
    const int max_shift = (1 << spec_.sub_block_shift_bits) - 1;
    const bool is_zero = std::all_of(sub_block.begin(), sub_block.end(), [](float y) {
      return !IsFinite(y) || (FloatBits(y) & ~kFloatSignBit) == 0;
    });
    if (is_zero) return max_shift;
    const int wanted = LeastExponent(spec_, sub_block, kLeastExponent);
    return std::clamp(exponent - wanted, 0, max_shift);
  }

  void PackPart(const Block& block, size_t begin, std::span<const float> part, int exponent,
                float scale) {
    const int low_bits = LowCodePlaneBits(spec_);
    for (size_t k = 0; k < part.size(); ++k) {
      const size_t index = block.first + (begin + k) * block.stride;
      const uint32_t code = NearestCode(spec_, part[k], exponent);
      planes_.high[index] = static_cast<uint8_t>(code >> low_bits);
      const uint8_t low = static_cast<uint8_t>(code & ((1u << low_bits) - 1));
      if (low_bits > 0) planes_.low[index] = low;
      const float decoded = decoder_.Value(planes_.high[index], low, scale);
      if (!IsFinite(part[k]) || FloatBits(decoded) != FloatBits(part[k])) {
        first_bad_ = std::min(first_bad_, index);
      }
    }
  }

  const FormatSpec& spec_;
  Decoder decoder_;
  std::span<const float> y_;
  Planes& planes_;
  std::span<uint8_t> scales_;
  size_t first_bad_ = y_.size();
};

// 16-bit codes of formats without blocks, little-endian.
PackedTensor PackWide(const FormatSpec& spec, std::span<const float> y, PackedTensor packed) {
  for (size_t i = 0; i < y.size(); ++i) {
    const uint32_t code = IsFinite(y[i]) ? EncodeFloat(ToDouble(y[i]), spec.element_type) : 0;
    const float decoded = RoundToFloat(DecodeFloat(code, spec.element_type));
    if (FloatBits(decoded) != FloatBits(y[i])) FailNotRepresentable(spec, i, y[i]);
    packed.codes[2 * i] = static_cast<uint8_t>(code);
    packed.codes[2 * i + 1] = static_cast<uint8_t>(code >> 8);
  }
  return packed;
}

void UnpackWide(const FormatSpec& spec, std::span<const uint8_t> codes, std::span<float> y) {
  for (size_t i = 0; i < y.size(); ++i) {
    const uint32_t code = codes[2 * i] | static_cast<uint32_t>(codes[2 * i + 1]) << 8;
    y[i] = RoundToFloat(DecodeFloat(code, spec.element_type));
  }
}

}  // namespace

PackedTensor PackTensor(const FormatSpec& spec, int64_t outer, int64_t axis, int64_t inner,
                        std::span<const float> y) {
  PackedTensor packed(SizesOf(spec, outer, axis, inner));
  CheckPackedSizes(spec, outer, axis, inner, y.size(), packed.view().sizes());
  if (CodePlaneBits(spec) > 8) return PackWide(spec, y, std::move(packed));
  Planes planes;
  planes.high.resize(y.size());
  if (LowCodePlaneBits(spec) > 0) planes.low.resize(y.size());
  if (!packed.shifts.empty()) planes.shifts.resize(NumShifts(spec, outer, axis, inner));
  Packer packer(spec, y, planes, packed.scales);
  ForEachBlock(spec, outer, axis, inner, [&](const Block& block) { packer.Pack(block); });
  if (packer.first_bad() < y.size()) {
    FailNotRepresentable(spec, packer.first_bad(), y[packer.first_bad()]);
  }
  PackCodes(planes.high, CodePlaneBits(spec), packed.codes);
  if (!planes.low.empty()) PackCodes(planes.low, LowCodePlaneBits(spec), packed.low_codes);
  if (!planes.shifts.empty()) PackCodes(planes.shifts, spec.sub_block_shift_bits, packed.shifts);
  return packed;
}

void UnpackTensor(const FormatSpec& spec, int64_t outer, int64_t axis, int64_t inner,
                  const PackedView& packed, std::span<float> y) {
  CheckPackedSizes(spec, outer, axis, inner, y.size(), packed.sizes());
  if (CodePlaneBits(spec) > 8) return UnpackWide(spec, packed.codes, y);
  Planes planes;
  planes.high.resize(y.size());
  planes.low.resize(y.size());
  UnpackCodes(packed.codes, CodePlaneBits(spec), planes.high);
  if (!packed.low_codes.empty()) {
    UnpackCodes(packed.low_codes, LowCodePlaneBits(spec), planes.low);
  }
  if (!packed.shifts.empty()) {
    planes.shifts.resize(NumShifts(spec, outer, axis, inner));
    UnpackCodes(packed.shifts, spec.sub_block_shift_bits, planes.shifts);
  }
  const Decoder decoder(spec);
  const size_t sub = static_cast<size_t>(std::max(spec.sub_block_size, 1));
  ForEachBlock(spec, outer, axis, inner, [&](const Block& block) {
    const uint8_t scale_code = spec.is_blocked() ? packed.scales[block.scale] : 0;
    for (size_t k = 0; k < block.length; ++k) {
      const size_t index = block.first + k * block.stride;
      const int shift =
          planes.shifts.empty() ? 0 : planes.shifts[block.first_shift + k / sub * block.stride];
      const float scale = decoder.Scale(scale_code, shift);
      y[index] = decoder.Value(planes.high[index], planes.low[index], scale);
    }
  });
}

}  // namespace bitpress::formats::ref
