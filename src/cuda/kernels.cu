// The kernels. kernels.ptx is made from this file (tools/make_ptx.py).
#include "cuda/block_math.h"
#include "cuda/device.h"
#include "cuda/linear_math.h"

namespace bitpress::cuda {

// --- A block by one thread
// -----------------------------------------------------------------------------------------------------

// Returns the exponent of the sub-block that begins here: the shared one less its shift.
BITPRESS_DEVICE int SubBlockExponent(const BlockFormat& f, const Column& x, int begin, int end,
                                     int shared) {
  if (f.sub_block_size == 0) return shared;
  uint32_t amax = 0;
  for (int k = begin; k < end; ++k) {
    const uint32_t magnitude = x.ReadBits(k) & kMagnitudeBits;
    if (magnitude < kExponentBits) amax = Larger(amax, magnitude);
  }
  return shared - ShiftOf(f, shared, amax);
}

// Treats a block whose shared exponents to try are first to last, in double: of several it takes the
// one with the least squared error, in units of 2^scale.
BITPRESS_DEVICE void RoundBlock(const BlockFormat& f, const Column& x, const Column& y, int length,
                                int first, int last, int scale) {
  const int sub = f.sub_block_size != 0 ? f.sub_block_size : length;
  int best = LimitShared(f, first);
  float least = 0.0f;
  // The last pass writes.
  for (int pass = first == last ? last + 1 : first; pass <= last + 1; ++pass) {
    const bool writes = pass > last;
    const int shared = writes ? best : LimitShared(f, pass);
    float sum = 0.0f;
    for (int begin = 0; begin < length; begin += sub) {
      const int end = begin + sub < length ? begin + sub : length;
      const int exponent = SubBlockExponent(f, x, begin, end, shared);
      for (int k = begin; k < end; ++k) {
        const uint32_t bits = x.ReadBits(k);
        const bool passes = (bits & kMagnitudeBits) >= kExponentBits;
        const float rounded = passes ? Float(bits) : RoundAt(f, bits, exponent);
        if (writes) {
          y.WriteBits(passes ? bits : Bits(rounded), k);
        } else if (!passes) {
          sum = sum + SquaredError(rounded, bits, scale);
        }
      }
    }
    if (!writes && (pass == first || sum < least)) {
      least = sum;
      best = shared;
    }
  }
}

// Treats a block with a float scale, in which NaN and infinity stay.
BITPRESS_DEVICE void RoundScaled(const BlockFormat& f, const Column& x, const Column& y, int length,
                                 uint32_t amax) {
  const Grid grid = GridOf<kFloatScale>(f, FloatScale(f, amax));
  for (int k = 0; k < length; ++k) {
    const uint32_t bits = x.ReadBits(k);
    const bool passes = (bits & kMagnitudeBits) >= kExponentBits;
    y.WriteBits(passes ? bits : Bits(Round<kFloatScale>(f, grid, Float(bits))), k);
  }
}

// Treats any block, in double if its scale is an exponent.
BITPRESS_DEVICE void AnyBlock(const BlockFormat& f, const Column& x, const Column& y, int length) {
  uint32_t amax = 0;
  bool is_finite = true;
  for (int k = 0; k < length; ++k) {
    const uint32_t magnitude = x.ReadBits(k) & kMagnitudeBits;
    if (magnitude < kExponentBits) {
      amax = Larger(amax, magnitude);
    } else {
      is_finite = false;
    }
  }
  if (!is_finite && f.nan_block) {
    for (int k = 0; k < length; ++k) y.WriteBits(kQuietNan, k);
    return;
  }
  if (f.way == kFloatScale) return RoundScaled(f, x, y, length, amax);
  const int wanted = amax == 0 ? f.least_shared : WantedExponentOf(f, amax);
  const int reach = f.choice == kMse && amax != 0 ? 1 : 0;
  RoundBlock(f, x, y, length, wanted - reach, wanted + reach, wanted);
}

constexpr int kColumnThreads = 128;
constexpr int kSharedRows = 32;

// The values of a thread's block: in shared memory, where they wait for the scale, or in the tensor.
struct Values {
  const float* kept;
  int is_kept;
  Column x;

