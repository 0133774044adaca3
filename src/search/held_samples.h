// The samples that sensitivity runs once for each layer, held in memory as long as they are few.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "base/tensor.h"
#include "data/source.h"
#include "runtime/session.h"

namespace bitpress::search {

// One run of the model, with what the float model gives for it.
struct HeldSample {
  std::vector<Tensor> inputs;
  size_t count = 0;               // samples of the run
  std::vector<int64_t> labels;    // label of each sample, or empty
  std::vector<Tensor> reference;  // the outputs that count
};

// Most bytes of inputs and references that are held.
inline constexpr uint64_t kMostHeldBytes = 256'000'000;

// Not thread-safe.
class HeldSamples {
 public:
  // `source` was opened for these inputs and must outlive this.
  HeldSamples(data::Source& source, std::vector<runtime::ValueDescription> inputs)
      : source_(source), inputs_(std::move(inputs)) {}

  // Calls `run` with each sample, one at a time. The reference is made by `make_reference`, once a
  // sample if all fit into memory. Throws Error(kInvalidArgument) if there is no sample, and the
  // errors of reading.
  void ForEach(const std::function<std::vector<Tensor>(const std::vector<Tensor>&)>& make_reference,
               const std::function<void(const HeldSample&)>& run);

  // Returns the number of samples; 0 before the first ForEach.
  size_t num_samples() const { return num_samples_; }

 private:
  data::Source& source_;
  std::vector<runtime::ValueDescription> inputs_;
  std::vector<HeldSample> held_;
  bool is_complete_ = false;
  size_t num_samples_ = 0;
};

}  // namespace bitpress::search
