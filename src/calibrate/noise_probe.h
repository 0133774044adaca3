// A float model whose activations can be rounded to integers, each for itself, while it runs. The
// guard measures with it what rounding some of them does to the outputs, without making a session
// for each choice.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "base/tensor.h"
#include "graph/model.h"
#include "plan/resolved_plan.h"
#include "runtime/observers.h"
#include "runtime/session.h"

namespace bitpress::calibrate {

// The errors at the outputs of a model over the samples, as MeanNoise counts them. An output
// without energy, one that is no float, and one whose shape depends on the rounding have 0.
using OutputNoise = std::vector<double>;

// One thread at a time uses a probe.
class NoiseProbe {
 public:
  // Takes the rows of `resolved` with these indices, which are activations with scales and with
  // integer formats of 16 bits at most. Throws Error as runtime::Session.
  NoiseProbe(const graph::Model& model, const plan::ResolvedPlan& resolved,
             const std::vector<size_t>& rows, size_t num_threads);
  ~NoiseProbe();
  NoiseProbe(const NoiseProbe&) = delete;
  NoiseProbe& operator=(const NoiseProbe&) = delete;

  const std::vector<runtime::ValueDescription>& inputs() const { return session_->inputs(); }
  // Returns the names of the outputs.
  std::vector<std::string> OutputNames() const;
  // Runs a sample without rounding, and keeps it with its outputs.
  void AddSample(std::vector<Tensor> inputs);
  size_t num_samples() const { return samples_.size(); }

  // Takes other scales for the same rows. REQUIRES: `scales` has one for each.
  void SetScales(const plan::ScaleTable& scales);
  // Returns the noise over every `step`-th sample if the rows i (in the order of `rows`) with
  // is_rounded[i] are rounded. REQUIRES: there are samples, as many entries as rows, and step >= 1.
  OutputNoise Measure(const std::vector<bool>& is_rounded, size_t step);

 private:
  class Rounder;
  struct Sample {
    std::vector<Tensor> inputs;
    std::vector<Tensor> outputs;
  };

  std::vector<plan::ScaleKey> keys_;  // of the rows
  std::unique_ptr<Rounder> rounder_;
  runtime::ObserverOperators operators_;
  std::unique_ptr<runtime::Session> session_;
  std::vector<Sample> samples_;
};

}  // namespace bitpress::calibrate
