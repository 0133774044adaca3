// The LSTM of Quark's operator ExtendedLSTM, which imitates an accelerator: inputs, weights, biases
// and outputs are codes of 16 bits, the sums of products are integers in units of 2^-24, and the
// gates and the cell state are float32.
#pragma once

#include <cstddef>
#include <cstdint>

namespace bitpress::kernels {

// The numbers that a code stands for: (code - zero_point) * scale.
struct CodeScale {
  float scale = 1;
  uint16_t zero_point = 0;
};

// The scales of the operator's inputs and of its output, one for each tensor.
struct ExtendedLstmScales {
  CodeScale x, w, r, b, y;
};

// The sizes of one run. The batch is always one sequence.
struct ExtendedLstmSizes {
  size_t steps = 0;
  size_t input_size = 0;
  size_t hidden_size = 0;
};

// One direction's tensors in ONNX's layout, with the gates in the order input, output, forget,
// cell.
struct ExtendedLstmTensors {
  const float* x = nullptr;  // [steps, input_size]
  const float* w = nullptr;  // [4 * hidden_size, input_size]
  const float* r = nullptr;  // [4 * hidden_size, hidden_size]
  const float* b = nullptr;  // [8 * hidden_size]: 4 * hidden_size of the inputs, then of the state
  float* y = nullptr;        // row t begins at t * y_stride and has hidden_size values
  size_t y_stride = 0;
};

// Computes with given scales. The outputs equal those of Quark 0.13 on x86 bit for bit, if both use
// the same std::tanh of the C library, whose last bit is not specified. These are properties of
// Quark's operator, not of an LSTM:
// - Sums of products have the wrong sign where the scale of x times that of w (or those of y and r)
//   is a power of two, because 32768 is taken as a 16-bit integer.
// - An output zero point below 32767 counts as one more in the operator, and not where its outputs
//   are converted.
// - Output codes beyond 16 bits wrap.
class ExtendedLstm {
 public:
  // Throws Error(kInvalidModel) if a scale is not positive and finite, and Error(kUnsupported) if a
  // factor that follows from the scales needs a shift that Quark's operator leaves undefined.
  explicit ExtendedLstm(const ExtendedLstmScales& scales);

  // Runs one direction, the backward one from the last step to the first. Throws
  // Error(kUnsupported) if the sizes are too large for the scales. REQUIRES: sizes other than
  // `steps` are positive.
  void Run(const ExtendedLstmSizes& sizes, const ExtendedLstmTensors& tensors,
           bool is_backward) const;

  // A factor as an integer of 16 bits and a shift to the right.
  struct FixedPoint {
    int64_t factor = 0;
    int shift = 0;
  };

 private:
  ExtendedLstmScales scales_;
  // The units of the sums of products of codes, in units of 2^-24.
  double input_unit_ = 0;
  double state_unit_ = 0;
  FixedPoint input_products_, state_products_;  // the units
  FixedPoint input_codes_, state_codes_;        // the units times the zero points of w and r
  FixedPoint outputs_;                          // 2^-24 over the scale of y
  int16_t first_state_ = 0;                     // the code of zero in the state
};

}  // namespace bitpress::kernels
