#include "base/processors.h"

#include <windows.h>

#ifdef __x86_64__
#include <cpuid.h>
#endif

#include <algorithm>
#include <array>
#include <bit>

#include "base/text.h"

namespace bitpress {

// A machine with more than 64 processors has several groups of them. A process that nobody bound to
// some may use all.
size_t UsableProcessors() {
  DWORD_PTR own = 0, all = 0;
  if (::GetProcessAffinityMask(::GetCurrentProcess(), &own, &all) != 0 && own != all) {
    return std::max<size_t>(1, static_cast<size_t>(std::popcount(own)));
  }
  return std::max<size_t>(1, ::GetActiveProcessorCount(ALL_PROCESSOR_GROUPS));
}

// The processor knows its own name: 48 letters in three answers. (That of Arm is in the registry,
// of which a library asks nothing.)
std::string ProcessorName() {
  std::string name;
#ifdef __x86_64__
  for (const unsigned part : {0x80000002U, 0x80000003U, 0x80000004U}) {
    std::array<unsigned, 4> letters{};
    __get_cpuid(part, &letters[0], &letters[1], &letters[2], &letters[3]);
    name.append(reinterpret_cast<const char*>(letters.data()), sizeof(letters));
  }
#endif
  return std::string(Trim(name.substr(0, name.find('\0'))));
}

#ifdef __x86_64__
namespace {

// Returns which registers the system saves, a bit for each kind: those of SSE, the upper halves of
// AVX, and the three kinds of AVX-512. Windows is not asked: what it says of AVX-512 depends on
// its version.
unsigned SavedRegisters(unsigned one_ecx) {
  if ((one_ecx >> 27U & 1U) == 0) return 0;  // OSXSAVE
  unsigned low = 0, high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low;
}

}  // namespace
#endif

std::vector<std::string> InstructionSets() {
  std::vector<std::string> sets;
#ifdef __x86_64__
  unsigned one[4] = {}, seven[4] = {}, more[4] = {};  // eax, ebx, ecx, edx
  __get_cpuid_count(1, 0, &one[0], &one[1], &one[2], &one[3]);
  __get_cpuid_count(7, 0, &seven[0], &seven[1], &seven[2], &seven[3]);
  __get_cpuid_count(7, 1, &more[0], &more[1], &more[2], &more[3]);
  const unsigned saved = SavedRegisters(one[2]);
  const bool has_avx = (saved & 0x6U) == 0x6U;
  const bool has_avx512 = (saved & 0xE6U) == 0xE6U;
  const auto add = [&](const char* name, bool is_usable, unsigned bits, unsigned bit) {
    if (is_usable && (bits >> bit & 1U) != 0) sets.emplace_back(name);
  };
  add("sse4_2", true, one[2], 20);
  add("avx2", has_avx, seven[1], 5);
  add("fma", has_avx, one[2], 12);
  add("f16c", has_avx, one[2], 29);
  add("avx512f", has_avx512, seven[1], 16);
  add("avx512bw", has_avx512, seven[1], 30);
  add("avx512_vnni", has_avx512, seven[2], 11);
  add("avx_vnni", has_avx, more[0], 4);
  add("avx512_bf16", has_avx512, more[0], 5);
#endif
  return sets;
}

bool HasArmDotProducts() {
  return ::IsProcessorFeaturePresent(PF_ARM_V82_DP_INSTRUCTIONS_AVAILABLE) != 0;
}

// Windows gives them on request since version 11, but nobody has run these kernels there.
bool MayUseTiles() { return false; }

}  // namespace bitpress
