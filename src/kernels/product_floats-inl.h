// Products of rows of floats: how the codes of panels become floats, and their sums. For the vector
// code of block_products-inl.h, which alone includes it.
#if defined(BITPRESS_KERNELS_PRODUCT_FLOATS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BITPRESS_KERNELS_PRODUCT_FLOATS_INL_H_
#undef BITPRESS_KERNELS_PRODUCT_FLOATS_INL_H_
#else
#define BITPRESS_KERNELS_PRODUCT_FLOATS_INL_H_
#endif

#include <hwy/highway.h>

#include "kernels/product_codes-inl.h"
#include "kernels/product_sums-inl.h"
#include "kernels/product_task.h"

// Targets without such vectors only toggle the guard above.
#ifdef BITPRESS_PRODUCTS_WITH_DOT
BITPRESS_BEFORE_PRODUCTS
namespace bitpress::kernels::HWY_NAMESPACE {
BITPRESS_BEGIN_PRODUCTS

// Returns a / b, which are powers of two that are close to each other (ProductPanels).
HWY_INLINE VF Ratio(VF a, VF b) {
  const VI exponents = hn::Sub(hn::BitCast(kDi, a), hn::BitCast(kDi, b));
  return hn::BitCast(kDf, hn::Add(exponents, hn::Set(kDi, 0x3F800000)));
}

// Turns the unit of a block that holds NaN, which is infinite for whole products, into NaN.
HWY_INLINE VF NanOfInfinity(VF units) {
  const VF infinity = hn::BitCast(kDf, hn::Set(kDi, 0x7F800000));
  const VF nan = hn::BitCast(kDf, hn::Set(kDi, 0x7FC00000));
  return hn::IfThenElse(hn::Eq(units, infinity), nan, units);
}

// Reads the elements k to k + 3 of a vector's columns as floats, counted from kStart on. k is a
// multiple of four.
template <PanelCodes kCodes>
struct FloatReader {
  using Reader = CodeReader<kCodes>;

  HWY_INLINE explicit FloatReader(const ProductPanels& panels)
      : reader(panels.table().data()), offset(static_cast<uint8_t>(panels.offset())) {}

  // Returns what elements are counted from.
  HWY_INLINE float start() const {
    const bool is_counted = HWY_TARGET == HWY_AVX3 && kCodes != PanelCodes::kNine;
    return is_counted ? kWholeStart + static_cast<float>(offset) : 0.0F;
  }

