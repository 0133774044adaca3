#include "kernels/product_rows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/product_rows.cc"
#include <hwy/foreach_target.h>
// Behind foreach_target.h, as it includes this file once a target.
#include <hwy/highway.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "kernels/dispatch.h"
#include "kernels/whole_block.h"

HWY_BEFORE_NAMESPACE();
namespace bitpress::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

constexpr hn::CappedTag<float, 8> kDf;
constexpr hn::RebindToSigned<decltype(kDf)> kDi;
constexpr hn::RebindToUnsigned<decltype(kDf)> kDu;
constexpr hn::Rebind<int8_t, decltype(kDf)> kD8;
constexpr hn::Rebind<int16_t, decltype(kDf)> kD16;
constexpr hn::Rebind<uint16_t, decltype(kDf)> kD16u;

// Lets the second and the third of every four words change places.
void SwapMiddleWords(int16_t* words, size_t count) {
  for (size_t k = 0; k < count; k += 4) std::swap(words[k + 1], words[k + 2]);
}

// Takes a padded block apart. The elements become what rows of a form have, one after another.
template <RowForm kForm>
HWY_INLINE WholeBlock TakePadded(const formats::BlockUnits& rule, const float* values, size_t count,
                                 void* out) {
  const auto infinity = hn::Set(kDi, 0x7F800000);
  auto most = hn::Zero(kDi);
  for (size_t k = 0; k < count; k += hn::Lanes(kDf)) {
    const auto bits = hn::BitCast(kDi, hn::LoadU(kDf, values + k));
    auto magnitude = hn::And(bits, hn::Set(kDi, 0x7FFFFFFF));
    if (rule.is_twos_complement) {
      // A negative number counts one less, if it is neither -0 nor infinite.
      const auto is_number = hn::And(hn::Gt(magnitude, hn::Zero(kDi)), hn::Lt(magnitude, infinity));
      const auto less = hn::And(hn::VecFromMask(kDi, is_number), hn::BroadcastSignBit(bits));
      magnitude = hn::Add(magnitude, less);
    }
    most = hn::Max(most, magnitude);
  }
  const BlockScale scale(hn::GetLane(hn::MaxOfLanes(kDi, most)), rule.top);
  const auto inverse = hn::Set(kDf, scale.inverse);
  auto sum = hn::Zero(kDi);
  for (size_t k = 0; k < count; k += hn::Lanes(kDf)) {
    auto scaled = hn::Mul(hn::LoadU(kDf, values + k), inverse);
    if (scale.inverse == 0) scaled = hn::Zero(kDf);  // NaN and infinity, too
    const auto number = hn::NearestInt(scaled);
    sum = hn::Add(sum, number);
    if constexpr (kForm == RowForm::kTiles) {
      const auto unit = hn::Set(kDf, std::bit_cast<float>(uint32_t{scale.unit} << 23U));
      const auto value = hn::BitCast(kDu, hn::Mul(hn::ConvertTo(kDf, number), unit));
      hn::StoreU(hn::TruncateTo(kD16u, hn::ShiftRight<16>(value)), kD16u,
                 static_cast<uint16_t*>(out) + k);
    } else if constexpr (kForm == RowForm::kBytes) {
      hn::StoreU(hn::DemoteTo(kD8, number), kD8, static_cast<int8_t*>(out) + k);
    } else {
      hn::StoreU(hn::DemoteTo(kD16, number), kD16, static_cast<int16_t*>(out) + k);
    }
  }
  if constexpr (kForm == RowForm::kWords) SwapMiddleWords(static_cast<int16_t*>(out), count);
  return {scale.unit, hn::GetLane(hn::SumOfLanes(kDi, sum))};
}

WholeBlock TakeBytes(const formats::BlockUnits& rule, const float* values, size_t count,
                     void* out) {
  return TakePadded<RowForm::kBytes>(rule, values, count, out);
}
WholeBlock TakeWords(const formats::BlockUnits& rule, const float* values, size_t count,
                     void* out) {
  return TakePadded<RowForm::kWords>(rule, values, count, out);
}
// A block with NaN or infinity is NaN: zeros times the infinite unit that stands for it.
WholeBlock TakeTiles(const formats::BlockUnits& rule, const float* values, size_t count,
                     void* out) {
  return TakePadded<RowForm::kTiles>(rule, values, count, out);
}

