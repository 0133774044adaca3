#include "kernels/cpu_target.h"

#include <algorithm>
#include <array>
#include <atomic>

#include "base/error.h"
#include "base/processors.h"
#include "base/text.h"
#include "kernels/dispatch.h"

#if HWY_ARCH_X86_64
#include <cpuid.h>
#endif

namespace bitpress::kernels {
namespace {

// Returns the targets that the processor can run, and the system, which must save the wide
// registers. The features are those that Highway lets the compiler use for a target
// (hwy/ops/set_macros-inl.h). The compiler's __builtin_cpu_supports is not asked, because some
// run-time libraries of Clang find nothing.
int64_t TargetsOfProcessor() {
  int64_t targets = HWY_NEON | HWY_EMU128 | HWY_SCALAR;  // the baseline of a build that has them
#if HWY_ARCH_X86_64
  constexpr unsigned kSse4 = bit_SSSE3 | bit_SSE4_1 | bit_SSE4_2 | bit_PCLMUL | bit_AES;
  constexpr unsigned kAvx2First = bit_OSXSAVE | bit_AVX | bit_FMA | bit_F16C;
  constexpr unsigned kAvx2Seventh = bit_AVX2 | bit_BMI | bit_BMI2;
  constexpr unsigned kAvx3 = bit_AVX512F | bit_AVX512VL | bit_AVX512DQ | bit_AVX512BW;
  constexpr unsigned kYmmSaved = 0x06, kZmmSaved = 0xE6;
  unsigned eax = 0, ebx = 0, first = 0, ecx = 0, edx = 0;
  if (__get_cpuid(1, &eax, &ebx, &first, &edx) == 0 || (first & kSse4) != kSse4) return targets;
  targets |= HWY_SSE4;
  if ((first & kAvx2First) != kAvx2First || __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0) {
    return targets;
  }
  unsigned saved = 0;
  asm("xgetbv" : "=a"(saved), "=d"(edx) : "c"(0));
  if ((saved & kYmmSaved) != kYmmSaved || (ebx & kAvx2Seventh) != kAvx2Seventh) return targets;
  targets |= HWY_AVX2;
  if ((saved & kZmmSaved) == kZmmSaved && (ebx & kAvx3) == kAvx3) targets |= HWY_AVX3;
#endif
  return targets;
}

// Returns whether the processor has the tiles that kernels use, and products of bfloat16 in them.
bool ProcessorHasTiles() {
#if HWY_ARCH_X86_64
  constexpr unsigned kBfloat16 = 1U << 22U, kTiles = 1U << 24U, kVnni = 1U << 11U;
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0 && (ecx & kVnni) != 0 &&
         (edx & kBfloat16) != 0 && (edx & kTiles) != 0;
#else
  return false;
#endif
}

// Returns whether the processor has dot products of bfloat16 in vectors.
bool ProcessorHasBfloat16() {
#if HWY_ARCH_X86_64
  constexpr unsigned kBfloat16 = 1U << 5U, kVnni = 1U << 11U;
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0 || (ecx & kVnni) == 0) return false;
  return __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) != 0 && (eax & kBfloat16) != 0;
#else
  return false;
#endif
}

// Returns whether these are faster than multiply-adds of floats: AMD's have twice as many products
// in the same time, and Intel's take four times as long.
bool IsBfloat16Quick() {
#if HWY_ARCH_X86_64
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(0, &eax, &ebx, &ecx, &edx) != 0 && ebx == signature_AMD_ebx;
#else
  return false;
#endif
}

// Returns whether this build holds a target and the processor can run it.
bool IsSupported(size_t index) {
  constexpr std::array<int64_t, kTargetNames.size()> kTargets = {
      HWY_AVX3, HWY_AVX3, HWY_AVX3, HWY_AVX2, HWY_SSE4, HWY_NEON, HWY_EMU128 | HWY_SCALAR};
  static const int64_t of_processor = TargetsOfProcessor();
  if ((of_processor & HWY_TARGETS & kTargets[index]) == 0) return false;
  if (index > kBfloat16Index) return true;
  if (!BITPRESS_HAS_TILES) return false;
  return index == kAmxIndex ? ProcessorHasTiles() && MayUseTiles() : ProcessorHasBfloat16();
}

// Returns whether a target is better than those behind it in the list.
bool IsInOrder(size_t index) { return index != kBfloat16Index || IsBfloat16Quick(); }

size_t BestTarget() {
  size_t index = 0;
  while (!IsSupported(index) || !IsInOrder(index)) ++index;
  return index;
}

std::atomic<size_t>& Chosen() {
  static std::atomic<size_t> chosen{BestTarget()};
  return chosen;
}

}  // namespace

size_t ChosenTargetIndex() { return Chosen().load(std::memory_order_relaxed); }

std::vector<std::string> SupportedTargets() {
  std::vector<std::string> names;
  for (size_t i = 0; i < kTargetNames.size(); ++i) {
    if (IsSupported(i) && IsInOrder(i)) names.emplace_back(kTargetNames[i]);
    const bool is_behind = i == kAvx3Index && !IsInOrder(kBfloat16Index);
    if (is_behind && IsSupported(kBfloat16Index)) names.emplace_back(kTargetNames[kBfloat16Index]);
  }
  return names;
}

void UseTarget(std::string_view name) {
  if (name.empty()) {
    Chosen() = BestTarget();
    return;
  }
  const std::vector<std::string> supported = SupportedTargets();
  if (std::find(supported.begin(), supported.end(), name) == supported.end()) {
    Fail(ErrorCode::kInvalidArgument, "instruction set '{}' is not available here; these are: {}",
         name, Join(supported, " "));
  }
  Chosen() = static_cast<size_t>(std::find(kTargetNames.begin(), kTargetNames.end(), name) -
                                 kTargetNames.begin());
}

std::string_view CurrentTarget() { return kTargetNames[ChosenTargetIndex()]; }

std::string_view CurrentVectors() {
  return kTargetNames[std::max(ChosenTargetIndex(), kAvx3Index)];
}

bool AreTilesRefused() {
  return BITPRESS_HAS_TILES && IsSupported(kAvx3Index) && ProcessorHasTiles() && !MayUseTiles();
}

}  // namespace bitpress::kernels
