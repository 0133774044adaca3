#include "kernels/observe.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/observe.cc"
#include <hwy/foreach_target.h>
// Behind foreach_target.h, as it includes this file once a target.
#include <hwy/highway.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <new>
#include <utility>

#include "base/check.h"
#include "formats/float_bits.h"
#include "kernels/half.h"
#include "kernels/observe_state.h"

HWY_BEFORE_NAMESPACE();
namespace bitpress::kernels::HWY_NAMESPACE {

constexpr std::string_view kTargetName = NameOfTarget(HWY_TARGET);

#if HWY_TARGET == HWY_SCALAR

template <bool kSums>
void ObserveAll(const float* x, size_t length, ObserveTables& tables) {
  for (size_t i = 0; i < length; ++i) ObserveOne<kSums>(formats::FloatBits(x[i]), i, tables);
}

#else

namespace hn = hwy::HWY_NAMESPACE;

constexpr hn::ScalableTag<float> kDf;
constexpr hn::ScalableTag<uint32_t> kDu;
constexpr hn::ScalableTag<int32_t> kDi;
constexpr hn::ScalableTag<uint64_t> kDu64;
constexpr hn::FixedTag<uint64_t, 2> kDpair;
using VU = hn::VFromD<decltype(kDu)>;
using VI = hn::VFromD<decltype(kDi)>;

// The elements between the two halves of the work: vectors take the bits apart, then a loop adds
// them to the tables. So many stay in the first-level cache.
constexpr size_t kTile = 128;
constexpr size_t kPerBlock = 4;  // elements in 128 bits

// The addends of kTile elements. Element k + kPerBlock * b + j of a vector's worth at k has its
// addend at k + j * num_blocks + b, because the blocks of 128 bits of a vector do not mix.
struct Tile {
  HWY_ALIGN ObservedSums addends[kTile];
};

HWY_INLINE void TakeApart(VU bits, Tile& tile, size_t k) {
  const VU mantissa = hn::And(bits, hn::Set(kDu, 0x007FFFFFu));
  const auto is_subnormal =
      hn::Eq(hn::And(bits, hn::Set(kDu, formats::kFloatExponentMask)), hn::Zero(kDu));
  const VU implicit = hn::IfThenZeroElse(is_subnormal, hn::Set(kDu, 1u << 23));
  const auto significand = hn::BitCast(kDu64, hn::Or(mantissa, implicit));
  const auto even = hn::And(significand, hn::Set(kDu64, 0xFFFFFFFFu));
  const auto odd = hn::ShiftRight<32>(significand);
  const auto even_square = hn::MulEven(hn::BitCast(kDu, even), hn::BitCast(kDu, even));
  const auto odd_square = hn::MulEven(hn::BitCast(kDu, odd), hn::BitCast(kDu, odd));
  const size_t lanes = hn::Lanes(kDu);
  uint64_t* const out = &tile.addends[k].sum;  // a vector holds lanes / 2 words
  hn::Store(hn::InterleaveLower(kDu64, even, even_square), kDu64, out);
  hn::Store(hn::InterleaveLower(kDu64, odd, odd_square), kDu64, out + lanes / 2);
  hn::Store(hn::InterleaveUpper(kDu64, even, even_square), kDu64, out + lanes);
  hn::Store(hn::InterleaveUpper(kDu64, odd, odd_square), kDu64, out + lanes / 2 * 3);
}

// Counts kTile elements that are not zero.
template <bool kSums>
HWY_INLINE void Scatter(const uint32_t* elements, Tile& tile, ObserveTables& tables) {
  const size_t lanes = hn::Lanes(kDu);
  const size_t num_blocks = lanes / kPerBlock;
  if constexpr (kSums) {
    for (size_t k = 0; k < kTile; k += lanes) TakeApart(hn::Load(kDu, elements + k), tile, k);
  }
  for (size_t k = 0; k < kTile; k += lanes) {
    for (size_t b = 0; b < num_blocks; ++b) {
      for (size_t j = 0; j < kPerBlock; ++j) {
        const uint32_t bits = elements[k + kPerBlock * b + j];
        ++tables.counts[bits >> kObserveShift];
        if constexpr (!kSums) continue;
        uint64_t* const sums = &tables.sums[bits >> 23][j % kNumSumTables].sum;
        const uint64_t* const addend = &tile.addends[k + j * num_blocks + b].sum;
        hn::Store(hn::Add(hn::Load(kDpair, sums), hn::Load(kDpair, addend)), kDpair, sums);
      }
    }
  }
}

// A count of extremes and special values, a vector at a time. Counters count downwards, because
// comparisons that hold are -1.
struct Specials {
  VI min_key, max_key, least, greatest, zeros, positive_infinities, negative_infinities;

