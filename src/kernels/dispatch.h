// The table of each kernel's compiled versions, and the choice among them. Internal. Files that
// hold kernels are compiled once a target through hwy/foreach_target.h and define `k<Kernel>Table`
// in their HWY_ONCE part.
#pragma once

#include <hwy/detect_targets.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace bitpress::kernels {

// The names of all targets as users see them, best first, in the order of every dispatch table.
// "AMX" and "AVX3_BF16" are AVX3 with kernels of their own for some products (tile_rows.h).
inline constexpr std::array<std::string_view, 7> kTargetNames = {
    "AMX", "AVX3_BF16", "AVX3", "AVX2", "SSE4", "NEON", "PORTABLE"};
inline constexpr size_t kAmxIndex = 0, kBfloat16Index = 1, kAvx3Index = 2;

// Returns the index of the chosen target in kTargetNames.
size_t ChosenTargetIndex();

// Returns the name of the target that a file is compiled for (HWY_TARGET).
constexpr std::string_view NameOfTarget(int64_t target) {
  return target == HWY_AVX3   ? kTargetNames[kAvx3Index]
         : target == HWY_AVX2 ? kTargetNames[3]
         : target == HWY_SSE4 ? kTargetNames[4]
         : target == HWY_NEON ? kTargetNames[5]
                              : kTargetNames[6];
}

// Called by every kernel with its name and the target it was compiled for.
void NoteRun(std::string_view kernel, std::string_view target);

// The distances from a row to the next, in elements.
struct Strides {
  size_t x = 0, y = 0;
};

struct FakeQuantizeParams;
using Kernel = void (*)(const FakeQuantizeParams&, const float* x, float* y, size_t length,
                        size_t columns, Strides strides);
using KernelTable = std::array<Kernel, kTargetNames.size()>;

// The kernel of formats without blocks: `length` elements.
extern const KernelTable kFloatElementsTable;

// The kernel that quantizes a block of columns to codes (FakeQuantizer::RunColumnCodes).
struct ColumnCodes;
using CodesKernel = void (*)(const FakeQuantizeParams&, const float* x, size_t length,
                             size_t columns, size_t stride, const ColumnCodes& out);
using CodesTable = std::array<CodesKernel, kTargetNames.size()>;

// BF16 has this one: its columns are taken apart for tiles only.
extern const CodesTable kBfloat16CodesTable;

// The kernels of a family of block formats (kernels.inc).
struct BlockKernels {
  KernelTable columns, rows;
  CodesTable codes;
};
#define BITPRESS_BLOCKS(name, is_for) extern const BlockKernels k##name;
#include "kernels/kernels.inc"
#undef BITPRESS_BLOCKS

}  // namespace bitpress::kernels

#if HWY_TARGETS & HWY_AVX3
#define BITPRESS_AVX3(function) &N_AVX3::function
#else
#define BITPRESS_AVX3(function) nullptr
#endif
#if HWY_TARGETS & HWY_AVX2
#define BITPRESS_AVX2(function) &N_AVX2::function
#else
#define BITPRESS_AVX2(function) nullptr
#endif
#if HWY_TARGETS & HWY_SSE4
#define BITPRESS_SSE4(function) &N_SSE4::function
#else
#define BITPRESS_SSE4(function) nullptr
#endif
#if HWY_TARGETS & HWY_NEON
#define BITPRESS_NEON(function) &N_NEON::function
#else
#define BITPRESS_NEON(function) nullptr
#endif
// The first is true for the target of 64-bit Arm, whose vectors multiply codes. The second is true
// if the compiler lets some code use dot products of bytes there: older Clangs let all code or
// none.
#define BITPRESS_IS_ARM64 (HWY_ARCH_ARM_A64 && HWY_TARGET == HWY_NEON)
#if !HWY_ARCH_ARM_A64 || !(HWY_TARGETS & HWY_NEON)
#define BITPRESS_ARM64_DOT 0
#elif HWY_COMPILER_CLANG && HWY_COMPILER_CLANG < 1600 && !defined(__ARM_FEATURE_DOTPROD)
#define BITPRESS_ARM64_DOT 0
#else
#define BITPRESS_ARM64_DOT 1
#endif

// True if this build has kernels for tiles and for dot products of bfloat16: compilers know both
// since GCC 11 and Clang 12.
#if HWY_ARCH_X86_64 && (HWY_TARGETS & HWY_AVX3) && \
    (HWY_COMPILER_GCC_ACTUAL >= 1100 || HWY_COMPILER_CLANG >= 1200)
#define BITPRESS_HAS_TILES 1
#else
#define BITPRESS_HAS_TILES 0
#endif

// The portable version, which every build has whose baseline has no vectors. Highway names it by
// its way to emulate vectors. (g++ before 12.3 cannot compile EMU128.)
#if HWY_TARGETS & HWY_EMU128
#define BITPRESS_PORTABLE(function) &N_EMU128::function
#elif HWY_TARGETS & HWY_SCALAR
#define BITPRESS_PORTABLE(function) &N_SCALAR::function
#else
#define BITPRESS_PORTABLE(function) nullptr
#endif

// All versions of `function` in the order of kTargetNames.
#define BITPRESS_DISPATCH_TABLE(function)                                          \
  {                                                                                \
    BITPRESS_AVX3(function), BITPRESS_AVX3(function), BITPRESS_AVX3(function),     \
        BITPRESS_AVX2(function), BITPRESS_SSE4(function), BITPRESS_NEON(function), \
        BITPRESS_PORTABLE(function)                                                \
  }

// The versions that use dot products of bytes (products_with_dot.inc), in the same order.
#if BITPRESS_ARM64_DOT
#define BITPRESS_NEON_DOT(function) BITPRESS_NEON(function)
#else
#define BITPRESS_NEON_DOT(function) nullptr
#endif
#define BITPRESS_DOT_TABLE(function)                                                   \
  {                                                                                    \
    BITPRESS_AVX3(with_dot::function), BITPRESS_AVX3(with_dot::function),              \
        BITPRESS_AVX3(with_dot::function), BITPRESS_AVX2(with_dot::function), nullptr, \
        BITPRESS_NEON_DOT(with_dot::function), nullptr                                 \
  }
