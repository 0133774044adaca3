// Products of rows of floats: how the codes of panels become floats, and their sums. For the vector
// code of block_products-inl.h, which alone includes it.
#if defined(BITPRESS_KERNELS_PRODUCT_FLOATS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BITPRESS_KERNELS_PRODUCT_FLOATS_INL_H_
#undef BITPRESS_KERNELS_PRODUCT_FLOATS_INL_H_
#else
#define BITPRESS_KERNELS_PRODUCT_FLOATS_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>

#include "kernels/chains-inl.h"
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

template <>
struct FloatReader<PanelCodes::kBfloat16> {
  HWY_INLINE explicit FloatReader(const ProductPanels&) {}
  HWY_INLINE float start() const { return 0; }

  HWY_INLINE void Four(const uint8_t* codes, const uint8_t*, size_t k, size_t part,
                       VF (&out)[4]) const {
    const VI upper_half = hn::Set(kDi, static_cast<int32_t>(0xFFFF0000U));
    for (size_t i = 0; i < 4; i += 2) {
      const uint8_t* const pairs = codes + (k + i) * 2 * kPanelColumns + part * kVectorBytes;
      const VI both = hn::LoadU(kDi, reinterpret_cast<const int32_t*>(pairs));
      out[i] = hn::BitCast(kDf, hn::ShiftLeft<16>(both));
      out[i + 1] = hn::BitCast(kDf, hn::And(both, upper_half));
    }
  }
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

// Decoded columns: one vector of a panel after another for each element, panels `panel_floats`
// apart.
struct DecodedColumns {
  const float* values;
  size_t panel_floats;