  HWY_INLINE void Add(VU bits) {
    const VI signed_bits = hn::BitCast(kDi, bits);
    const VI magnitude = hn::And(signed_bits, hn::Set(kDi, 0x7FFFFFFF));
    const VI infinity = hn::Set(kDi, static_cast<int32_t>(formats::kFloatExponentMask));
    const VI negative_infinity =
        hn::Set(kDi, static_cast<int32_t>(formats::kFloatExponentMask | 1u << 31));
    const auto is_finite = hn::Lt(magnitude, infinity);
    const VI flip = hn::And(hn::BroadcastSignBit(signed_bits), hn::Set(kDi, 0x7FFFFFFF));
    const VI key = hn::Xor(signed_bits, flip);
    min_key = hn::Min(min_key, hn::IfThenElse(is_finite, key, hn::Set(kDi, INT32_MAX)));
    max_key = hn::Max(max_key, hn::IfThenElse(is_finite, key, hn::Set(kDi, INT32_MIN)));
    const auto is_zero = hn::Eq(magnitude, hn::Zero(kDi));
    least = hn::Min(least, hn::IfThenElse(is_zero, hn::Set(kDi, INT32_MAX), magnitude));
    greatest = hn::Max(greatest, magnitude);
    zeros = hn::Add(zeros, hn::VecFromMask(kDi, is_zero));
    positive_infinities =
        hn::Add(positive_infinities, hn::VecFromMask(kDi, hn::Eq(signed_bits, infinity)));
    negative_infinities =
        hn::Add(negative_infinities, hn::VecFromMask(kDi, hn::Eq(signed_bits, negative_infinity)));
  }
};

// Returns minus the sum of the lanes.
HWY_INLINE uint64_t Counted(VI counter) {
  return static_cast<uint64_t>(-int64_t{hn::GetLane(hn::SumOfLanes(kDi, counter))});
}

template <bool kSums>
void ObserveAll(const float* x, size_t length, ObserveTables& tables) {
  const VI none = hn::Zero(kDi);
  Specials specials{hn::Set(kDi, tables.min_key),
                    hn::Set(kDi, tables.max_key),
                    hn::Set(kDi, tables.least_magnitude),
                    hn::Set(kDi, tables.greatest_magnitude),
                    none,
                    none,
                    none};
  Tile tile;
  // Zeros are counted by `specials` alone. In the tables they would all wait for one counter, and
  // they are half of the elements behind a Relu.
  HWY_ALIGN uint32_t waiting[2 * kTile];
  size_t num_waiting = 0;
  size_t i = 0;
  for (; i + kTile <= length; i += kTile) {
    for (size_t k = 0; k < kTile; k += hn::Lanes(kDu)) {
      const VU bits = hn::BitCast(kDu, hn::LoadU(kDf, x + i + k));
      specials.Add(bits);
      const auto is_other = hn::Ne(hn::Add(bits, bits), hn::Zero(kDu));
      hn::StoreU(hn::Compress(bits, is_other), kDu, waiting + num_waiting);
      num_waiting += hn::CountTrue(kDu, is_other);
    }
    if (num_waiting < kTile) continue;
    Scatter<kSums>(waiting, tile, tables);
    num_waiting -= kTile;
    std::memcpy(waiting, waiting + kTile, num_waiting * sizeof(uint32_t));
  }
  for (size_t k = 0; k < num_waiting; ++k) ObserveNonZero<kSums>(waiting[k], k, tables);
  tables.min_key = hn::GetLane(hn::MinOfLanes(kDi, specials.min_key));
  tables.max_key = hn::GetLane(hn::MaxOfLanes(kDi, specials.max_key));
  tables.least_magnitude = hn::GetLane(hn::MinOfLanes(kDi, specials.least));
  tables.greatest_magnitude = hn::GetLane(hn::MaxOfLanes(kDi, specials.greatest));
  tables.num_zeros += Counted(specials.zeros);
  tables.num_positive_infinity += Counted(specials.positive_infinities);
  tables.num_negative_infinity += Counted(specials.negative_infinities);
  for (; i < length; ++i) ObserveOne<kSums>(formats::FloatBits(x[i]), i, tables);
}

#endif

void Observe(const float* x, size_t length, ObserveTables& tables) {
  BITPRESS_DCHECK(length <= kMostBetweenFolds);
  NoteRun("Observe", kTargetName);
  ObserveAll<true>(x, length, tables);
}

void ObserveCounts(const float* x, size_t length, ObserveTables& tables) {
  NoteRun("ObserveCounts", kTargetName);
  ObserveAll<false>(x, length, tables);
}

}  // namespace bitpress::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace bitpress::kernels {