  BITPRESS_MEMBER float Read(int k) const {
    return is_kept ? kept[k * kColumnThreads] : x.Read(k);
  }
};

BITPRESS_DEVICE uint32_t LargestOf(const Values& values, int begin, int end) {
  uint32_t amax = 0;
  for (int k = begin; k < end; ++k) amax = Larger(amax, Bits(values.Read(k)) & kMagnitudeBits);
  return amax;
}

// Returns the exponent of the sub-block that begins here.
BITPRESS_DEVICE uint32_t SubBlockFieldAt(const BlockFormat& f, const Values& values, int begin,
                                         int end, uint32_t field) {
  if (f.sub_block_size == 0) return field;
  return SubBlockField(f, field, LargestOf(values, begin, end));
}

BITPRESS_DEVICE uint32_t LeastErrorField(const BlockFormat& f, const Values& values, int length,
                                         uint32_t amax) {
  const int sub = f.sub_block_size != 0 ? f.sub_block_size : length;
  const uint32_t floor = Larger(amax & kExponentBits, f.least_amax);
  const float inverse = Float((254u << 23) + f.emax_offset - floor);
  uint32_t best = 0;
  float least = 0.0f;
  for (uint32_t i = 0; i < 3; ++i) {
    const uint32_t candidate = LimitField(f, floor + i * kOneExponent - kOneExponent);
    float sum = 0.0f;
    for (int begin = 0; begin < length; begin += sub) {
      const int end = begin + sub < length ? begin + sub : length;
      const Grid grid = GridOf<kOther>(f, SubBlockFieldAt(f, values, begin, end, candidate));
      for (int k = begin; k < end; ++k) {
        const float error = (RoundOther(f, grid, values.Read(k)) - values.Read(k)) * inverse;
        sum = sum + error * error;
      }
    }
    if (i == 0 || sum < least) {
      least = sum;
      best = candidate;
    }
  }
  return best;
}

template <int kWay>
BITPRESS_DEVICE void RoundQuick(const BlockFormat& f, const Values& values, const Column& y,
                                int length, uint32_t field) {
  const int sub = f.sub_block_size != 0 ? f.sub_block_size : length;
  for (int begin = 0; begin < length; begin += sub) {
    const int end = begin + sub < length ? begin + sub : length;
    const Grid grid = GridOf<kWay>(f, SubBlockFieldAt(f, values, begin, end, field));
    for (int k = begin; k < end; ++k) y.Write(Round<kWay>(f, grid, values.Read(k)), k);
  }
}

BITPRESS_DEVICE void QuickBlock(const BlockFormat& f, const Values& values, const Column& y,
                                int length, uint32_t amax) {
  if (f.way == kFloatScale) {
    return RoundQuick<kFloatScale>(f, values, y, length, FloatScale(f, amax));
  }
  const uint32_t field =
      f.choice == kMse ? LeastErrorField(f, values, length, amax) : BlockField(f, amax);
  switch (f.way) {
    case kQuickIntegers:
      return RoundQuick<kQuickIntegers>(f, values, y, length, field);
    case kFloats:
      return RoundQuick<kFloats>(f, values, y, length, field);
    case kFloatsPositive:
      return RoundQuick<kFloatsPositive>(f, values, y, length, field);
    case kMagnitudes:
      return RoundQuick<kMagnitudes>(f, values, y, length, field);
    default:
      return RoundQuick<kOther>(f, values, y, length, field);
  }
}

// A block's place in the tensor. Neighbouring threads have neighbouring columns.
struct Place {
  int64_t first;
  int length;
};
BITPRESS_DEVICE Place PlaceOf(const BlockArgs& a, int64_t index) {
  const int64_t rest = Quotient(index, a.inner), column = index - rest * a.inner;
  const int64_t outer = Quotient(rest, a.blocks), block = rest - outer * a.blocks;
  const int64_t begin = block * a.format.block_size, left = a.length - begin;
  const int length = left < a.format.block_size ? static_cast<int>(left) : a.format.block_size;
  return {(outer * a.length + begin) * a.inner + column, length};
}

BITPRESS_DEVICE Column ColumnOf(const BlockArgs& a, const void* memory, int64_t first) {
  return {static_cast<const char*>(memory) + first * (a.is_half ? 2 : 4), a.inner, a.is_half};
}

// Puts the values of a block into shared memory and returns the largest magnitude.
template <class T>
BITPRESS_DEVICE uint32_t KeepColumn(const T* x, int64_t stride, int length, float* own) {
  uint32_t amax = 0;
#pragma unroll 4
  for (int k = 0; k < length; ++k) {
    const float value = ToFloat(x[k * stride]);
    own[k * kColumnThreads] = value;
    amax = Larger(amax, Bits(value) & kMagnitudeBits);
  }
  return amax;
}

// Blocks along any axis, a thread for each. Neighbouring threads have neighbouring columns.
BITPRESS_DEVICE void Columns(const BlockArgs& a, float* buffer) {
  const int64_t index = BlockIndex() * kColumnThreads + Thread();
  if (index >= a.outer * a.blocks * a.inner) return;
  const Place place = PlaceOf(a, index);
  const Column x = ColumnOf(a, a.x, place.first), y = ColumnOf(a, a.y, place.first);
  float* const own = buffer + Thread();
  const Values values = {own, a.is_kept, x};
  uint32_t amax;
  if (a.is_kept) {
    amax = a.is_half ? KeepColumn(static_cast<const Half*>(x.first), a.inner, place.length, own)
                     : KeepColumn(static_cast<const float*>(x.first), a.inner, place.length, own);
  } else {
    amax = LargestOf(values, 0, place.length);
  }
  if (IsSpecial(a.format, amax)) return AnyBlock(a.format, x, y, place.length);
  QuickBlock(a.format, values, y, place.length, amax);
}

// --- A block by several lanes
// -----------------------------------------------------------------------------------------------------

BITPRESS_DEVICE uint32_t GroupMax(uint32_t value, int lanes) {
  for (int bits = 1; bits < lanes; bits <<= 1) value = Larger(value, FromLane(value, bits));
  return value;
}

constexpr int kRowThreads = 256;
constexpr int kVectors = 2;

BITPRESS_DEVICE uint32_t LargestOfFour(Float4 v) {
  return Larger(Larger(Bits(v[0]) & kMagnitudeBits, Bits(v[1]) & kMagnitudeBits),
                Larger(Bits(v[2]) & kMagnitudeBits, Bits(v[3]) & kMagnitudeBits));
}

template <int kWay>
BITPRESS_DEVICE Float4 RoundFour(const BlockFormat& f, uint32_t field, Float4 v) {
  const Grid grid = GridOf<kWay>(f, field);
  return Float4{Round<kWay>(f, grid, v[0]), Round<kWay>(f, grid, v[1]), Round<kWay>(f, grid, v[2]),
                Round<kWay>(f, grid, v[3])};
}

// Rounds four values with sub-blocks of 1, 2 or 4.
BITPRESS_DEVICE Float4 RoundFourInSubBlocks(const BlockFormat& f, uint32_t field, Float4 v) {
  uint32_t amax[4];
#pragma unroll
  for (int k = 0; k < 4; ++k) amax[k] = Bits(v[k]) & kMagnitudeBits;
  if (f.sub_block_size >= 2) {
    amax[0] = amax[1] = Larger(amax[0], amax[1]);
    amax[2] = amax[3] = Larger(amax[2], amax[3]);
  }
  if (f.sub_block_size >= 4) {
    amax[0] = amax[2] = Larger(amax[0], amax[2]);
    amax[1] = amax[3] = amax[0];
  }
  Float4 y;
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const uint32_t own = SubBlockField(f, field, amax[k]);
    y[k] = f.way == kMagnitudes ? Round<kMagnitudes>(f, GridOf<kMagnitudes>(f, own), v[k])
                                : RoundOther(f, GridOf<kOther>(f, own), v[k]);
  }
  return y;
}

