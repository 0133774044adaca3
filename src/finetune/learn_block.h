// Learns the roundings, biases and factors of norms of one block by gradients: the block's outputs
// come as close as they can, in the mean of squares, to those of the float network, for the inputs
// that the quantized network gives. tune_blocks.h calls it for each block in turn.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "finetune/layer.h"
#include "finetune/weight_grid.h"
#include "gradients/block.h"
#include "graph/model.h"

namespace bitpress::finetune {

// A weight of a block.
struct BlockWeight {
  std::string name;
  std::vector<float> wanted;  // the weight before it is rounded
  WeightGrid grid;            // with its scales, which stay
  bool learns = true;         // false: it only is rounded
  // An earlier pass chose its roundings: they are not all to nearest.
  bool has_roundings = false;
  // This share of the rate pulls it back to where it was. 0: nothing does.
  double decay = 0;
};

// A vector of a block that stays in float and learns, too.
struct BlockVector {
  std::string name;
  bool is_factor = false;  // a norm multiplies by it; false: it is added, as a bias
};

// The inputs and outputs of a block in one run of a sample.
struct BlockSample {
  std::vector<gradients::Array<float>> inputs;   // of the quantized network
  std::vector<gradients::Array<float>> outputs;  // of the float network
};

// The samples of a block, which lie in files.
struct BlockSamples {
  std::function<BlockSample(size_t run)> read;
  std::vector<size_t> training, validation;  // runs; validation may be that of training
};

// The form of weights while they learn.
enum class BlockStart {
  kFloats,     // rounded more and more
  kRoundings,  // rounded wholly from the start, and they move less
  kBoth,       // first one, then the other; the better one is kept
};

struct LearnBlockOptions {
  size_t num_steps = 100;
  size_t batch_size = 16;
  BlockStart start = BlockStart::kFloats;
  // Errors of a position, a row of the output, count by the inverse root of its square. False: all
  // count alike.
  bool evens_positions = false;
  // A block whose error is more than this share of what it was stays as rounded.
  double most_error = 0.98;
  uint64_t seed = 0;
  std::function<void(size_t step, double loss)> progress = {};
};

// Returns how many steps all starts take together.
size_t NumStepsOf(const LearnBlockOptions& options);

// Mean squares of the errors of outputs, as shares of the outputs' variance.
struct BlockErrors {
  double training = 0, validation = 0;
};

// The results of learning a block.
struct LearnedBlock {
  BlockErrors before, after;  // with weights rounded to nearest, and with what was learned
  bool is_better = false;     // on the validation samples; false: the rest is empty
  std::map<std::string, QuantizedWeight> weights;
  std::map<std::string, std::vector<float>> vectors;
  size_t best_step = 0;  // after which the errors were least; those of a second start count on
};

// Learns. `block` has the values of all constants, but for the weights. Its learned constants are
// the weights that learn, and the vectors. Steps are those of Adam on W + V * step with |V| <= 1/2,
// where step is the distance of the values around W, and on vectors. The state with the smallest
// validation error is kept. Afterwards the block has the weights that the network gets. Results are
// the same for any number of threads. Throws Error as Block::Forward.
LearnedBlock LearnBlock(gradients::Block<float>& block, std::vector<BlockWeight>& weights,
                        std::span<const BlockVector> vectors, const BlockSamples& samples,
                        const LearnBlockOptions& options, ThreadPool& pool);

}  // namespace bitpress::finetune
