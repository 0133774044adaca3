// The layers that can be fine-tuned, each as a linear map: outputs of one group are W x + b, where
// x is what the layer reads at one position (the im2col row of a convolution).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "finetune/activation_function.h"
#include "graph/model.h"
#include "plan/quant_plan.h"

namespace bitpress::finetune {

// Where positions and channels lie in the activations of a layer.
enum class PositionLayout {
  kWindows,        // Conv: [N, C, spatial...], a position is a place of the kernel
  kScatter,        // ConvTranspose: [N, C, spatial...], a position is an element of the output
  kChannelsLast,   // Gemm, MatMul with a constant right side: [..., K]
  kChannelsFirst,  // MatMul with a constant left side: [..., K, P]
};

// What a weight of an LSTM, GRU or RNN multiplies. Its product is no value of the model:
// AddProducts makes it one.
enum class RecurrentWeight {
  kNone,    // it is of another operator
  kInputs,  // W: what the node reads; directions are rows
  kStates,  // R: what the node gave at the step before; directions are groups
};

// The dimensions behind the channels; empty for matrix products.
struct Window {
  std::vector<int64_t> kernel, strides, dilations;
  std::vector<int64_t> pads_begin;  // after auto_pad is known only with shapes: see PatchReader
  std::string auto_pad = "NOTSET";
  int64_t num_taps() const { return NumElements(kernel); }
  bool operator==(const Window&) const = default;
};

// A node that multiplies with a weight.
struct Reading {
  std::string node;       // as plans name it (plan::NodeIndex)
  size_t data_input = 0;  // which input of the node is the activation
  std::string states;     // kStates: the name that AddProducts gives to what is multiplied
  std::string output;  // what the node computes, or the name that AddProducts gives to the product
};

struct LinearLayer {
  std::string op_type;
  std::vector<Reading> readings;  // in graph order, at least one; all of them multiply alike
  std::string weight;
  std::string bias;  // empty: there is none that can be changed
  // The node has no bias yet, but takes one of that name (AddBias).
  bool is_bias_new = false;
  // The bias is added by a node behind the layer, and not part of its output.
  bool is_bias_behind = false;
  // Part of the output, but not to be changed: others read it too. Then there is no other bias.
  std::string fixed_bias;
  RecurrentWeight recurrent = RecurrentWeight::kNone;
  // What alone reads the output, or that of the node that adds the bias. Of one reading only.
  std::optional<ActivationFunction> activation = std::nullopt;
  const plan::TensorPlan* row = nullptr;  // of the weight

  PositionLayout layout = PositionLayout::kChannelsLast;
  Window window;
  // The weight as `groups` matrices of rows x columns. Column k = channel * taps + tap.
  int64_t groups = 1;
  int64_t rows = 0;
  int64_t columns = 0;
  // Element (group, row, channel, tap) lies at the sum of these products, with tap as it is.
  int64_t group_stride = 0;
  int64_t row_stride = 0;
  int64_t channel_stride = 0;
  // Recurrent: each direction has biases for W and then as many for R; 0: all are this layer's.
  int64_t biases_per_direction = 0;

  const std::string& node() const { return readings.front().node; }  // that stands for the layer
  int64_t num_outputs() const { return groups * rows; }
  size_t BiasElementOf(int64_t weight_output) const {
    if (biases_per_direction == 0) return static_cast<size_t>(weight_output);
    const int64_t direction = weight_output / biases_per_direction;
    const int64_t num_before = direction + (recurrent == RecurrentWeight::kStates ? 1 : 0);
    return static_cast<size_t>(weight_output + num_before * biases_per_direction);
  }
  int64_t num_taps() const { return window.kernel.empty() ? 1 : window.num_taps(); }
  size_t ElementOf(int64_t group, int64_t weight_row, int64_t column) const {
    const int64_t taps = num_taps();
    return static_cast<size_t>(group * group_stride + weight_row * row_stride +
                               column / taps * channel_stride + column % taps);
  }
};

struct Layers {
  std::vector<LinearLayer> found;  // in graph order
  // Weights that the plan quantizes and that stay as they are, with the reason.
  std::vector<std::pair<std::string, std::string>> left_out;
};

// `plan` must outlive the result. `model` is the float model that the plan is of.
// `with_new_biases`: convolutions and Gemm without a bias get a name for one. A MatMul does not:
// it would be another node, in the way of what ONNX Runtime makes of products and quantizers.
Layers FindLayers(const graph::Model& model, const plan::QuantPlan& plan,
                  bool with_new_biases = false);

// The biases that are the layer's, in the order of its outputs. REQUIRES: its bias is a constant.
std::vector<float> BiasOf(const graph::Model& model, const LinearLayer& layer);
void SetBias(graph::Model& model, const LinearLayer& layer, std::span<const float> values);

// Gives the layer's node its new bias, in the type of the weight.
void AddBias(graph::Model& model, const LinearLayer& layer, std::span<const float> values);

// A constant of FLOAT or FLOAT16, as floats, and back to the type and shape that it has.
std::vector<float> FloatsOf(const graph::Model& model, const std::string& name);
void SetFloats(graph::Model& model, const std::string& name, std::span<const float> values);

}  // namespace bitpress::finetune