// Rounds four values of a block with this largest magnitude.
BITPRESS_DEVICE Float4 QuickFour(const BlockFormat& f, uint32_t amax, Float4 v) {
  const uint32_t field = BlockField(f, amax);
  if (f.sub_block_size != 0) return RoundFourInSubBlocks(f, field, v);
  switch (f.way) {
    case kQuickIntegers:
      return RoundFour<kQuickIntegers>(f, field, v);
    case kFloats:
      return RoundFour<kFloats>(f, field, v);
    case kFloatsPositive:
      return RoundFour<kFloatsPositive>(f, field, v);
    case kMagnitudes:
      return RoundFour<kMagnitudes>(f, field, v);
    case kFloatScale:
      return RoundFour<kFloatScale>(f, FloatScale(f, amax), v);
    default:
      return RoundFour<kOther>(f, field, v);
  }
}

// The four values of a lane: where they are, and how many there are. The last block of a row may be
// short.
struct Four {
  int64_t at;
  int count;
  int left;  // values of the block from the lane's first one on
};
BITPRESS_DEVICE Four FourOf(const BlockArgs& a, int64_t slot) {
  if (!a.has_short_blocks) {
    const int count = slot * 4 < a.outer * a.length ? 4 : 0;
    return {slot * 4, count, a.format.block_size};
  }
  const int64_t block = Quotient(slot, a.group_lanes), row = Quotient(block, a.blocks);
  const int64_t begin = (block - row * a.blocks) * a.format.block_size +
                        (slot - block * a.group_lanes) * 4;
  const int64_t left = row < a.outer ? a.length - begin : 0;
  const int limited = left < a.format.block_size ? static_cast<int>(left) : a.format.block_size;
  return {row * a.length + begin, limited < 4 ? (limited < 0 ? 0 : limited) : 4, limited};
}