// Writes floats as bfloat16, in their order or in that of pairs. Returns whether tiles take them.
// REQUIRES: count is a multiple of 8.
bool TakeFloats(const float* values, size_t count, bool are_pairs, uint16_t* out) {
  const auto infinity = hn::Set(kDi, 0x7F800000), zero = hn::Zero(kDi);
  const auto least = hn::Set(kDi, std::bit_cast<int32_t>(kLeastTileFloat));
  const auto largest = hn::Set(kDi, std::bit_cast<int32_t>(kLargestTileFloat));
  const auto lower_half = hn::Set(kDi, 0xFFFF), nan = hn::Set(kDi, 0x7FC00000);
  auto bad = zero;
  for (size_t k = 0; k < count; k += hn::Lanes(kDf)) {
    const auto bits = hn::BitCast(kDi, hn::LoadU(kDf, values + k));
    const auto magnitude = hn::And(bits, hn::Set(kDi, 0x7FFFFFFF));
    const auto is_nan = hn::Gt(magnitude, infinity);
    const auto is_far = hn::Or(hn::And(hn::Lt(magnitude, least), hn::Gt(magnitude, zero)),
                               hn::Gt(magnitude, largest));
    const auto has_more = hn::Gt(hn::And(bits, lower_half), zero);
    const auto is_bad = hn::VecFromMask(kDi, hn::Or(is_far, has_more));
    bad = hn::Or(bad, hn::IfThenZeroElse(is_nan, is_bad));
    // NaN may have its bits in the lower half.
    const auto value = hn::BitCast(kDu, hn::IfThenElse(is_nan, nan, bits));
    hn::StoreU(hn::TruncateTo(kD16u, hn::ShiftRight<16>(value)), kD16u, out + k);
  }
  for (size_t k = 0; are_pairs && k < count; k += 4) {
    const uint16_t four[] = {out[k], out[k + 1], out[k + 2], out[k + 3]};
    for (size_t i = 0; i < 4; ++i) out[k + kHalfOfPairs[i]] = four[i];
  }
  return hn::AllTrue(kDi, hn::Eq(bad, zero));
}

// Writes the first terms of floats, each `stride` behind the one before. Returns the bits of the
// largest magnitude, of which NaN is the largest. REQUIRES: count is a multiple of 16.
uint32_t TakeTerms(const float* values, size_t count, size_t num_terms, size_t stride,
                   uint16_t* out) {
  constexpr hn::CappedTag<float, 16> d;
  constexpr hn::RebindToUnsigned<decltype(d)> du;
  constexpr hn::Rebind<uint16_t, decltype(d)> d16;
  const auto upper_half = hn::Set(du, 0xFFFF0000);
  const auto least = hn::Set(d, formats::kLeastOfTerms);
  auto most = hn::Zero(du);
  for (size_t k = 0; k < count; k += hn::Lanes(d)) {
    const auto value = hn::LoadU(d, values + k);
    const auto magnitude = hn::Abs(value);
    most = hn::Max(most, hn::BitCast(du, magnitude));
    auto rest = hn::IfThenZeroElse(hn::Lt(magnitude, least), value);
    for (size_t term = 0; term < num_terms; ++term) {
      const auto bits = hn::And(hn::BitCast(du, rest), upper_half);
      hn::StoreU(hn::TruncateTo(d16, hn::ShiftRight<16>(bits)), d16, out + term * stride + k);
      rest = hn::Sub(rest, hn::BitCast(d, bits));
    }
  }
  return hn::GetLane(hn::MaxOfLanes(du, most));
}

}  // namespace bitpress::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace bitpress::kernels {
namespace {

using TakeKernel = WholeBlock (*)(const formats::BlockUnits&, const float*, size_t, void*);
constexpr TakeKernel kTakeBytesTable[] = BITPRESS_DISPATCH_TABLE(TakeBytes);
constexpr TakeKernel kTakeWordsTable[] = BITPRESS_DISPATCH_TABLE(TakeWords);
constexpr TakeKernel kTakeTilesTable[] = BITPRESS_DISPATCH_TABLE(TakeTiles);
using FloatsKernel = bool (*)(const float*, size_t, bool, uint16_t*);
constexpr FloatsKernel kTakeFloatsTable[] = BITPRESS_DISPATCH_TABLE(TakeFloats);
using TermsKernel = uint32_t (*)(const float*, size_t, size_t, size_t, uint16_t*);
constexpr TermsKernel kTakeTermsTable[] = BITPRESS_DISPATCH_TABLE(TakeTerms);

constexpr size_t kElementsPerTask = size_t{1} << 14;

// See ProductRows::has_close_floats.
bool AreClose(const float* values, size_t count) {
  constexpr float kLeast = 0x1p-80F, kLargest = 0x1p40F;
  bool are_close = true;
  for (size_t i = 0; i < count; ++i) {
    const float magnitude = std::abs(values[i]);
    are_close &= (magnitude >= kLeast && magnitude <= kLargest) || magnitude == 0;  // no NaN is
  }
  return are_close;
}

}  // namespace