  HWY_INLINE const float* vector(size_t v) const {
    return values + v / kParts * panel_floats + v % kParts * kLanes;
  }
};

// Adds the products of element k to chains.
template <size_t kRows, size_t kVectors>
HWY_INLINE void AddElement(const float* const (&columns)[kVectors], const float* const* rows,
                           size_t k, Chains<kRows, kVectors>& chains) {
  VF values[kVectors];
  HWY_UNROLL(8)
  for (size_t v = 0; v < kVectors; ++v) values[v] = hn::LoadU(kDf, columns[v] + k * kPanelColumns);
  AddToChains<kRows, kVectors>(rows, k, values, chains);
}

// Does so for elements from `begin` to before `end`, `kStep` apart.
template <size_t kStep, size_t kRows, size_t kVectors>
HWY_INLINE void AddProducts(const float* const (&columns)[kVectors], const float* const* rows,
                            size_t begin, size_t end, Chains<kRows, kVectors>& chains) {
  HWY_UNROLL(kIsArm ? 1 : 4)
  for (size_t k = begin; k < end; k += kStep) {
    AddElement<kRows, kVectors>(columns, rows, k, chains);
  }
}

// Adds elements [begin, end), a part, to sums, of which a row's are `stride` apart. These functions
// are not inlined, so that all registers are for the chains. With 32 registers both kinds of chains
// of some vectors run together.
template <size_t kRows, size_t kVectors>
HWY_NOINLINE void AddBothChains(const DecodedColumns& decoded, size_t vector,
                                const float* const* rows, size_t begin, size_t end, VF* sums,
                                size_t stride) {
  const float* columns[kVectors];
  HWY_UNROLL(8)
  for (size_t v = 0; v < kVectors; ++v) columns[v] = decoded.vector(vector + v);
  Chains<kRows, kVectors> even, odd;
  ClearChains<kRows, kVectors>(even);
  ClearChains<kRows, kVectors>(odd);
  HWY_UNROLL(2)
  for (size_t k = begin; k < end; k += 2) {
    AddElement<kRows, kVectors>(columns, rows, k, even);
    AddElement<kRows, kVectors>(columns, rows, k + 1, odd);
  }
  AddPartTo<kRows, kVectors>(even, odd, sums, stride);
}

// With fewer, those of odd elements follow those of even ones, which lie in memory meanwhile.
template <size_t kRows, size_t kVectors>
HWY_NOINLINE void AddChainsInTurn(const DecodedColumns& decoded, const float* const* rows,
                                  size_t begin, size_t end, VF* sums) {
  const float* columns[kVectors];
  HWY_UNROLL(8)
  for (size_t v = 0; v < kVectors; ++v) columns[v] = decoded.vector(v);
  HWY_ALIGN float even[kRows * kVectors * kLanes];
  Chains<kRows, kVectors> chains;
  ClearChains<kRows, kVectors>(chains);
  AddProducts<2, kRows, kVectors>(columns, rows, begin, end, chains);
  HWY_UNROLL(8)
  for (size_t r = 0; r < kRows; ++r) {
    HWY_UNROLL(8)
    for (size_t v = 0; v < kVectors; ++v) {
      hn::Store(chains[r][v], kDf, even + (r * kVectors + v) * kLanes);
    }
  }
  ClearChains<kRows, kVectors>(chains);
  AddProducts<2, kRows, kVectors>(columns, rows, begin + 1, end, chains);
  HWY_UNROLL(8)
  for (size_t r = 0; r < kRows; ++r) {
    HWY_UNROLL(8)
    for (size_t v = 0; v < kVectors; ++v) {
      const size_t i = r * kVectors + v;
      sums[i] = hn::Add(sums[i], hn::Add(hn::Load(kDf, even + i * kLanes), chains[r][v]));
    }
  }
}

template <size_t kRows, size_t kVectors>
HWY_INLINE void AddPart(const DecodedColumns& decoded, const float* const* rows, size_t begin,
                        size_t end, VF* sums) {
  if constexpr (kParts > 1 && !kIsArm) {
    AddChainsInTurn<kRows, kVectors>(decoded, rows, begin, end, sums);
  } else {
    constexpr size_t kTogether = std::min(kVectors, kChainVectors);
    static_assert(kVectors % kTogether == 0);
    for (size_t v = 0; v < kVectors; v += kTogether) {
      AddBothChains<kRows, kTogether>(decoded, v, rows, begin, end, sums + v, kVectors);
    }
  }
}

// Adds blocks [begin, end) of rows of floats, the first of which begins a part. `decoded` has the
// values from block `begin` on.
template <size_t kRows, size_t kPanels>
HWY_INLINE void AddFloats(const ProductTask& task, const DecodedColumns& decoded, size_t row,
                          size_t begin, size_t end, Sums<kRows, kPanels>& sums) {
  constexpr size_t kVectors = kPanels * kParts;
  const ProductPanels& panels = *task.panels;
  const size_t depth = panels.padded_block(), total = (end - begin) * depth;
  const float* rows[kRows];
  for (size_t r = 0; r < kRows; ++r) {
    rows[r] = reinterpret_cast<const float*>(task.rows->elements(row + r)) + begin * depth;
  }
  if (task.sums == formats::ProductSums::kChain) {
    const float* columns[kVectors];
    for (size_t v = 0; v < kVectors; ++v) columns[v] = decoded.vector(v);
    LoopSums<kRows, kPanels> local = sums;
    AddProducts<1, kRows, kVectors>(columns, rows, 0, total, local.values);
    if constexpr (kIsCopied) sums = local;
    return;
  }
  const size_t blocks = panels.blocks_of_part() * depth, part = panels.part_depth();
  for (size_t first = 0; first < total; first += blocks) {
    const size_t last = std::min(first + blocks, total);
    for (size_t k = first; k < last; k += part) {
      AddPart<kRows, kVectors>(decoded, rows, k, std::min(k + part, last), sums.values[0]);
    }
  }
}

// The chains of one row: of a part, or one alone, which then are the even ones. If kIsInUnits, they
// are counted in units of the block that they are in.
template <bool kIsInUnits, bool kIsChain, size_t kPanels>
struct RowChains {
  static constexpr size_t kVectors = kPanels * kParts;
  VF even[kVectors], odd[kVectors], units[kVectors];

