// The layers of a model whose weights fine-tuning can learn, each described as a linear map. The
// outputs of one group are W x + b, where x holds the inputs that the layer reads at one position:
// for a convolution, one row of im2col.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "graph/model.h"
#include "plan/quant_plan.h"

namespace bitpress::finetune {

// The order of positions and channels in the activations of a layer.
enum class PositionLayout {
  kWindows,        // Conv: [N, C, spatial...]; a position is a place of the kernel
  kScatter,        // ConvTranspose: [N, C, spatial...]; a position is an element of the output
  kChannelsLast,   // Gemm, MatMul with a constant right side: [..., K]
  kChannelsFirst,  // MatMul with a constant left side: [..., K, P]
};

// The weight of an LSTM, GRU or RNN that a layer stands for. The operator computes the product
// inside, and AddProducts makes it a value of the model.
enum class RecurrentWeight {
  kNone,    // the layer is another operator
  kInputs,  // W, which multiplies the node's inputs; directions are rows
  kStates,  // R, which multiplies the node's states of the step before; directions are groups
};

// The spatial dimensions of a convolution. Empty for matrix products.
struct Window {
  std::vector<int64_t> kernel, strides, dilations;
  // Elements of padding. If auto_pad is set, they follow from the shapes of a run (PatchReader).
  std::vector<int64_t> pads_begin;
  std::string auto_pad = "NOTSET";
  int64_t num_taps() const { return NumElements(kernel); }
  bool operator==(const Window&) const = default;
};

// A node that reads a layer's weight and multiplies by it.
struct Reading {
  std::string node;       // the node's name in plans (plan::NodeIndex)
  size_t data_input = 0;  // index of the node's input that is the activation
  // Name that AddProducts gives to the states that R multiplies. Empty for other weights.
  std::string states;
  // Name of the node's output, or for recurrent layers the name that AddProducts gives to the
  // product.
  std::string output;
};

// A weight, and the nodes that multiply by it.
struct LinearLayer {
  std::string op_type;
  // Nodes that read the weight, in graph order. At least one; all of them compute the same map.
  std::vector<Reading> readings;
  std::string weight;
  std::string bias;  // name of the bias that may be changed; empty: none
  // The node has no bias yet. AddBias gives it one with the name `bias`.
  bool is_bias_new = false;
  // A node behind the layer adds the bias, so the observed output does not contain it.
  bool is_bias_behind = false;
  // Name of a bias that the output contains but that must not change, because other nodes read it
  // too. If it is set, `bias` is empty.
  std::string fixed_bias;
  RecurrentWeight recurrent = RecurrentWeight::kNone;
  const plan::TensorPlan* row = nullptr;  // the weight's row of the plan
  // Number of the float activation that this matrix product reads. Layers with the same number read
  // it alike and share its moments; their outputs follow from it and need not be observed. -1: the
  // activation is quantized, or the layer is no matrix product.
  int64_t float_input = -1;

  PositionLayout layout = PositionLayout::kChannelsLast;
  Window window;
  // The weight is `groups` matrices of rows x columns. Column k = channel * taps + tap.
  int64_t groups = 1;
  int64_t rows = 0;
  int64_t columns = 0;
  // Element (group, row, channel, tap) of the weight lies at
  // group * group_stride + row * row_stride + channel * channel_stride + tap.
  int64_t group_stride = 0;
  int64_t row_stride = 0;
  int64_t channel_stride = 0;
  // Number of biases that one direction of a recurrent layer has for W. As many for R follow them.
  // 0: all elements of the bias are this layer's.
  int64_t biases_per_direction = 0;

  // Returns the name of the node that stands for the layer in reports.
  const std::string& node() const { return readings.front().node; }
  int64_t num_outputs() const { return groups * rows; }
  // Returns whether moments need the layer's outputs. Else they follow from its inputs.
  bool observes_outputs() const { return float_input < 0; }
  // Returns the index, in the bias tensor, of the bias of one output.
  size_t BiasElementOf(int64_t weight_output) const {
    if (biases_per_direction == 0) return static_cast<size_t>(weight_output);
    const int64_t direction = weight_output / biases_per_direction;
    const int64_t num_before = direction + (recurrent == RecurrentWeight::kStates ? 1 : 0);
    return static_cast<size_t>(weight_output + num_before * biases_per_direction);
  }
  int64_t num_taps() const { return window.kernel.empty() ? 1 : window.num_taps(); }
  // Returns the index, in the weight tensor, of one element of the matrices.
  size_t ElementOf(int64_t group, int64_t weight_row, int64_t column) const {
    const int64_t taps = num_taps();
    return static_cast<size_t>(group * group_stride + weight_row * row_stride +
                               column / taps * channel_stride + column % taps);
  }
};

// The result of FindLayers.
struct Layers {
  std::vector<LinearLayer> found;  // in graph order
  // Quantized weights that cannot be learned, each with the reason.
  std::vector<std::pair<std::string, std::string>> left_out;
};

struct FindLayersOptions {
  // Convolutions and Gemm without a bias get a name for a new one (LinearLayer::is_bias_new). A
  // MatMul does not: its bias would be another node, and ONNX Runtime would no longer replace the
  // product and its quantizers by one integer operator.
  bool with_new_biases = false;
};

// Returns the layers whose weights the plan quantizes. `model` is the float model that `plan` was
// made for. `plan` must outlive the result.
Layers FindLayers(const graph::Model& model, const plan::QuantPlan& plan,
                  const FindLayersOptions& options = {});

// Returns the layer's part of the bias tensor, one value for each output.
// REQUIRES: layer.bias names a constant of the model.
std::vector<float> BiasOf(const graph::Model& model, const LinearLayer& layer);
// Writes the layer's part of the bias tensor.
// REQUIRES: layer.bias names a constant of the model, values.size() == layer.num_outputs().
void SetBias(graph::Model& model, const LinearLayer& layer, std::span<const float> values);

// Gives the layer's node its new bias, in the type of the weight.
// REQUIRES: layer.is_bias_new, values.size() == layer.num_outputs().
void AddBias(graph::Model& model, const LinearLayer& layer, std::span<const float> values);

// Returns a FLOAT or FLOAT16 constant as floats.
std::vector<float> FloatsOf(const graph::Model& model, const std::string& name);
// Replaces the values of a FLOAT or FLOAT16 constant. Its type and shape stay.
// REQUIRES: `values` has as many elements as the constant.
void SetFloats(graph::Model& model, const std::string& name, std::span<const float> values);

}  // namespace bitpress::finetune