ProductRows::ProductRows(const ProductPanels& panels,
                         const std::optional<formats::FormatSpec>& format, RowForm form,
                         const float* a, size_t num_rows, size_t stride)
    : form_(form),
      num_terms_(form == RowForm::kTerms && !format ? formats::kNumTerms : 1),
      summed_(panels.summed()),
      a_(a),
      num_rows_(num_rows),
      stride_(stride),
      block_(panels.block()),
      padded_block_(panels.padded_block()),
      num_blocks_(panels.num_blocks()),
      blocks_per_segment_(panels.blocks_per_segment()),
      offset_(panels.offset()) {
  const auto depth = static_cast<size_t>(summed_.num_elements());
  if (form == RowForm::kFloats && num_rows == 1) has_close_floats_ = AreClose(a, depth);
  is_direct_ = form == RowForm::kFloats && num_blocks_ * padded_block_ == depth;
  if (is_direct_) return;
  if (are_in_tiles()) padded_block_ = DepthInTiles(padded_block_);
  const size_t stored = are_in_tiles() ? RoundUp(num_rows, kTileRows) : num_rows;
  elements_.emplace(stored * row_bytes());
  if (stored > num_rows) {
    const size_t last = stored - kTileRows;
    std::fill_n(bytes() + last * row_bytes(), kTileRows * row_bytes(), uint8_t{0});
  }
  rows_per_task_ = std::max<size_t>(1, kElementsPerTask / std::max<size_t>(1, depth));
  num_tasks_ = (num_rows_ + rows_per_task_ - 1) / rows_per_task_;
  if (form == RowForm::kFloats || form == RowForm::kTerms) return;
  const bool is_whole = formats::SumsOf({panels.spec(), format}) == formats::ProductSums::kWhole;
  if (is_whole) rule_ = formats::BlockUnitsOf(*format);
  if (are_in_tiles()) return;
  units_.resize(num_rows * num_blocks_);
  starts_.resize(num_rows * num_blocks_);
}

void ProductRows::RunTask(size_t task) {
  const size_t first = task * rows_per_task_;
  const size_t last = std::min(first + rows_per_task_, num_rows_);
  for (size_t row = first; row < last; ++row) {
    const float* const from = a_ + row * stride_;
    switch (form_) {
      case RowForm::kFloats:
        CopyRow(row, from);
        break;
      case RowForm::kTiles:
      case RowForm::kPairs:
        TakeTileRow(row, from);
        break;
      case RowForm::kTerms:
        TakeTermsOfRow(row, from);
        break;
      default:
        TakeRow(row, from);
    }
  }
}

