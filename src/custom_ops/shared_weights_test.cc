#include "custom_ops/shared_weights.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <thread>
#include <vector>

namespace bitpress::custom_ops {
namespace {

using Bytes = std::vector<uint8_t>;

WeightKey KeyOf(std::string_view format, int64_t rows, const Bytes& codes, const Bytes& scales) {
  WeightKey key;
  key.Add(format);
  key.Add(rows);
  key.Add({codes, {}, scales, {}});
  return key;
}

bool AreEqual(const WeightKey& a, const WeightKey& b) { return !(a < b) && !(b < a); }

TEST(WeightKey, FollowsFromEverythingThatIsAdded) {
  const Bytes codes(100, 3), scales{1, 2, 3};
  const WeightKey key = KeyOf("mx6", 4, codes, scales);
  EXPECT_TRUE(AreEqual(key, KeyOf("mx6", 4, codes, scales)));
  EXPECT_FALSE(AreEqual(key, KeyOf("mx4", 4, codes, scales)));
  EXPECT_FALSE(AreEqual(key, KeyOf("mx6", 5, codes, scales)));
  EXPECT_FALSE(AreEqual(key, KeyOf("mx6", 4, Bytes(99, 3), scales)));
  EXPECT_FALSE(AreEqual(key, KeyOf("mx6", 4, codes, {1, 2})));
  EXPECT_FALSE(AreEqual(key, KeyOf("mx6", 4, {}, codes)));
  for (size_t i = 0; i < codes.size(); ++i) {
    for (const unsigned bit : {0U, 7U}) {
      Bytes other = codes;
      other[i] = static_cast<uint8_t>(other[i] ^ (1U << bit));
      EXPECT_FALSE(AreEqual(key, KeyOf("mx6", 4, other, scales))) << i;
    }
  }
}

TEST(SharedWeights, AreOneWhileSomebodyHoldsThem) {
  SharedWeights<Bytes> shared;
  const WeightKey key = KeyOf("mx6", 4, {1}, {2}), other = KeyOf("mx6", 4, {1}, {3});
  int num_made = 0;
  const auto make = [&] {
    ++num_made;
    return Bytes(10, 1);
  };
  auto first = shared.Get(key, make), second = shared.Get(key, make);
  EXPECT_EQ(first.get(), second.get());
  EXPECT_EQ(num_made, 1);
  EXPECT_NE(shared.Get(other, make).get(), first.get());
  EXPECT_EQ(shared.size(), 1U) << "nobody holds the other one";
  first.reset();
  EXPECT_EQ(shared.size(), 1U);
  second.reset();
  EXPECT_EQ(shared.size(), 0U);
  static_cast<void>(shared.Get(key, make));
  EXPECT_EQ(num_made, 3);
}

TEST(SharedWeights, AnErrorLeavesNothing) {
  SharedWeights<Bytes> shared;
  const WeightKey key = KeyOf("mx6", 4, {1}, {2});
  const auto fail = []() -> Bytes { throw std::runtime_error("no weight"); };
  EXPECT_THROW(static_cast<void>(shared.Get(key, fail)), std::runtime_error);
  EXPECT_EQ(shared.size(), 0U);
  EXPECT_EQ(shared.Get(key, [] { return Bytes{7}; })->front(), 7);
}

TEST(SharedWeights, ThreadsThatAskAtOnceGetOne) {
  SharedWeights<Bytes> shared;
  std::vector<std::shared_ptr<const Bytes>> held(8);
  std::vector<std::thread> threads;
  for (auto& weight : held) {
    threads.emplace_back(
        [&] { weight = shared.Get(KeyOf("mx6", 4, {1}, {2}), [] { return Bytes(1000, 5); }); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& weight : held) EXPECT_EQ(weight.get(), held.front().get());
  EXPECT_EQ(shared.size(), 1U);
}

}  // namespace
}  // namespace bitpress::custom_ops
