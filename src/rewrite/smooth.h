// Pass smooth: SmoothQuant (Xiao et al., 2022). Channels of an activation that are far larger than
// the others cost all of them their accuracy; the weight that meets them has none such. Each input
// channel of a matrix product is divided by a factor and the weight's rows are multiplied by it:
//
//   s = (largest |x| of the channel)^alpha / (largest |w| of the channel)^(1 - alpha)
//
// The model computes the same; only float rounding differs. The division is folded into the
// constants of what comes before where nobody else reads the activation; elsewhere a Mul does it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "graph/model.h"

namespace bitpress::rewrite {

// What samples say of one channel (an index of the last axis) of an activation.
struct ChannelStatistics {
  double abs_max = 0;
  double mean_square = 0;
};
// By the name of the activation.
using ChannelTable = std::map<std::string, std::vector<ChannelStatistics>>;

struct SmoothOptions {
  // Nothing: for each activation the best of 0, 0.05, ..., 1, by the error that 8-bit integers
  // would make in the products, with one scale for the activation and one for each output channel.
  std::optional<double> alpha = 0.5;
  // Not nothing: the factors of activations by name, and `alpha` and statistics do not count.
  // Activations that are not there are left alone.
  std::optional<std::map<std::string, std::vector<double>>> factors = std::nullopt;
  // Insert a Mul where nothing can be folded; without it such activations are left alone, and the
  // graph keeps its nodes and values.
  bool may_insert = true;
};

struct SmoothedActivation {
  std::string value;
  std::string folded_into;  // "LayerNormalization 'ln1'"; empty: a Mul in front of its readers
  double alpha = 0;         // where factors were not given
  size_t num_readers = 0;
  // What the activation is divided by, one for each channel, and the value that holds the result:
  // the activation itself, or `<value>_smoothed`.
  std::vector<double> factors = {};
  std::string result = {};
  // Values between where the factors are folded and the activation: divided by them too.
  std::vector<std::string> passed = {};
};

struct SmoothReport {
  std::vector<SmoothedActivation> smoothed;
  std::vector<std::pair<std::string, std::string>> left_alone;  // activations, and why
};

// The activations that could be smoothed: inputs of MatMul and Gemm whose weights are constant
// FLOAT matrices, in graph order. Their channels are the last axis.
std::vector<std::string> ValuesToSmooth(const graph::Model& model);

// A Mul's result is called `<value>_smoothed`. Activations without statistics, or with NaN or
// infinity in them, are left alone. Deterministic.
SmoothReport Smooth(graph::Model& model, const ChannelTable& statistics,
                    const SmoothOptions& options = {});

}  // namespace bitpress::rewrite
