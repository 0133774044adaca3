#include "base/huge_pages.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <new>
#include <random>
#include <thread>
#include <utility>
#include <vector>

namespace bitpress {
namespace {

TEST(HugePagesTest, ArraysOfAllSizesBeginAtLinesAndDoNotOverlap) {
  // Small ones share a chunk, large ones do not fit one with their like, the largest has its own.
  std::vector<HugePageVector<uint8_t>> arrays;
  std::mt19937 random(5);
  for (const size_t size :
       {0U, 1U, 63U, 64U, 65U, 4096U, 1U << 20U, 15U << 20U, 17U << 20U, 33U << 20U}) {
    for (size_t i = 0; i < (size < 1U << 20U ? 3 : 1); ++i) {
      arrays.emplace_back(size + i, static_cast<uint8_t>(arrays.size()));
      EXPECT_EQ(reinterpret_cast<uintptr_t>(arrays.back().data()) % 64, 0U);
    }
  }
  std::vector<size_t> order(arrays.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::shuffle(order, random);
  for (const size_t i : order) {
    EXPECT_TRUE(std::ranges::all_of(arrays[i], [&](uint8_t b) { return b == i; })) << i;
    arrays[i] = {};
  }
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // they watch each page
TEST(HugePagesTest, TheWholeAddressSpaceIsGivenBack) {
  // More than the address space has, if nothing came back.
  for (int i = 0; i < 1 << 15; ++i) {
    void* const large = AllocateInHugePages(size_t{1} << 32U);
    void* const small = AllocateInHugePages(100);
    FreeInHugePages(large);
    FreeInHugePages(small);
  }
  FreeInHugePages(nullptr);
}

TEST(HugePagesTest, SizesThatCannotBeAreRefused) {
  EXPECT_THROW(AllocateInHugePages(std::numeric_limits<size_t>::max()), std::bad_alloc);
  EXPECT_THROW(AllocateInHugePages(std::numeric_limits<size_t>::max() / 2), std::bad_alloc);
}
#endif

TEST(HugePagesTest, ThreadsMayAllocateAtOnce) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([t] {
      for (int i = 0; i < 200; ++i) {
        const HugePageVector<int> array(size_t{10000}, t);
        EXPECT_TRUE(std::ranges::all_of(array, [t](int n) { return n == t; }));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace bitpress
