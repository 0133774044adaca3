// The network whose activations fine-tuning learns from, and its runs. A network larger than the
// memory for it runs piece by piece (calibrate/piece_runs.h): the layers of a piece learn before
// the next piece runs.
//
//   ObservedNetwork network(float_model, quantized_model, layers, source, options);
//   for (const std::vector<LinearLayer>& part : network.Parts()) ...GatherMoments(network, part)
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "calibrate/piece_runs.h"
#include "data/source.h"
#include "finetune/gather_options.h"
#include "finetune/layer.h"
#include "graph/model.h"
#include "runtime/observers.h"

namespace bitpress::finetune {

// The runs of some samples among those of all.
struct RunRange {
  size_t first = 0;  // index of their first run
  size_t num = 0;    // 0: not known before
  size_t all = 0;    // runs of all samples; 0: not known
};

class ObservedNetwork {
 public:
  // `quantized_model` is the float model with the quantizers of a plan. Throws
  // Error(kInvalidArgument) if a layer is missing in the model. The source must outlive the
  // network.
  ObservedNetwork(const graph::Model& float_model, const graph::Model& quantized_model,
                  std::vector<LinearLayer> layers, data::Source& source,
                  const GatherOptions& options);

  // Returns the layers of each piece that has some. There is one part for a network that runs
  // whole.
  std::vector<std::vector<LinearLayer>> Parts() const;
  // Returns the value that the layer multiplies: the quantizer's output, or the float activation.
  const std::string& InputOf(const LinearLayer& layer, const Reading& reading) const;

  // Runs all samples and shows values[i] to the sink with id i. `begin_runs` takes their range
  // before the first one, `begin_run` is called before each. REQUIRES: the
  // values are inputs and outputs of the layers of one part; parts are run in their order. Throws
  // the errors of reading and running, and Error(kInvalidArgument) if there are no samples, or if
  // the source has a part of the samples that ends within a run.
  void Run(std::span<const std::string> values, runtime::ObserverSink& sink,
           const GatherOptions& options,
           const std::function<void(const RunRange& range)>& begin_runs,
           const std::function<void()>& begin_run);

 private:
  RunRange RangeOf(size_t samples_of_run);

  std::vector<LinearLayer> layers_;
  data::Source& source_;
  GatherOptions options_;
  std::map<std::pair<std::string, size_t>, std::string> inputs_;  // by node and input
  graph::Model model_;
  std::unique_ptr<calibrate::PieceRuns> pieces_;
  std::vector<size_t> piece_of_layer_;
  size_t num_done_ = 0;  // pieces whose outputs are kept
};

}  // namespace bitpress::finetune