  HWY_INLINE RowChains() {
    for (size_t v = 0; v < kVectors; ++v) {
      even[v] = odd[v] = hn::Zero(kDf);
      units[v] = hn::Set(kDf, 1.0F);
    }
  }
  HWY_INLINE void BeginBlock(const TileCodes& tile, size_t b) {
    for (size_t v = 0; v < kVectors; ++v) {
      const VF unit = Sums<1, kPanels>::Units(tile, b, v);
      if constexpr (kIsInUnits) {
        const VF ratio = Ratio(units[v], unit);
        even[v] = hn::Mul(even[v], ratio);
        if constexpr (!kIsChain) odd[v] = hn::Mul(odd[v], ratio);
      }
      units[v] = unit;
    }
  }
  HWY_INLINE void Add(size_t k, size_t v, VF factor, VF value) {
    VF& chain = kIsChain || k % 2 == 0 ? even[v] : odd[v];
    chain = FusedMulAdd(factor, value, chain);
  }
  HWY_INLINE void EndPart(VF (&sums)[kVectors]) {
    for (size_t v = 0; v < kVectors; ++v) {
      const VF part = kIsChain ? even[v] : hn::Add(even[v], odd[v]);
      sums[v] = kIsInUnits ? FusedMulAdd(part, units[v], sums[v]) : hn::Add(sums[v], part);
      even[v] = odd[v] = hn::Zero(kDf);
    }
  }
};

// Adds the elements [begin, end) of a block of a row of floats, whose columns are decoded on the
// way. It is no lambda, because Clang gives lambdas no instruction sets of a pragma.
template <bool kIsInUnits, bool kIsChain, PanelCodes kCodes, size_t kPanels>
HWY_INLINE void AddFloatBlock(const FloatReader<kCodes>& reader, const TileCodes& tile, size_t b,
                              size_t begin, size_t end, const float* factors,
                              RowChains<kIsInUnits, kIsChain, kPanels>& chains) {
  constexpr size_t kVectors = kPanels * kParts;
  const VF start = hn::Set(kDf, reader.start());
  HWY_UNROLL(kIsArm ? 1 : 4)
  for (size_t k = begin; k < end; k += 4) {
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
          value = BlockValues(reader, chains.units[v])(numbers[i]);
        }
        chains.Add(i, v, hn::Set(kDf, factors[k + i]), value);
      }
    }
  }
}

// Adds all blocks of a row of floats.
template <bool kIsInUnits, bool kIsChain, PanelCodes kCodes, size_t kPanels>
void AddFloatBlocks(const ProductTask& task, const TileCodes& tile, size_t row, size_t num_blocks,
                    Sums<1, kPanels>& sums) {
  const ProductPanels& panels = *task.panels;
  const FloatReader<kCodes> reader(panels);
  const size_t depth = panels.padded_block(), of_part = panels.blocks_of_part();
  const size_t step = kIsChain ? depth : std::min(depth, panels.part_depth());
  const auto* factors = reinterpret_cast<const float*>(task.rows->elements(row));
  RowChains<kIsInUnits, kIsChain, kPanels> chains;
  for (size_t b = 0; b < num_blocks; ++b, factors += depth) {
    chains.BeginBlock(tile, b);
    for (size_t k = 0; k < depth; k += step) {
      if (k > 0) chains.EndPart(sums.values[0]);
      AddFloatBlock<kIsInUnits, kIsChain, kCodes>(reader, tile, b, k, std::min(k + step, depth),
                                                  factors, chains);
    }
    if (!kIsChain && (b + 1) % of_part == 0) chains.EndPart(sums.values[0]);
  }
  chains.EndPart(sums.values[0]);
}

template <PanelCodes kCodes, size_t kPanels>
HWY_INLINE void AddFloatRow(const ProductTask& task, const TileCodes& tile, size_t row,
                            size_t num_blocks, Sums<1, kPanels>& sums) {
  // Sums that stay in the range of normal numbers may be counted in units of each block in turn:
  // powers of two do not change how they are rounded. That saves a product for each element.
  const bool is_in_units = task.panels->has_close_units() && task.rows->has_close_floats();
  const bool is_chain = task.sums == formats::ProductSums::kChain;
  const auto add_chain = is_in_units ? AddFloatBlocks<true, true, kCodes, kPanels>
                                     : AddFloatBlocks<false, true, kCodes, kPanels>;
  const auto add_parts = is_in_units ? AddFloatBlocks<true, false, kCodes, kPanels>
                                     : AddFloatBlocks<false, false, kCodes, kPanels>;
  (is_chain ? add_chain : add_parts)(task, tile, row, num_blocks, sums);
}

BITPRESS_END_PRODUCTS
}  // namespace bitpress::kernels::HWY_NAMESPACE
BITPRESS_AFTER_PRODUCTS
#endif  // BITPRESS_PRODUCTS_WITH_DOT

#endif  // BITPRESS_KERNELS_PRODUCT_FLOATS_INL_H_