const ObserveTable kObserveTable = BITPRESS_DISPATCH_TABLE(Observe);
const ObserveTable kObserveCountsTable = BITPRESS_DISPATCH_TABLE(ObserveCounts);

namespace {

struct Free {
  void operator()(uint32_t* memory) const { std::free(memory); }
};

float FromOrderedBits(int32_t key) {
  const float x = formats::FloatFromBits(static_cast<uint32_t>(OrderedBits(key)));
  return (formats::FloatBits(x) << 1) == 0 ? 0.0f : x;
}

ObservedRange Union(const ObservedRange& a, const ObservedRange& b) {
  return {std::min(a.min, b.min), std::max(a.max, b.max)};
}

__extension__ typedef unsigned __int128 UInt128;

}  // namespace

struct ObserveCounter::State {
  bool has_sums;
  std::unique_ptr<uint32_t, Free> counts;
  ObserveTables tables = {};
  size_t num_since_fold = 0;
  uint64_t num_elements = 0;
  ObservedRange range;
  // The sums of squares, which would not fit the tables.
  UInt128 squares[kNumSignedExponents] = {};

  explicit State(bool with_sums) : has_sums(with_sums) {
    // calloc never makes the pages that no value touches.
    counts.reset(static_cast<uint32_t*>(std::calloc(kNumObservedBins, sizeof(uint32_t))));
    if (counts == nullptr) throw std::bad_alloc();
    tables.counts = counts.get();
    ForgetMagnitudes();
  }

  void ForgetMagnitudes() {
    tables.least_magnitude = INT32_MAX;
    tables.greatest_magnitude = 0;
  }

  void Fold() {
    for (size_t e = 0; e < kNumSignedExponents; ++e) {
      for (ObservedSums& sums : tables.sums[e]) {
        squares[e] += std::exchange(sums.sum_of_squares, 0);
      }
    }
    num_since_fold = 0;
  }

  // Moves the counts of an exponent out. Returns whether there were some.
  bool TakeCounts(size_t e, std::array<uint64_t, kObservedBinsPerExponent>& out) {
    uint32_t* const first = counts.get() + (e << kObservedBits);
    uint32_t used = 0;
    for (size_t i = 0; i < kObservedBinsPerExponent; ++i) used |= first[i];
    if (used == 0) return false;
    std::copy_n(first, kObservedBinsPerExponent, out.begin());
    std::fill_n(first, kObservedBinsPerExponent, uint32_t{0});
    return true;
  }
};

