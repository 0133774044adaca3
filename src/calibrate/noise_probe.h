// A float model whose activations can be rounded to integers, each for itself, while it runs. The
// guard measures with it what rounding some of them does to the outputs, without making a session
// for each choice.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/output_error.h"
#include "base/tensor.h"
#include "calibrate/compared_values.h"
#include "data/source.h"
#include "graph/model.h"
#include "plan/resolved_plan.h"
#include "runtime/observers.h"
#include "runtime/session.h"

namespace bitpress::calibrate {

// The errors of the compared values (compared_values.h), by entries and then by samples. An entry
// is a value, or a part of one. A value that is no float, and one whose shape depends on the
// rounding, have none.
using ComparedErrors = std::vector<std::vector<OutputError>>;
// Their noise over the samples, as MeanNoise counts it; 0 for an entry without energy.
using OutputNoise = std::vector<double>;
OutputNoise NoiseOf(const ComparedErrors& errors);
// Returns a noise as SQNR in dB, GuardReport::kNoNoiseDb for none.
double ToDb(double noise);

// One thread at a time uses a probe.
class NoiseProbe {
 public:
  // Takes the rows of `resolved` with these indices, which are activations with scales and with
  // integer formats of 16 bits at most. `in_pieces`: runs begin with the piece of the model in
  // which the first row is rounded, for which some values of each sample are kept.
  // `fetches_outputs`: all outputs of the model may be asked for besides the compared values.
  // Throws Error as runtime::Session.
  NoiseProbe(const graph::Model& model, const plan::ResolvedPlan& resolved,
             const std::vector<size_t>& rows, size_t num_threads, bool in_pieces = false,
             bool fetches_outputs = false);
  ~NoiseProbe();
  NoiseProbe(const NoiseProbe&) = delete;
  NoiseProbe& operator=(const NoiseProbe&) = delete;

  const std::vector<runtime::ValueDescription>& inputs() const { return inputs_; }
  // Keeps a sample.
  void AddSample(std::vector<Tensor> inputs) {
    samples_.push_back({std::move(inputs), {}, {}, {}, {}});
  }
  size_t num_samples() const { return samples_.size(); }
  // Return what messages call an entry, and the output of the model that it stands for. REQUIRES:
  // something was measured.
  std::string NameOf(size_t entry) const;
  const std::string& OutputOf(size_t entry) const;

  // Goes on with another model of the same nodes, whose weights are quantized. Roundings are
  // compared with what this model gives from then on, and both with the first one. Only samples
  // that were measured may be measured then. May be called again, for other weights. The float
  // model stays in memory until DropFloats if outputs may be asked for.
  void UseWeights(const graph::Model& model, const plan::ResolvedPlan& resolved,
                  const std::vector<size_t>& rows);
  // Frees the float model. No WantedOutputs may be new from then on.
  void DropFloats() { float_pieces_.clear(); }

  // Takes other scales for the same rows. REQUIRES: `scales` has one for each.
  void SetScales(const plan::ScaleTable& scales);
  struct Measured {
    ComparedErrors of_rounding;
    ComparedErrors in_all;  // with the error of the weights; empty before UseWeights
  };
  // Measures some samples with the rows i (in the order of `rows`) rounded for which is_rounded[i].
  // REQUIRES: as many entries as rows.
  Measured Measure(const std::vector<bool>& is_rounded, std::span<const size_t> samples);
  // Returns how often the model ran for a sample. Parts of runs add up.
  size_t num_runs() const { return (num_piece_runs_ + pieces_.size() - 1) / pieces_.size(); }
  size_t num_pieces() const { return pieces_.size(); }

  // Returns whether the outputs of the model may be asked for.
  bool FetchesOutputs() const { return !outputs_.empty(); }
  const std::vector<Tensor>& InputsOf(size_t sample) const { return samples_.at(sample).inputs; }
  // Return the outputs of the model for a sample: those of the float model, which runs if it did
  // not yet, and those with some rows rounded, as Measure has them. REQUIRES: FetchesOutputs().
  const std::vector<Tensor>& WantedOutputs(size_t sample);
  std::vector<Tensor> RoundedOutputs(const std::vector<bool>& is_rounded, size_t sample);

 private:
  class Rounder;
  struct Sample {
    std::vector<Tensor> inputs;
    std::vector<Tensor> wanted;   // of the float model; empty before it ran
    std::vector<Tensor> rounded;  // with the weights of UseWeights alone; empty before that ran
    std::vector<Tensor> outputs;  // of the float model, all; empty before they were asked for
    // The values that pieces give to later ones without rounding; empty if they are too large.
    std::map<std::string, Tensor> between;
  };
  // A part of the model, whose inputs are inputs of the model or outputs of earlier pieces.
  struct Piece {
    std::unique_ptr<runtime::Session> session;
  };

  void Open(const graph::Model& model, const plan::ResolvedPlan& resolved,
            const std::vector<size_t>& rows);
  // Runs pieces of a model from `first` on. Returns the compared values, in their order: those of
  // earlier pieces are in `before`. Adds to `between` what pieces give.
  std::vector<Tensor> Run(const std::vector<Piece>& pieces, const Sample& sample, size_t first,
                          std::vector<Tensor> before, std::map<std::string, Tensor>& between);
  // Runs a sample without roundings if it did not yet.
  void RunWithoutRounding(Sample& sample);
  // Returns the outputs of the model among the fetched values.
  std::vector<Tensor> OutputsOf(const std::vector<Tensor>& fetched) const;

  std::vector<ComparedValue> compared_;
  std::vector<size_t> entries_;       // the compared values of the entries
  std::vector<plan::ScaleKey> keys_;  // of the rows
  std::unique_ptr<Rounder> rounder_;
  runtime::ObserverOperators operators_;
  int num_threads_;
  bool in_pieces_;
  std::vector<runtime::ValueDescription> inputs_;  // of the model
  // The outputs that are the compared values, in their order, and then those of the model that are
  // none of them.
  std::vector<std::string> fetched_;
  std::vector<std::string> outputs_;  // of the model; empty: they are not fetched
  std::vector<Piece> pieces_;
  std::vector<Piece> float_pieces_;   // behind UseWeights
  std::vector<size_t> piece_of_row_;  // the piece in which a row is rounded
  std::vector<Sample> samples_;
  uint64_t num_bytes_between_ = 0;
  bool has_weights_ = false;
  size_t num_piece_runs_ = 0;
};

// Keeps `wanted` samples at most, one of each of as many equal parts of the source, the same ones
// every time. Their distances differ, because samples of several kinds often take turns. Throws
// Error(kInvalidArgument) if there are none.
void AddSpreadSamples(NoiseProbe& probe, data::Source& source, size_t wanted);

// Calls `take` with each sample of the source that AddSpreadSamples with `wanted` does not take.
void EachOtherSample(const NoiseProbe& probe, data::Source& source, size_t wanted,
                     const std::function<void(const std::vector<Tensor>& inputs)>& take);

}  // namespace bitpress::calibrate
