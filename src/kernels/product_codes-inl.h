// How the codes of panels become vectors of elements, for the vector code of products in blocks.
#if defined(BITPRESS_KERNELS_PRODUCT_CODES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BITPRESS_KERNELS_PRODUCT_CODES_INL_H_
#undef BITPRESS_KERNELS_PRODUCT_CODES_INL_H_
#else
#define BITPRESS_KERNELS_PRODUCT_CODES_INL_H_
#endif

#include <hwy/highway.h>

#include <cstring>

#include "kernels/byte_codes.h"
#include "kernels/product_panels.h"
#include "kernels/product_vectors-inl.h"

// Targets without such vectors only toggle the guard above.
#ifdef BITPRESS_PRODUCTS_WITH_DOT
BITPRESS_BEFORE_PRODUCTS
namespace bitpress::kernels::HWY_NAMESPACE {
BITPRESS_BEGIN_PRODUCTS

// Splits signed bytes of four neighbours into words: elements 0 and 2, and elements 1 and 3.
HWY_INLINE void SplitSigned(V8 bytes, V16& even, V16& odd) {
  const V16 words = hn::BitCast(kD16, bytes);
  even = hn::ShiftRight<8>(hn::ShiftLeft<8>(words));
  odd = hn::ShiftRight<8>(words);
}

// Splits codes in the same way.
HWY_INLINE void SplitCodes(V8 codes, V16& even, V16& odd) {
  if constexpr (kAreCodesSigned) return SplitSigned(codes, even, odd);
  const auto words = hn::BitCast(kD16u, codes);
  even = hn::BitCast(kD16, hn::And(words, hn::Set(kD16u, 0xFF)));
  odd = hn::BitCast(kD16, hn::ShiftRight<8>(words));
}

HWY_INLINE V8 LowHalves(V8 bytes) { return hn::And(bytes, hn::Set(kD8, 15)); }
HWY_INLINE V8 HighHalves(V8 bytes) { return hn::ShiftRight<4>(bytes); }
HWY_INLINE V8 HalvesOf(const uint8_t* piece, size_t step) {
  const V8 bytes = hn::LoadU(kD8, piece);
  return step == 0 ? LowHalves(bytes) : HighHalves(bytes);
}

// Readers of the codes of a group: kDepth elements of each column in kBytes, of which a vector's
// columns begin at `group`. Step s gives elements 4 s to 4 s + 3 of each column.
template <PanelCodes kCodes>
struct CodeReader;

template <>
struct CodeReader<PanelCodes::kFour> {
  static constexpr size_t kDepth = 8;
  static constexpr size_t kBytes = 4 * kPanelColumns;

  HWY_INLINE explicit CodeReader(const uint8_t* numbers) : table(hn::LoadDup128(kD8, numbers)) {}
  HWY_INLINE V8 Bytes(const uint8_t* group, size_t step) const {
    return hn::TableLookupBytes(table, HalvesOf(group, step));
  }
  HWY_INLINE void Words(const uint8_t* group, const uint8_t*, size_t step, V16& even,
                        V16& odd) const {
    SplitCodes(Bytes(group, step), even, odd);
  }

  V8 table;
};

template <>
struct CodeReader<PanelCodes::kSix> {
  static constexpr size_t kDepth = 16;
  static constexpr size_t kPiece = 4 * kPanelColumns;
  static constexpr size_t kBytes = 3 * kPiece;

  HWY_INLINE explicit CodeReader(const uint8_t*) {}
  HWY_INLINE V8 Bytes(const uint8_t* group, size_t step) const {
    const V8 low = HalvesOf(group + step / 2 * kPiece, step % 2);
    const auto upper = hn::BitCast(kD16u, hn::LoadU(kD8, group + 2 * kPiece));
    // The bits of step s lie at 2 s of each byte and are wanted at 4.
    const auto moved = step == 0   ? hn::ShiftLeft<4>(upper)
                       : step == 1 ? hn::ShiftLeft<2>(upper)
                       : step == 2 ? upper
                                   : hn::ShiftRight<2>(upper);
    return hn::Or(low, hn::And(hn::BitCast(kD8, moved), hn::Set(kD8, 0x30)));
  }
  HWY_INLINE void Words(const uint8_t* group, const uint8_t*, size_t step, V16& even,
                        V16& odd) const {
    SplitCodes(Bytes(group, step), even, odd);
  }
};

template <>
struct CodeReader<PanelCodes::kEight> {
  static constexpr size_t kDepth = 4;
  static constexpr size_t kBytes = 4 * kPanelColumns;