  HWY_INLINE void Four(const uint8_t* codes, [[maybe_unused]] const uint8_t* doubled, size_t k,
                       size_t part, VF (&out)[4]) const {
    const uint8_t* const group = codes + k / Reader::kDepth * Reader::kBytes + part * kVectorBytes;
    VI first, second, third, fourth;
    if constexpr (kCodes == PanelCodes::kNine) {
      V16 even, odd;
      reader.Words(group, doubled + k + part * kVectorBytes / 16, 0, even, odd);
      const VI evens = hn::BitCast(kDi, even), odds = hn::BitCast(kDi, odd);
      first = hn::ShiftRight<16>(hn::ShiftLeft<16>(evens));
      second = hn::ShiftRight<16>(hn::ShiftLeft<16>(odds));
      third = hn::ShiftRight<16>(evens);
      fourth = hn::ShiftRight<16>(odds);
    } else {
      const V8 codes_of_four = reader.Bytes(group, k % Reader::kDepth / 4);
#if HWY_TARGET == HWY_AVX3
      out[0] = Code<0>(codes_of_four);
      out[1] = Code<1>(codes_of_four);
      out[2] = Code<2>(codes_of_four);
      out[3] = Code<3>(codes_of_four);
      return;
#elif BITPRESS_IS_ARM64
      const V8 numbers = hn::Sub(codes_of_four, hn::Set(kD8, offset));
      out[0] = Number<0>(numbers);
      out[1] = Number<1>(numbers);
      out[2] = Number<2>(numbers);
      out[3] = Number<3>(numbers);
      return;
#else
      const VI four = hn::BitCast(kDi, hn::Sub(codes_of_four, hn::Set(kD8, offset)));
      first = hn::ShiftRight<24>(hn::ShiftLeft<24>(four));
      second = hn::ShiftRight<24>(hn::ShiftLeft<16>(four));
      third = hn::ShiftRight<24>(hn::ShiftLeft<8>(four));
      fourth = hn::ShiftRight<24>(four);
#endif
    }
    out[0] = hn::ConvertTo(kDf, first);
    out[1] = hn::ConvertTo(kDf, second);
    out[2] = hn::ConvertTo(kDf, third);
    out[3] = hn::ConvertTo(kDf, fourth);
  }

#if HWY_TARGET == HWY_AVX3
  // Returns byte kByte of each lane as a number, counted from kWholeStart on: it is put into the
  // lowest bits, which are those of whole numbers.
  template <int kByte>
  static HWY_INLINE VF Code(V8 codes) {
    constexpr __mmask64 kLowest = 0x1111111111111111;
    const __m512i places =
        _mm512_broadcast_i32x4(_mm_setr_epi32(kByte, 4 + kByte, 8 + kByte, 12 + kByte));
    return VF{_mm512_castsi512_ps(
        _mm512_mask_shuffle_epi8(_mm512_set1_epi32(kWholeStartBits), kLowest, codes.raw, places))};
  }
#endif

#if BITPRESS_IS_ARM64
  // Returns signed byte kByte of each lane. It is put into the highest bits, as a number of 2^-24.
  template <int kByte>
  static HWY_INLINE VF Number(V8 numbers) {
    constexpr uint8_t kNone = 0x80;
    alignas(16) static constexpr uint8_t kPlaces[] = {
        kNone, kNone, kNone, kByte,     kNone, kNone, kNone, 4 + kByte,
        kNone, kNone, kNone, 8 + kByte, kNone, kNone, kNone, 12 + kByte};
    const V8 placed = hn::TableLookupBytesOr0(numbers, hn::Load(kD8, kPlaces));
    return VF{vcvtq_n_f32_s32(hn::BitCast(kDi, placed).raw, 24)};
  }
#endif

  Reader reader;
  uint8_t offset;
};

#if HWY_TARGET == HWY_AVX3
// A table of 16 numbers fits a vector, whose lanes are found by their lowest four bits.
template <>
struct FloatReader<PanelCodes::kFour> {
  HWY_INLINE explicit FloatReader(const ProductPanels& panels) {
    HWY_ALIGN float numbers[kLanes];
    for (size_t i = 0; i < kLanes; ++i) {
      numbers[i] = static_cast<float>(int{panels.table()[i]} - panels.offset());
    }
    table = hn::Load(kDf, numbers);
  }

  HWY_INLINE float start() const { return 0; }

  HWY_INLINE void Four(const uint8_t* codes, const uint8_t*, size_t k, size_t part,
                       VF (&out)[4]) const {
    using Reader = CodeReader<PanelCodes::kFour>;
    const uint8_t* const group = codes + k / Reader::kDepth * Reader::kBytes + part * kVectorBytes;
    const __m512i eight = hn::LoadU(kDi, reinterpret_cast<const int32_t*>(group)).raw;
    const unsigned first = k % Reader::kDepth < 4 ? 0 : 4;  // a bit
    for (unsigned i = 0; i < 4; ++i) {
      out[i] = VF{_mm512_permutexvar_ps(_mm512_srli_epi32(eight, first + 8 * i), table.raw)};
    }
  }

  VF table;
};
#endif

template <PanelCodes kCodes>
struct SmallFloatReader {
  HWY_INLINE float start() const { return 0; }

