// The program `bitpress`.
#include <malloc.h>

#include "run_cli.h"

namespace {

// Lets the allocator keep large buffers. Buffers as large as a weight come and go with every
// weight. By default each is mapped anew, and the system clears its pages one by one, which is a
// third of the time to quantize a large model.
void KeepLargeBuffers() {
  constexpr int kLargestKept = 1 << 30;
  mallopt(M_MMAP_THRESHOLD, kLargestKept);
  mallopt(M_TRIM_THRESHOLD, kLargestKept);
}

}  // namespace

int main(int argc, char** argv) {
  KeepLargeBuffers();
  return bitpress::apps::RunCli(argc, argv);
}
