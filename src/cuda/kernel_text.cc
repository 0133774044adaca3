// The compiled kernels as text in this library.
#include "cuda/launch.h"

extern "C" const char bitpress_cuda_kernels[];
__asm__(
    ".pushsection .rodata\n"
    ".hidden bitpress_cuda_kernels\n"
    ".global bitpress_cuda_kernels\n"
    "bitpress_cuda_kernels:\n"
    ".incbin \"" BITPRESS_KERNELS_FILE
    "\"\n"
    ".byte 0\n"
    ".popsection\n");

namespace bitpress::cuda {

const char* KernelText() { return bitpress_cuda_kernels; }

}  // namespace bitpress::cuda