  HWY_INLINE void Four(const uint8_t* codes, const uint8_t*, size_t k, size_t part,
                       VF (&out)[4]) const {
    constexpr hn::Rebind<uint16_t, decltype(kDf)> kHalfBits;
    constexpr hn::RebindToSigned<decltype(kHalfBits)> kSigned;
    constexpr hn::Rebind<hwy::float16_t, decltype(kDf)> kHalf;
    for (size_t i = 0; i < 4; ++i) {
      const uint8_t* const bytes = codes + (k + i) * kPanelColumns + part * kLanes;
      auto bits = hn::BitCast(
          kSigned, hn::ShiftLeft<8>(hn::PromoteTo(kHalfBits, hn::LoadU(kBytesOfLanes, bytes))));
      if constexpr (kCodes == PanelCodes::kE4M3) {
        // The exponent has four bits. Half floats have five, of which the sign fills the first.
        bits = hn::And(hn::ShiftRight<1>(bits), hn::Set(kSigned, static_cast<int16_t>(0xBFFF)));
      }
      out[i] = hn::PromoteTo(kDf, hn::BitCast(kHalf, bits));
    }
  }
};
template <>
struct FloatReader<PanelCodes::kE4M3> : SmallFloatReader<PanelCodes::kE4M3> {
  HWY_INLINE explicit FloatReader(const ProductPanels&) {}
};
template <>
struct FloatReader<PanelCodes::kE5M2> : SmallFloatReader<PanelCodes::kE5M2> {
  HWY_INLINE explicit FloatReader(const ProductPanels&) {}
};

// Turns what a FloatReader gives of a block into values: elements times their unit, which are
// exact.
struct BlockValues {
  template <class Reader>
  HWY_INLINE BlockValues(const Reader& reader, VF units)
      : unit(NanOfInfinity(units)), less(hn::Mul(unit, hn::Set(kDf, -reader.start()))) {
    is_counted = reader.start() != 0;
  }
  HWY_INLINE VF operator()(VF number) const {
    return is_counted ? FusedMulAdd(number, unit, less) : hn::Mul(number, unit);
  }