template <class T>
BITPRESS_DEVICE Float4 LoadSome(const BlockArgs& a, const Four& four) {
  const T* const from = static_cast<const T*>(a.x) + four.at;
  if (a.is_aligned && four.count == 4) return LoadFour(from);
  Float4 v = {0, 0, 0, 0};
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    if (k < four.count) v[k] = ToFloat(from[k]);
  }
  return v;
}
template <class T>
BITPRESS_DEVICE void StoreSome(const BlockArgs& a, const Four& four, Float4 v) {
  T* const to = static_cast<T*>(a.y) + four.at;
  if (a.is_aligned && four.count == 4) return StoreFour(v, to);
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    if (k < four.count) StoreFloat(v[k], to + k);
  }
}

// Blocks of 4 to 128 neighbours (a power of two): a lane takes four values, and as many again, so that
// more of the memory is on its way at once.
BITPRESS_DEVICE void Rows(const BlockArgs& a) {
  const BlockFormat& f = a.format;
  const int64_t slot = BlockIndex() * (kVectors * kRowThreads) + Thread();
  Four four[kVectors];
  Float4 v[kVectors];
  uint32_t amax[kVectors];
#pragma unroll
  for (int i = 0; i < kVectors; ++i) {
    four[i] = FourOf(a, slot + i * kRowThreads);
    v[i] = a.is_half ? LoadSome<Half>(a, four[i]) : LoadSome<float>(a, four[i]);
  }
#pragma unroll
  for (int i = 0; i < kVectors; ++i) amax[i] = GroupMax(LargestOfFour(v[i]), a.group_lanes);
#pragma unroll
  for (int i = 0; i < kVectors; ++i) {
    if (four[i].count == 0 || IsSpecial(f, amax[i])) continue;
    const Float4 y = QuickFour(f, amax[i], v[i]);
    if (a.is_half) {
      StoreSome<Half>(a, four[i], y);
    } else {
      StoreSome<float>(a, four[i], y);
    }
  }
  // The first lane of a special block does it alone.
  if ((Thread() & static_cast<uint32_t>(a.group_lanes - 1)) != 0) return;
#pragma nounroll
  for (int i = 0; i < kVectors; ++i) {
    const Four& own = i == 0 ? four[0] : four[kVectors - 1];
    if (!IsSpecial(f, i == 0 ? amax[0] : amax[kVectors - 1])) continue;
    AnyBlock(f, ColumnOf(a, a.x, own.at), ColumnOf(a, a.y, own.at), own.left);
  }
}

