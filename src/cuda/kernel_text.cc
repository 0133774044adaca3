// The compiled kernels as text in this library.
#include "cuda/launch.h"

// Each system's assembler has its own words for constants and for names that stay inside.
#if defined(_WIN32)
#define BITPRESS_CONSTANTS ".section .rdata,\"dr\"\n"
#define BITPRESS_HIDDEN ""
#define BITPRESS_PREFIX ""
#elif defined(__APPLE__)
#define BITPRESS_CONSTANTS ".section __TEXT,__const\n"
#define BITPRESS_HIDDEN ".private_extern _bitpress_cuda_kernels\n"
#define BITPRESS_PREFIX "_"
#else
#define BITPRESS_CONSTANTS ".section .rodata\n"
#define BITPRESS_HIDDEN ".hidden bitpress_cuda_kernels\n"
#define BITPRESS_PREFIX ""
#endif

extern "C" const char bitpress_cuda_kernels[];
__asm__(BITPRESS_CONSTANTS BITPRESS_HIDDEN ".globl " BITPRESS_PREFIX
                                           "bitpress_cuda_kernels\n" BITPRESS_PREFIX
                                           "bitpress_cuda_kernels:\n"
                                           ".incbin \"" BITPRESS_KERNELS_FILE
                                           "\"\n"
                                           ".byte 0\n"
                                           ".text\n");

namespace bitpress::cuda {

const char* KernelText() { return bitpress_cuda_kernels; }

}  // namespace bitpress::cuda