  VF unit, less;
  bool is_counted;
};

// Writes the values of a block of one panel, the columns of an element one after another.
template <PanelCodes kCodes>
HWY_INLINE void DecodeBlock(const ProductPanels& panels, const uint8_t* codes,
                            const uint8_t* doubled, const uint8_t* units, float* out) {
  const FloatReader<kCodes> reader(panels);
  for (size_t part = 0; part < kParts; ++part) {
    const BlockValues value(reader, UnitsAt(units + part * kLanes));
    for (size_t k = 0; k < panels.padded_block(); k += 4) {
      VF numbers[4];
      reader.Four(codes, doubled, k, part, numbers);
      for (size_t i = 0; i < 4; ++i) {
        hn::StoreU(value(numbers[i]), kDf, out + (k + i) * kPanelColumns + part * kLanes);
      }
    }
  }
}

// Adds blocks [begin, end) of rows of floats. `columns` has the decoded values from block `begin`
// on, one vector of a panel after another; panels are `panel_floats` apart.
template <size_t kRows, size_t kPanels>
HWY_INLINE void AddFloats(const ProductTask& task, const float* columns, size_t panel_floats,
                          size_t row, size_t begin, size_t end, Sums<kRows, kPanels>& sums) {
  constexpr size_t kVectors = kPanels * kParts;
  const size_t depth = task.panels->padded_block();
  const float* rows[kRows];
  for (size_t r = 0; r < kRows; ++r) {
    rows[r] = reinterpret_cast<const float*>(task.rows->elements(row + r)) + begin * depth;
  }
  LoopSums<kRows, kPanels> local = sums;
  HWY_UNROLL(kIsArm ? 1 : 4)
  for (size_t k = 0; k < (end - begin) * depth; ++k) {
    VF values[kVectors];
    for (size_t v = 0; v < kVectors; ++v) {
      values[v] = hn::LoadU(
          kDf, columns + v / kParts * panel_floats + k * kPanelColumns + v % kParts * kLanes);
    }
    for (size_t r = 0; r < kRows; ++r) {
      const VF factor = hn::Set(kDf, rows[r][k]);
      for (size_t v = 0; v < kVectors; ++v) {
        local.values[r][v] = FusedMulAdd(factor, values[v], local.values[r][v]);
      }
    }
  }
  if constexpr (kIsArm) sums = local;
}

// Adds a block of a row of floats, whose columns are decoded on the way. If kIsInUnits, the sums
// are counted in units of the blocks, and `units` has those of the block before it; otherwise they
// are plain numbers. It is no lambda, because Clang gives lambdas no instruction sets of a pragma.
template <bool kIsInUnits, PanelCodes kCodes, size_t kPanels>
HWY_INLINE void AddFloatBlock(const FloatReader<kCodes>& reader, const TileCodes& tile, size_t b,
                              size_t depth, const float* factors, VF (&units)[kPanels * kParts],
                              VF (&sums)[kPanels * kParts]) {
  constexpr size_t kVectors = kPanels * kParts;
  const VF start = hn::Set(kDf, reader.start());
  for (size_t v = 0; v < kVectors; ++v) {
    const VF unit = Sums<1, kPanels>::Units(tile, b, v);
    if constexpr (kIsInUnits) sums[v] = hn::Mul(sums[v], Ratio(units[v], unit));
    units[v] = unit;
  }
  HWY_UNROLL(kIsArm ? 1 : 4)
  for (size_t k = 0; k < depth; k += 4) {
    for (size_t v = 0; v < kVectors; ++v) {
      const size_t panel = v / kParts;
      VF numbers[4];
      reader.Four(tile.codes + panel * tile.panel_bytes + b * tile.block_bytes,
                  tile.doubled + panel * tile.doubled_panel_bytes + b * tile.doubled_block_bytes, k,
                  v % kParts, numbers);
      for (size_t i = 0; i < 4; ++i) {
        VF value;
        if constexpr (kIsInUnits) {
          value = reader.start() != 0 ? hn::Sub(numbers[i], start) : numbers[i];
        } else {
          value = BlockValues(reader, units[v])(numbers[i]);
        }
        sums[v] = FusedMulAdd(hn::Set(kDf, factors[k + i]), value, sums[v]);
      }
    }
  }
}

// Adds all blocks of a row of floats.
template <PanelCodes kCodes, size_t kPanels>
HWY_INLINE void AddFloatRow(const ProductTask& task, const TileCodes& tile, size_t row,
                            size_t num_blocks, Sums<1, kPanels>& sums) {
  constexpr size_t kVectors = kPanels * kParts;
  const FloatReader<kCodes> reader(*task.panels);
  const size_t depth = task.panels->padded_block();
  const auto* factors = reinterpret_cast<const float*>(task.rows->elements(row));
  VF units[kVectors];
  for (size_t v = 0; v < kVectors; ++v) units[v] = hn::Set(kDf, 1.0F);
  // Sums that stay in the range of normal numbers may be counted in units of each block in turn:
  // powers of two do not change how they are rounded. That saves a product for each element.
  if (task.panels->has_close_units() && task.rows->has_close_floats()) {
    for (size_t b = 0; b < num_blocks; ++b, factors += depth) {
      AddFloatBlock<true, kCodes, kPanels>(reader, tile, b, depth, factors, units, sums.values[0]);
    }
    for (size_t v = 0; v < kVectors; ++v) {
      sums.values[0][v] = hn::Mul(sums.values[0][v], units[v]);
    }
    return;
  }
  for (size_t b = 0; b < num_blocks; ++b, factors += depth) {
    AddFloatBlock<false, kCodes, kPanels>(reader, tile, b, depth, factors, units, sums.values[0]);
  }
}

BITPRESS_END_PRODUCTS
}  // namespace bitpress::kernels::HWY_NAMESPACE
BITPRESS_AFTER_PRODUCTS
#endif  // BITPRESS_PRODUCTS_WITH_DOT

#endif  // BITPRESS_KERNELS_PRODUCT_FLOATS_INL_H_