// Blocks of any size along the last axis, without sub-blocks: lanes take values in turn.
BITPRESS_DEVICE void AnyRows(const BlockArgs& a) {
  const BlockFormat& f = a.format;
  const int64_t index = Quotient(BlockIndex() * kRowThreads + Thread(), a.group_lanes);
  const int lane = static_cast<int>(Thread()) & (a.group_lanes - 1);
  const Place place = index < a.outer * a.blocks ? PlaceOf(a, index) : Place{0, 0};
  const Column x = ColumnOf(a, a.x, place.first), y = ColumnOf(a, a.y, place.first);
  uint32_t amax = 0;
  for (int k = lane; k < place.length; k += a.group_lanes) {
    amax = Larger(amax, Bits(x.Read(k)) & kMagnitudeBits);
  }
  amax = GroupMax(amax, a.group_lanes);
  if (IsSpecial(f, amax)) {
    if (lane == 0) AnyBlock(f, x, y, place.length);
    return;
  }
  if (f.way == kFloatScale) {
    const Grid grid = GridOf<kFloatScale>(f, FloatScale(f, amax));
    for (int k = lane; k < place.length; k += a.group_lanes) {
      y.Write(Round<kFloatScale>(f, grid, x.Read(k)), k);
    }
    return;
  }
  const Grid grid = GridOf<kOther>(f, BlockField(f, amax));
  for (int k = lane; k < place.length; k += a.group_lanes) y.Write(RoundOther(f, grid, x.Read(k)), k);
}

// --- Formats without blocks
// -----------------------------------------------------------------------------------------------------

// Calls function(i) for the elements of a thread: neighbouring threads have neighbours at a time.
template <class Function>
BITPRESS_DEVICE void ForEachElement(int64_t count, Function function) {
  constexpr int kElements = 4;
  const int64_t first = BlockIndex() * (kElements * kRowThreads) + Thread();
  for (int k = 0; k < kElements; ++k) {
    const int64_t i = first + k * kRowThreads;
    if (i < count) function(i);
  }
}

template <class T>
BITPRESS_DEVICE void Elements(const ElementArgs& a) {
  ForEachElement(a.count, [&](int64_t i) {
    const uint32_t bits = WidenBits(static_cast<const T*>(a.x)[i]);
    StoreBits(RoundAlone(a, bits), static_cast<T*>(a.y) + i);
  });
}

// --- Scales and zero points
// -----------------------------------------------------------------------------------------------------

BITPRESS_DEVICE int64_t ParametersOf(const LinearArgs& a, int64_t element) {
  if (a.num_scales == 1) return 0;
  const int64_t run = Quotient(element, a.inner);
  return run - Quotient(run, a.num_scales) * a.num_scales;
}

BITPRESS_DEVICE Parameters ParametersAt(const LinearArgs& a, int64_t element) {
  const int64_t at = ParametersOf(a, element);
  return {a.scales[at], LoadCode(a.zero_points, at, a.code)};
}

template <class T>
BITPRESS_DEVICE void Quantize(const LinearArgs& a) {
  ForEachElement(a.count, [&](int64_t i) {
    const uint32_t bits = WidenBits(static_cast<const T*>(a.x)[i]);
    StoreCode(QuantizeToCode(bits, ParametersAt(a, i), a.code), a.y, i, a.code);
  });
}

BITPRESS_DEVICE void Dequantize(const LinearArgs& a) {
  ForEachElement(a.count, [&](int64_t i) {
    const int64_t code = LoadCode(a.x, i, a.code);
    StoreBits(DequantizeCode(code, ParametersAt(a, i), a.code), static_cast<float*>(a.y) + i);
  });
}

}  // namespace bitpress::cuda

using namespace bitpress::cuda;

BITPRESS_KERNEL(256, 4) bitpress_rows(const BlockArgs a) { Rows(a); }
BITPRESS_KERNEL(256) bitpress_any_rows(const BlockArgs a) { AnyRows(a); }
BITPRESS_KERNEL(128) bitpress_columns(const BlockArgs a) {
  BITPRESS_SHARED static float buffer[kSharedRows * kColumnThreads];
  Columns(a, buffer);
}
BITPRESS_KERNEL(256) bitpress_elements_f32(const ElementArgs a) { Elements<float>(a); }
BITPRESS_KERNEL(256) bitpress_elements_f16(const ElementArgs a) { Elements<Half>(a); }
BITPRESS_KERNEL(256) bitpress_quantize_f32(const LinearArgs a) { Quantize<float>(a); }
BITPRESS_KERNEL(256) bitpress_quantize_f16(const LinearArgs a) { Quantize<Half>(a); }
BITPRESS_KERNEL(256) bitpress_dequantize(const LinearArgs a) { Dequantize(a); }
