// The outputs of the float network in the validation runs, and how far quantized networks are from
// them (validate_network.h).
#pragma once

#include <cstddef>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "calibrate/tensor_files.h"
#include "data/source.h"
#include "finetune/gather_options.h"
#include "finetune/validate_network.h"
#include "graph/model.h"

namespace bitpress::finetune {

class NetworkOutputs {
 public:
  // Runs nothing yet. Model and source must outlive the object. Without caches those of a decoder
  // are compared only if it has no other outputs.
  NetworkOutputs(const graph::Model& float_model, data::Source& source,
                 const GatherOptions& options, bool with_caches = true);

  // Returns the errors of `quantized` against the float model, one element for each run. It is
  // empty for runs, counted from 1 on, for which `counts` is false, or was in the first call, and
  // for those whose outputs have another shape. The error of an output that lost values
  // (base/output_error.h) is infinite. The caches of a decoder are one output together, the last
  // one. An output "logits" [N, classes] or [N, S, classes] is compared up to a number that is
  // added to all classes.
  //
  // One network runs at a time, in pieces if it is large (calibrate/piece_runs.h). The float
  // model's outputs stay in temporary files. Throws Error as reading and running do, and Error(kIo)
  // if the files have no room.
  std::vector<OutputErrors> ErrorsOf(const graph::Model& quantized,
                                     const std::function<bool(size_t run)>& counts);

 private:
  using Take = std::function<void(const std::string& output, size_t run, const Tensor& value)>;
  // Runs a network and hands its outputs over. Returns the number of runs.
  size_t Run(const graph::Model& model, const std::function<bool(size_t run)>& counts,
             const Take& take);

  const graph::Model& float_model_;
  data::Source& source_;
  GatherOptions options_;
  std::vector<std::string> outputs_;  // those that the network computes
  calibrate::TensorFiles files_;      // of the float model
  std::set<size_t> known_runs_;       // that have files, since the first call
};

}  // namespace bitpress::finetune
