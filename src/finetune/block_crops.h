// Batches of a block's samples: several runs stacked along the first dimension where that changes
// no result, and parts of large pictures instead of whole ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "finetune/learn_block.h"

namespace bitpress::finetune {

// The square part of a picture that a block learns from.
struct CropRule {
  int64_t size = 0;    // rows and columns of the input; 0: whole pictures
  int64_t stride = 1;  // rows of the input for one of the output
  int64_t margin = 0;  // rows of the output at the part's edges that do not count
};

// Some samples in one run of the block, and what counts of the outputs.
struct BlockBatch {
  std::vector<gradients::Array<float>> inputs, outputs;
  // For each element of the last two dimensions of outputs[0], for each sample: 1 if it counts.
  // Empty: all count.
  std::vector<float> counts;
};

class BlockBatches {
 public:
  // Finds out, with two samples, whether runs can be stacked and pictures cropped: both must give
  // the numbers that whole runs give.
  BlockBatches(gradients::Block<float>& block, const BlockSamples& samples);

  bool is_stacked() const { return is_stacked_; }
  const CropRule& crop() const { return crop_; }
  // Returns the batches of these runs: as few as fit the cache if they can be stacked, else one for
  // each. `random` chooses the parts.
  std::vector<BlockBatch> Read(std::span<const size_t> runs, std::mt19937_64& random) const;

 private:
  BlockBatch Cropped(const BlockSample& sample, std::mt19937_64& random) const;
  bool TryCrop(gradients::Block<float>& block, const BlockSample& sample);

  const BlockSamples& samples_;
  bool is_stacked_ = false;
  size_t num_stacked_ = 1;  // runs in one batch
  CropRule crop_;
};

// Sets the block's inputs and runs it.
void RunBlock(gradients::Block<float>& block, const BlockBatch& batch);

}  // namespace bitpress::finetune