void ProductRows::CopyRow(size_t row, const float* values) {
  auto* const elements = reinterpret_cast<float*>(bytes() + row * row_bytes());
  ForEachBlock([&](size_t block, size_t begin, size_t count) {
    float* const to = elements + block * padded_block_;
    std::copy_n(values + begin, count, to);
    std::fill(to + count, to + padded_block_, 0.0F);
  });
}

template <class Function>
void ProductRows::ForEachPaddedBlock(const float* values, const Function& function) const {
  std::vector<float> padded(padded_block_);
  ForEachBlock([&](size_t block, size_t begin, size_t count) {
    const float* from = values + begin;
    if (count < padded_block_) {
      std::ranges::fill(padded, 0.0F);
      std::copy(from, from + count, padded.begin());
      from = padded.data();
    }
    function(block, from);
  });
}

void ProductRows::TakeTileRow(size_t row, const float* values) {
  const size_t target = ChosenTargetIndex();
  const size_t depth = std::min(padded_block_, kTileDepth);
  std::vector<uint16_t> elements(padded_block_);
  bool fit = true;
  ForEachPaddedBlock(values, [&](size_t block, const float* from) {
    if (rule_) {
      fit &= FitsTiles(kTakeTilesTable[target](*rule_, from, padded_block_, elements.data()).unit);
    } else {
      fit &=
          kTakeFloatsTable[target](from, padded_block_, form_ == RowForm::kPairs, elements.data());
    }
    uint16_t* to = Tiles(row / kTileRows * kTileRows, block) + row % kTileRows * depth;
    for (size_t k = 0; k < padded_block_; k += depth) {
      std::copy_n(elements.data() + k, depth, to);
      to += kTileRows * depth;
    }
  });
  if (!fit) fit_tiles_.store(false, std::memory_order_relaxed);
}

void ProductRows::TakeTermsOfRow(size_t row, const float* values) {
  constexpr size_t kTile = kTileRows * kTileDepth;
  const TermsKernel take = kTakeTermsTable[ChosenTargetIndex()];
  const size_t first = row / kTileRows * kTileRows, within = row % kTileRows * kTileDepth;
  const size_t piece = std::min(padded_block_, kTileDepth);
  uint32_t most = 0;
  ForEachPaddedBlock(values, [&](size_t block, const float* from) {
    for (size_t k = 0; k < padded_block_; k += piece) {
      const size_t at = block * padded_block_ + k;
      uint16_t* const to = Terms(first, at / kTileDepth) + within + at % kTileDepth;
      most = std::max(most, take(from + k, piece, num_terms_, kTile, to));
    }
  });
  // A last block of 16 elements has half a tile for itself.
  const size_t end = num_blocks_ * padded_block_;
  if (end < row_elements()) {
    for (size_t term = 0; term < num_terms_; ++term) {
      uint16_t* const to = Terms(first, end / kTileDepth) + term * kTile + within;
      std::fill(to + end % kTileDepth, to + kTileDepth, uint16_t{0});
    }
  }
  const float largest = std::bit_cast<float>(most);
  const bool suits = largest == 0 || (largest >= formats::kLeastRowOfTerms &&
                                      largest <= formats::kLargestRowOfTerms);
  if (!suits) fit_tiles_.store(false, std::memory_order_relaxed);
}

void ProductRows::TakeRow(size_t row, const float* values) {
  const auto& table = form_ == RowForm::kBytes ? kTakeBytesTable : kTakeWordsTable;
  const TakeKernel take = table[ChosenTargetIndex()];
  uint8_t* const elements = bytes() + row * row_bytes();
  ForEachPaddedBlock(values, [&](size_t block, const float* from) {
    const WholeBlock taken =
        take(*rule_, from, padded_block_, elements + block * padded_block_ * BytesOf(form_));
    const size_t at = row * num_blocks_ + block;
    units_[at] = taken.unit == formats::kNanUnit
                     ? std::nanf("")
                     : std::bit_cast<float>(uint32_t{taken.unit} << 23U);
    starts_[at] = kWholeStartBits - offset_ * taken.sum;
  });
}

}  // namespace bitpress::kernels
#endif
