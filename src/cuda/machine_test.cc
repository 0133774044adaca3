// The machine that runs kernels on the processor notices mistakes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <vector>

#include "cuda/test_ptx_machine.h"

namespace bitpress::cuda {
namespace {

struct MistakeArgs {
  const uint32_t* x;
  uint32_t* y;
  int64_t count;
};

// Runs a kernel of test_mistakes.ptx on 64 values and returns what the machine says.
std::string WhatIsSaidOf(std::string_view name) {
  struct {
    alignas(16) uint32_t x[64], gap[8], y[64];
  } memory = {};
  auto& [x, gap, y] = memory;
  std::iota(x, x + 64, 100u);
  std::iota(y, y + 64, 500u);
  const MistakeArgs args{x, y, 64};
  const std::vector<Region> regions = {{x, sizeof x, 4, false}, {y, sizeof y, 4, true}};
  for (const TranslatedKernel& kernel : MistakenKernels()) {
    if (kernel.name != name) continue;
    try {
      Machine().Launch(kernel, 1, 64, &args, regions);
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    for (uint32_t i = 0; i < 64; ++i) {
      if (name == "correct" && y[i] != 100 + i + (i ^ 1u)) return "a wrong sum";
    }
    return "nothing";
  }
  return "there is no such kernel";
}

TEST(CudaMachine, NoticesMistakes) {
  const std::vector<std::pair<const char*, const char*>> expected = {
      {"correct", "nothing"},
      {"reads_behind_the_end", "a read outside of the launch's memory"},
      {"writes_behind_the_end", "a write outside of the launch's memory"},
      {"two_write_one_word", "a write to what another thread writes"},
      {"writes_what_others_read", "another thread"},
      {"writes_its_input", "a write to memory that is only read"},
      {"some_lanes_meet", "a meeting with a lane that has ended"},
      {"lanes_meet_elsewhere", "lanes that meet at different instructions"},
      {"reads_shared_memory_of_others", "shared memory that this thread has not written"},
      {"writes_behind_shared_memory", "an access outside of shared memory"},
      {"is_not_aligned", "an access that is not aligned"},
      {"divides_by_zero", "a division by zero"},
  };
  for (const auto& [name, said] : expected) {
    EXPECT_THAT(WhatIsSaidOf(name), testing::HasSubstr(said)) << name;
  }
  EXPECT_EQ(MistakenKernels().size(), expected.size());
}

}  // namespace
}  // namespace bitpress::cuda
