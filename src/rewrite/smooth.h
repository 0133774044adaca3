// Pass smooth: SmoothQuant (Xiao et al., 2022), for activations that are quantized with one scale.
// Some channels of an activation are far larger than the others and cost all of them their
// accuracy, while the weight that meets them has no such channels. Each input channel of a matrix
// product is divided by a factor, and the weight's rows are multiplied by it:
//
//   s = (largest |x| of the channel)^alpha / (largest |w| of the channel)^(1 - alpha)
//
// The model computes the same; only float rounding differs. Where nobody else reads the activation,
// the division is folded into the constants of the nodes before it: those of a norm, of a product,
// or of the layer that gives one half of a gated MLP. Elsewhere a Mul does it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/fields.h"
#include "graph/model.h"

namespace bitpress::rewrite {

// The statistics of one channel of an activation over the samples. A channel is an index of the
// last axis.
struct ChannelStatistics {
  double abs_max = 0;
  double mean_square = 0;
  uint64_t num_elements = 0;  // what these are of; 0: so many that no new one is larger
};
// The statistics of all channels, by the name of the activation.
using ChannelTable = std::map<std::string, std::vector<ChannelStatistics>>;

struct SmoothOptions {
  // The exponent alpha of the factors. Nothing: each activation gets the best of 0, 0.05, ..., 1,
  // by the error that 8-bit integers would make in the products, with one scale for the activation
  // and one for each output channel, and by what new samples would lose beyond the largest elements
  // seen. An activation that is better as it is stays so.
  std::optional<double> alpha = 0.5;
  // The factors of activations, by name. If they are given, `alpha` and statistics do not count,
  // and activations without factors are left alone.
  std::optional<std::map<std::string, std::vector<double>>> factors = std::nullopt;
  // Inserts a Mul where nothing can be folded. Otherwise such activations are left alone, and the
  // graph keeps its nodes and values.
  bool may_insert = true;
};

// One activation that was smoothed.
struct SmoothedActivation {
  std::string value;
  std::string folded_into;  // "LayerNormalization 'ln1'"; empty: a Mul in front of its readers
  double alpha = 0;         // the exponent, unless factors were given
  size_t num_readers = 0;
  std::vector<double> factors = {};  // the divisors, one for each channel
  std::string result = {};  // the value divided by them: the activation, or `<value>_smoothed`
  // The values between the node that the factors are folded into and the activation. They are
  // divided by the factors too.
  std::vector<std::string> passed = {};
};
constexpr auto FieldsOf(const SmoothedActivation*) {
  return std::tuple(Field{"value", &SmoothedActivation::value},
                    Field{"alpha", &SmoothedActivation::alpha},
                    Field{"folded_into", &SmoothedActivation::folded_into});
}

// The activations that were smoothed, and those that were not.
struct SmoothReport {
  std::vector<SmoothedActivation> smoothed;
  std::vector<std::pair<std::string, std::string>> left_alone;  // activations, with the reason
};
constexpr auto FieldsOf(const SmoothReport*) {
  return std::tuple(Field{"activations", &SmoothReport::smoothed},
                    Field{"left_alone", &SmoothReport::left_alone});
}

// Returns the activations that can be smoothed, in graph order: the inputs of MatMul and Gemm whose
// weights are constant FLOAT matrices. Their channels are the last axis.
std::vector<std::string> ValuesToSmooth(const graph::Model& model);

// Smooths the activations of a model. A Mul's result is called `<value>_smoothed`. Activations
// without statistics, and those whose weights hold NaN or infinity, are left alone. The result is
// deterministic.
SmoothReport Smooth(graph::Model& model, const ChannelTable& statistics,
                    const SmoothOptions& options = {});

}  // namespace bitpress::rewrite
