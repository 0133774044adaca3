// Weights that were arranged for the kernels are shared by all nodes and sessions of a process that
// read the same codes: products with a tied weight, and sessions of one model, hold one copy. A
// copy ends with the last node that holds it. Thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>
#include <utility>

#include "formats/packed_tensor.h"

namespace bitpress::custom_ops {

// A number of 128 bits for what an arranged weight follows from. It depends on a random number of
// the process, so that nobody can make a model whose weight is taken for that of another.
class WeightKey {
 public:
  WeightKey();
  void Add(std::string_view word);
  void Add(int64_t number);
  void Add(std::span<const uint8_t> bytes);
  void Add(const formats::PackedView& view);
  bool operator<(const WeightKey& other) const { return value_ < other.value_; }

 private:
  void AddWord(uint64_t word);

  std::array<uint64_t, 2> value_;
};

// The arranged weights of one kind.
template <class Weight>
class SharedWeights {
 public:
  // Returns the weight of this key, which make() returns if no node holds one. Throws what make()
  // throws. It is made outside of the lock: of two that are made at once one is kept.
  template <class Make>
  std::shared_ptr<const Weight> Get(const WeightKey& key, Make&& make) {
    if (auto known = Find(key)) return known;
    auto made = std::make_shared<const Weight>(std::forward<Make>(make)());
    const std::lock_guard lock(mutex_);
    std::erase_if(weights_, [](const auto& entry) { return entry.second.expired(); });
    std::weak_ptr<const Weight>& entry = weights_[key];
    if (auto known = entry.lock()) return known;
    entry = made;
    return made;
  }

  // Returns the number of weights that nodes hold.
  size_t size() {
    const std::lock_guard lock(mutex_);
    std::erase_if(weights_, [](const auto& entry) { return entry.second.expired(); });
    return weights_.size();
  }

 private:
  std::shared_ptr<const Weight> Find(const WeightKey& key) {
    const std::lock_guard lock(mutex_);
    const auto found = weights_.find(key);
    return found == weights_.end() ? nullptr : found->second.lock();
  }

  std::mutex mutex_;
  std::map<WeightKey, std::weak_ptr<const Weight>> weights_;
};

}  // namespace bitpress::custom_ops
