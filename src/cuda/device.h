// This header has what the kernels need of the device, for Clang without a CUDA toolkit.
#pragma once

#include <stdint.h>

#include "cuda/block_math.h"

// Bounds: threads of a block, and blocks for which a multiprocessor must have registers.
#define BITPRESS_KERNEL(...) \
  extern "C" __attribute__((global)) __attribute__((launch_bounds(__VA_ARGS__))) void
#define BITPRESS_SHARED __attribute__((shared))

namespace bitpress::cuda {

using Half = uint16_t;
typedef float Float4 __attribute__((ext_vector_type(4)));
typedef uint16_t Half4 __attribute__((ext_vector_type(4)));

BITPRESS_DEVICE uint32_t Thread() { return static_cast<uint32_t>(__nvvm_read_ptx_sreg_tid_x()); }
BITPRESS_DEVICE int64_t BlockIndex() { return __nvvm_read_ptx_sreg_ctaid_x(); }

// Returns the value of the lane whose index differs in these bits. All lanes of the warp call it.
BITPRESS_DEVICE uint32_t FromLane(uint32_t value, int bits) {
  return static_cast<uint32_t>(
      __nvvm_shfl_sync_bfly_i32(0xFFFFFFFFu, static_cast<int>(value), bits, 0x1F));
}

BITPRESS_DEVICE float WidenHalf(Half x) {
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x));
  return y;
}
BITPRESS_DEVICE Half NarrowFloat(float x) {
  Half y;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y) : "f"(x));
  return y;
}

// Conversions with the payload of NaN, as kernels/half.h has it.
BITPRESS_DEVICE uint32_t WidenBits(float x) { return Bits(x); }
BITPRESS_DEVICE uint32_t WidenBits(Half x) {
  if ((x & 0x7C00u) != 0x7C00u) return Bits(WidenHalf(x));
  return (x & 0x8000u) << 16 | kExponentBits | (x & 0x3FFu) << 13;
}
BITPRESS_DEVICE void StoreBits(uint32_t bits, float* to) { *to = Float(bits); }
BITPRESS_DEVICE void StoreBits(uint32_t bits, Half* to) {
  const uint32_t sign = bits >> 16 & 0x8000u;
  const bool is_nan = (bits & kMagnitudeBits) > kExponentBits;
  *to =
      is_nan ? static_cast<Half>(sign | 0x7E00u | (bits >> 13 & 0x1FFu)) : NarrowFloat(Float(bits));
}

// Conversions of what is no NaN.
BITPRESS_DEVICE float ToFloat(float x) { return x; }
BITPRESS_DEVICE float ToFloat(Half x) { return WidenHalf(x); }
BITPRESS_DEVICE void StoreFloat(float x, float* to) { *to = x; }
BITPRESS_DEVICE void StoreFloat(float x, Half* to) { *to = NarrowFloat(x); }

// Every stride-th value from an address on.
struct Column {
  const void* first;
  int64_t stride;
  int is_half;

  BITPRESS_MEMBER uint32_t ReadBits(int k) const {
    if (is_half) return WidenBits(static_cast<const Half*>(first)[k * stride]);
    return WidenBits(static_cast<const float*>(first)[k * stride]);
  }
  BITPRESS_MEMBER void WriteBits(uint32_t bits, int k) const {
    if (is_half) return StoreBits(bits, static_cast<Half*>(const_cast<void*>(first)) + k * stride);
    StoreBits(bits, static_cast<float*>(const_cast<void*>(first)) + k * stride);
  }
  // These are for what is no NaN.
  BITPRESS_MEMBER float Read(int k) const {
    if (is_half) return ToFloat(static_cast<const Half*>(first)[k * stride]);
    return ToFloat(static_cast<const float*>(first)[k * stride]);
  }
  BITPRESS_MEMBER void Write(float x, int k) const {
    if (is_half) return StoreFloat(x, static_cast<Half*>(const_cast<void*>(first)) + k * stride);
    StoreFloat(x, static_cast<float*>(const_cast<void*>(first)) + k * stride);
  }
};

// Four neighbours, in memory that is aligned to them.
BITPRESS_DEVICE Float4 LoadFour(const float* from) {
  return *reinterpret_cast<const Float4*>(from);
}
BITPRESS_DEVICE Float4 LoadFour(const Half* from) {
  const uint64_t x = *reinterpret_cast<const uint64_t*>(from);
  return Float4{WidenHalf(static_cast<Half>(x)), WidenHalf(static_cast<Half>(x >> 16)),
                WidenHalf(static_cast<Half>(x >> 32)), WidenHalf(static_cast<Half>(x >> 48))};
}
BITPRESS_DEVICE void StoreFour(Float4 x, float* to) { *reinterpret_cast<Float4*>(to) = x; }
BITPRESS_DEVICE void StoreFour(Float4 x, Half* to) {
  *reinterpret_cast<Half4*>(to) =
      Half4{NarrowFloat(x[0]), NarrowFloat(x[1]), NarrowFloat(x[2]), NarrowFloat(x[3])};
}

// Divides, with 32 bits where these are enough: 64 take several times as long.
BITPRESS_DEVICE int64_t Quotient(int64_t a, int64_t b) {
  if ((static_cast<uint64_t>(a | b) >> 32) == 0) {
    return static_cast<uint32_t>(a) / static_cast<uint32_t>(b);
  }
  return a / b;
}

}  // namespace bitpress::cuda
