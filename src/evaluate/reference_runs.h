// Runs of a reference model that evaluations of several models on the same samples share. The first
// evaluation runs all batches, the next ones take what it found.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/tensor.h"

namespace bitpress::evaluate {

class ReferenceRuns {
 public:
  // A batch by its number and the names of its samples.
  using Key = std::pair<size_t, std::vector<std::string>>;
  struct Run {
    std::vector<Tensor> results;
    double ms = 0;
  };

  // Returns the run of a batch. Null: it was not kept.
  const Run* Find(const Key& key) const {
    const auto found = runs_.find(key);
    return found == runs_.end() ? nullptr : &found->second;
  }
  // Keeps a run, unless all of them would take more than kMostBytes.
  void Keep(const Key& key, const std::vector<Tensor>& results, double ms) {
    uint64_t bytes = num_bytes_;
    for (const Tensor& result : results) bytes += result.bytes.size();
    if (bytes > kMostBytes) return;
    if (runs_.emplace(key, Run{results, ms}).second) num_bytes_ = bytes;
  }

 private:
  static constexpr uint64_t kMostBytes = uint64_t{256} << 20;

  std::map<Key, Run> runs_;
  uint64_t num_bytes_ = 0;
};

}  // namespace bitpress::evaluate
