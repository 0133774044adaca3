// Pass equalize: cross-layer equalization of a float model, before weights get one scale for a
// whole tensor (Nagel et al., "Data-Free Quantization Through Weight Equalization and Bias
// Correction", 2019). Between two layers that only positively homogeneous operators separate, each
// channel can be divided by a factor at the end of the first layer and multiplied by it in the
// second one:
//
//   W2 f(W1 x + b1) = (W2 S) f(S^-1 W1 x + S^-1 b1)    for f(s y) = s f(y), s > 0
//
// The factors make the channels' ranges of both weights equal, so that one scale for a whole tensor
// fits all of its channels. The model computes the same; only float rounding differs.
#pragma once

#include <cstddef>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/fields.h"
#include "graph/model.h"
#include "plan/equalization.h"

namespace bitpress::rewrite {

// Two layers whose channels were scaled.
struct EqualizedPair {
  std::string first;   // the first node: "Conv 'conv1'"
  std::string second;  // the second node
  // The number of bits by which the ranges of both weights shrink together. It is measured before
  // any pair is changed.
  double gain_bits = 0;
  size_t num_channels = 0;
  size_t num_dead_channels = 0;  // channels without any weight on one side, which stay as they are
  bool is_bounded = false;       // a Min with one limit a channel stands between them now
};

// The pairs that were equalized, and the layers that were not.
struct EqualizeReport {
  std::vector<EqualizedPair> pairs;
  // The layers with constant weights that have no partner behind them, with the reason.
  std::vector<std::pair<std::string, std::string>> left_alone;
  int64_t num_steps = 0;  // rounds over all pairs
};
constexpr auto FieldsOf(const EqualizeReport*) {
  return std::tuple(
      ComputedField{"num_pairs", [](const EqualizeReport& report) { return report.pairs.size(); }},
      Field{"left_alone", &EqualizeReport::left_alone});
}

// Equalizes pairs of Conv, ConvTranspose, Gemm and MatMul with constant FLOAT weights. Grouped and
// depthwise convolutions are included, so that Conv -> depthwise Conv -> Conv is two pairs. Between
// the two layers may stand: Relu, LeakyRelu, PRelu, Clip(0, limit), Identity, an Add of a constant
// for each channel, a Mul with another value (the gate of an MLP), and, between convolutions,
// pools. Each value in between has one reader and is no graph output. Weights with NaN or infinity
// are left alone.
//
// Names of values stay. A new value in front of a Min is called `<value>_unbounded`. A constant
// that others read too gets a copy, `<name>_scaled`.
//
// The result is deterministic. A second run finds factors of 1 but for rounding.
EqualizeReport Equalize(graph::Model& model, const plan::EqualizeOptions& options = {});

}  // namespace bitpress::rewrite