  HWY_INLINE explicit CodeReader(const uint8_t*) {}
  HWY_INLINE V8 Bytes(const uint8_t* group, size_t) const { return hn::LoadU(kD8, group); }
  HWY_INLINE void Words(const uint8_t* group, const uint8_t*, size_t, V16& even, V16& odd) const {
    SplitCodes(Bytes(group, 0), even, odd);
  }
};

template <>
struct CodeReader<PanelCodes::kNine> {
  static constexpr size_t kDepth = 4;
  static constexpr size_t kBytes = 4 * kPanelColumns;

  HWY_INLINE explicit CodeReader(const uint8_t*) {}
  HWY_INLINE void Words(const uint8_t* group, const uint8_t* doubled, size_t, V16& even,
                        V16& odd) const {
    HWY_ALIGN uint8_t bits[8] = {};  // vectors of few lanes read whole words of bits
    std::memcpy(bits, doubled, kVectorBytes / 16);
    const auto is_doubled = hn::LoadMaskBits(kD16, bits);
    SplitSigned(hn::LoadU(kD8, group), even, odd);
    even = hn::IfThenElse(is_doubled, hn::Add(even, even), even);
    odd = hn::IfThenElse(is_doubled, hn::Add(odd, odd), odd);
  }
};

// Words of 16 bits, as other codes are widened for many rows: no panels have them. A group has four
// elements of each column, 0 and 2 of all columns first, then 1 and 3.
constexpr PanelCodes kWideCodes{-1};

template <>
struct CodeReader<kWideCodes> {
  static constexpr size_t kDepth = 4;
  static constexpr size_t kPiece = 4 * kPanelColumns;
  static constexpr size_t kBytes = 2 * kPiece;

  HWY_INLINE explicit CodeReader(const uint8_t*) {}
  HWY_INLINE void Words(const uint8_t* group, const uint8_t*, size_t, V16& even, V16& odd) const {
    even = hn::BitCast(kD16, hn::LoadU(kD8, group));
    odd = hn::BitCast(kD16, hn::LoadU(kD8, group + kPiece));
  }
};

// Returns the units of a vector's columns.
HWY_INLINE VF UnitsAt(const uint8_t* units) {
  const auto exponents = hn::PromoteTo(kDi, hn::LoadU(kBytesOfLanes, units));
  return hn::BitCast(kDf, hn::ShiftLeft<23>(exponents));
}

// Writes the codes of a block of one panel as bytes of eight bits.
template <PanelCodes kCodes>
HWY_INLINE void WidenBlock(const ProductPanels& panels, const uint8_t* codes, uint8_t* out) {
  using Reader = CodeReader<kCodes>;
  const Reader reader(panels.table().data());
  for (size_t k = 0; k < panels.padded_block(); k += 4) {
    const size_t step = k % Reader::kDepth / 4;
    const uint8_t* const group = codes + k / Reader::kDepth * Reader::kBytes;
    for (size_t part = 0; part < kParts; ++part) {
      hn::StoreU(reader.Bytes(group + part * kVectorBytes, step), kD8,
                 out + k * kPanelColumns + part * kVectorBytes);
    }
  }
}

// Writes the codes of a block of one panel as kWideCodes.
template <PanelCodes kCodes>
HWY_INLINE void WidenBlockToWords(const ProductPanels& panels, const uint8_t* codes,
                                  const uint8_t* doubled, uint8_t* out) {
  using Reader = CodeReader<kCodes>;
  using Wide = CodeReader<kWideCodes>;
  const Reader reader(panels.table().data());
  for (size_t k = 0; k < panels.padded_block(); k += Wide::kDepth) {
    const size_t g = k / Reader::kDepth, step = k % Reader::kDepth / 4;
    uint8_t* const to = out + k / Wide::kDepth * Wide::kBytes;
    for (size_t part = 0; part < kParts; ++part) {
      V16 even, odd;
      reader.Words(codes + g * Reader::kBytes + part * kVectorBytes,
                   doubled + 4 * g + part * kVectorBytes / 16, step, even, odd);
      hn::StoreU(hn::BitCast(kD8, even), kD8, to + part * kVectorBytes);
      hn::StoreU(hn::BitCast(kD8, odd), kD8, to + Wide::kPiece + part * kVectorBytes);
    }
  }
}

BITPRESS_END_PRODUCTS
}  // namespace bitpress::kernels::HWY_NAMESPACE
BITPRESS_AFTER_PRODUCTS
#endif  // BITPRESS_PRODUCTS_WITH_DOT

#endif  // BITPRESS_KERNELS_PRODUCT_CODES_INL_H_
