// What the trials of one model share: the prepared model and the statistics of its activations,
// each kept with everything that it depends on. Give one to every Quantize of a model with the same
// samples. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "calibrate/calibrate.h"
#include "graph/model.h"
#include "graph/pass.h"
#include "graph/stored_bytes.h"
#include "plan/equalization.h"
#include "rewrite/prepare.h"

namespace bitpress::tasks {

// Results by what they depend on. A few, so that they are compared one by one.
template <typename Key, typename Value>
class Memo {
 public:
  // Returns the result of `key`, which `make` gives the first time.
  template <typename Make>
  std::shared_ptr<const Value> Get(const Key& key, const Make& make) {
    for (const auto& [known, value] : results_) {
      if (known == key) return value;
    }
    results_.emplace_back(key, std::make_shared<const Value>(make()));
    return results_.back().second;
  }

 private:
  std::vector<std::pair<Key, std::shared_ptr<const Value>>> results_;
};

struct PreparationKey {
  rewrite::Preparation preparation = rewrite::Preparation::kOptimize;
  plan::Rewrites rewrites;
  graph::PassNames disabled_passes;
  bool operator==(const PreparationKey&) const = default;
};

// A given model after its preparation, with what is known of the given one.
struct PreparedModel {
  graph::Model model;
  rewrite::RewriteReport rewritten;
  std::map<std::string, size_t> already_quantized;
  graph::StoredParts input_parts;
  uint64_t input_bytes = 0;
};

struct StatisticsKey {
  PreparationKey preparation;
  std::vector<std::string> values;
  std::map<std::string, int64_t> axes;
  std::set<std::string> caches;
  size_t num_samples = 0;
  bool has_sums = false;
  bool operator==(const StatisticsKey&) const = default;
};

struct SharedWork {
  Memo<PreparationKey, PreparedModel> prepared;
  Memo<StatisticsKey, calibrate::CalibrationResult> statistics;
};

}  // namespace bitpress::tasks