ObserveCounter::ObserveCounter(bool has_sums) : state_(std::make_unique<State>(has_sums)) {}
ObserveCounter::~ObserveCounter() = default;
ObserveCounter::ObserveCounter(ObserveCounter&&) noexcept = default;
ObserveCounter& ObserveCounter::operator=(ObserveCounter&&) noexcept = default;

bool ObserveCounter::has_sums() const { return state_->has_sums; }

ObservedRange ObserveCounter::Count(std::span<const float> values) {
  State& state = *state_;
  const ObserveKernel kernel =
      (state.has_sums ? kObserveTable : kObserveCountsTable)[ChosenTargetIndex()];
  state.tables.min_key = INT32_MAX;
  state.tables.max_key = INT32_MIN;
  BITPRESS_DCHECK(values.size() <= kMostElements - state.num_elements);
  state.num_elements += values.size();
  while (!values.empty()) {
    if (state.num_since_fold == kMostBetweenFolds) state.Fold();
    const size_t length = std::min(values.size(), kMostBetweenFolds - state.num_since_fold);
    kernel(values.data(), length, state.tables);
    state.num_since_fold += length;
    values = values.subspan(length);
  }
  if (state.tables.min_key > state.tables.max_key) return {};
  const ObservedRange range{FromOrderedBits(state.tables.min_key),
                            FromOrderedBits(state.tables.max_key)};
  state.range = Union(state.range, range);
  return range;
}

ObservedRange ObserveCounter::CountHalves(std::span<const uint16_t> values) {
  ObservedRange range;
  std::array<float, 4096> widened;
  while (!values.empty()) {
    const size_t length = std::min(values.size(), widened.size());
    HalfToFloat(values.first(length), widened.data());
    range = Union(range, Count({widened.data(), length}));
    values = values.subspan(length);
  }
  return range;
}

ObservedTotals ObserveCounter::Drain(const std::function<void(const ObservedExponent&)>& take) {
  State& state = *state_;
  ObserveTables& tables = state.tables;
  if (state.has_sums) state.Fold();
  ObservedExponent exponent;
  uint64_t num_special = 0;
  const auto first = static_cast<size_t>(tables.least_magnitude >> 23);
  const auto last = static_cast<size_t>(tables.greatest_magnitude >> 23);
  for (size_t e = 0; e < kNumSignedExponents; ++e) {
    const size_t field = e % (kNumSignedExponents / 2);
    if (field < first || field > last || !state.TakeCounts(e, exponent.counts)) continue;
    exponent.is_negative = e >= kNumSignedExponents / 2;
    exponent.exponent_field = static_cast<int>(field);
    exponent.sum = 0;
    for (ObservedSums& sums : tables.sums[e]) exponent.sum += std::exchange(sums.sum, 0);
    const UInt128 squares = std::exchange(state.squares[e], 0);
    exponent.sum_of_squares = {static_cast<uint64_t>(squares),
                               static_cast<uint64_t>(squares >> 64)};
    if (exponent.exponent_field == 255) {
      for (const uint64_t count : exponent.counts) num_special += count;
    } else {
      take(exponent);
    }
  }
  state.ForgetMagnitudes();
  const uint64_t num_infinite = tables.num_positive_infinity + tables.num_negative_infinity;
  const ObservedTotals totals{std::exchange(state.num_elements, 0) - num_special,
                              std::exchange(tables.num_zeros, 0),
                              num_special - num_infinite,
                              std::exchange(tables.num_positive_infinity, 0),
                              std::exchange(tables.num_negative_infinity, 0),
                              std::exchange(state.range, {})};
  return totals;
}

}  // namespace bitpress::kernels
#endif
