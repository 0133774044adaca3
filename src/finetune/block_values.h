// The values of all samples at one place of the network, as the float network and the quantized one
// compute them, and their way through the next segment. They lie in temporary files.
#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "calibrate/tensor_files.h"
#include "data/source.h"
#include "finetune/gather_options.h"
#include "gradients/array.h"
#include "gradients/find_blocks.h"
#include "graph/model.h"

namespace bitpress::finetune {

class BlockValues {
 public:
  // Reads the samples: the inputs of the graph in each run. `segments` are those of `model`. Both
  // must outlive the values. Throws as reading does.
  BlockValues(const graph::Model& model, std::span<const gradients::Segment> segments,
              data::Source& source, const GatherOptions& options);

  size_t num_runs() const { return num_runs_; }
  // Runs the float network through a segment. REQUIRES: it was run through those before.
  void RunFloat(const gradients::Segment& segment);
  // Runs the quantized network through a segment. `quantized` has the values of all segments.
  void RunQuantized(const gradients::Segment& segment, const graph::Model& quantized);
  // Takes an output of the quantized network's segment.
  void PutQuantized(const std::string& value, size_t run, const gradients::Array<float>& array);
  // Forgets what no segment behind this one reads.
  void Forget(size_t segment);

  // Return a value as floats. Runs are counted from 0 on.
  gradients::Array<float> Float(const std::string& value, size_t run) const;
  gradients::Array<float> Quantized(const std::string& value, size_t run) const;

 private:
  void Run(const gradients::Segment& segment, const graph::Model& model,
           const calibrate::TensorFiles& from, const std::set<std::string>& known,
           calibrate::TensorFiles& to, std::set<std::string>& is_known);

  const graph::Model& model_;
  std::span<const gradients::Segment> segments_;
  GatherOptions options_;
  size_t num_runs_ = 0;
  // Values that depend on no layer are those of the float network in both.
  calibrate::TensorFiles float_files_, quantized_files_;
  std::set<std::string> float_values_, quantized_values_;
};

}  // namespace bitpress::finetune
