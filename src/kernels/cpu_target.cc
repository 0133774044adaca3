#include "kernels/cpu_target.h"

#include <algorithm>
#include <atomic>

#include "base/error.h"
#include "base/text.h"
#include "kernels/dispatch.h"

#if HWY_ARCH_X86_64
#include <cpuid.h>
#endif

namespace bitpress::kernels {
namespace {

constexpr size_t kPortable = kTargetNames.size() - 1;

#if HWY_ARCH_X86_64
// Returns whether the processor has F16C, which __builtin_cpu_supports of older Clang does not
// know.
bool HasHalfConversions() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}
#endif

// Returns whether this build holds a target and the processor can run it, and so can the system,
// which must save the wide registers. The features are those that Highway lets the compiler use for
// the target (hwy/ops/set_macros-inl.h).
bool IsSupported(size_t index) {
  if (index == kPortable) return true;
#if HWY_ARCH_X86_64
  __builtin_cpu_init();
  const bool sse4 = __builtin_cpu_supports("ssse3") && __builtin_cpu_supports("sse4.1") &&
                    __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul") &&
                    __builtin_cpu_supports("aes");
  const bool avx2 = sse4 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") &&
                    __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("fma") &&
                    HasHalfConversions();
  const bool avx3 = avx2 && __builtin_cpu_supports("avx512f") &&
                    __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
                    __builtin_cpu_supports("avx512bw");
  switch (index) {
    case 0:
      return avx3 && (HWY_TARGETS & HWY_AVX3) != 0;
    case 1:
      return avx2 && (HWY_TARGETS & HWY_AVX2) != 0;
    case 2:
      return sse4 && (HWY_TARGETS & HWY_SSE4) != 0;
  }
#endif
  return false;
}

size_t BestTarget() {
  size_t index = 0;
  while (!IsSupported(index)) ++index;
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
    if (IsSupported(i)) names.emplace_back(kTargetNames[i]);
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

}  // namespace bitpress::kernels
