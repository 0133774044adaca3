// Lets a program see an older processor than the one it runs on: preloaded (LD_PRELOAD) into a
// process whose ONNX Runtime make_runtime.py has changed, it answers that library's questions for
// the processor's features without AVX-512 and VNNI. ONNX Runtime then takes its AVX2 kernels,
// which saturate, and which every x86 machine can run. For tests only.
//
// make_runtime.py has put `int3; nop` (two bytes, as `cpuid`) in the place of each `cpuid`. It
// raises SIGTRAP, and the handler below does what `cpuid` would have done. SIGTRAP, because
// Python's faulthandler takes SIGILL for itself.
#include <cpuid.h>
#include <ucontext.h>

#include <csignal>
#include <cstdint>
#include <initializer_list>

namespace {

constexpr uint32_t Bits(std::initializer_list<int> bits) {
  uint32_t mask = 0;
  for (const int bit : bits) mask |= uint32_t{1} << bit;
  return mask;
}

// Leaf 7, subleaf 0: AVX-512 in all its parts, AVX-512 VNNI, AMX.
constexpr uint32_t kHiddenEbx = Bits({16, 17, 21, 26, 27, 28, 30, 31});
constexpr uint32_t kHiddenEcx = Bits({1, 6, 11, 12, 14});
constexpr uint32_t kHiddenEdx = Bits({2, 3, 8, 22, 23, 24, 25});

void AnswerCpuid(int, siginfo_t*, void* context) {
  auto* const registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  // The instruction pointer stands behind the int3.
  const auto* const code = reinterpret_cast<const unsigned char*>(registers[REG_RIP]);
  if (code[-1] != 0xCC || code[0] != 0x90) {  // somebody else's
    std::signal(SIGTRAP, SIG_DFL);
    return;
  }
  const auto leaf = static_cast<uint32_t>(registers[REG_RAX]);
  const auto subleaf = static_cast<uint32_t>(registers[REG_RCX]);
  uint32_t a = 0, b = 0, c = 0, d = 0;
  __cpuid_count(leaf, subleaf, a, b, c, d);
  if (leaf == 7 && subleaf == 0) {
    b &= ~kHiddenEbx;
    c &= ~kHiddenEcx;
    d &= ~kHiddenEdx;
  } else if (leaf == 7 && subleaf == 1) {
    a = d = 0;  // AVX-VNNI and similar
  }
  registers[REG_RAX] = a;
  registers[REG_RBX] = b;
  registers[REG_RCX] = c;
  registers[REG_RDX] = d;
  registers[REG_RIP] += 1;
}

__attribute__((constructor)) void Install() {
  struct sigaction action = {};
  action.sa_sigaction = AnswerCpuid;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  sigaction(SIGTRAP, &action, nullptr);
}

}  // namespace
