#include "kernels/extended_lstm.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "formats/float_bits.h"
#include "kernels/extended_codes.h"

namespace bitpress::kernels {
namespace {

using FixedPoint = ExtendedLstm::FixedPoint;

constexpr double kOne = 0x1p24;     // the number 1 in the units of sums
constexpr int kCodeOffset = 32768;  // codes are signed inside the operator

int ZeroPoint(const CodeScale& scale) { return scale.zero_point - kCodeOffset; }

// Returns the low 16 bits as a signed integer, as x86 converts an integer.
int16_t Wrap(int64_t x) { return static_cast<int16_t>(x); }

// Returns x / 2^shift, rounded half away from zero.
int64_t ShiftRight(int64_t x, int shift) {
  const int64_t half = shift == 0 ? 0 : int64_t{1} << (shift - 1);
  return x < 0 ? -((half - x) >> shift) : (half + x) >> shift;
}

int32_t Saturate(int64_t x) {
  return static_cast<int32_t>(std::clamp<int64_t>(x, std::numeric_limits<int32_t>::min(),
                                                  std::numeric_limits<int32_t>::max()));
}

// Returns x rounded half away from zero and saturated. Numbers between -1 and -0.5 become 0.
int32_t RoundAndSaturate(double x) {
  const double moved = x <= -1 ? x - 0.5 : x + 0.5;
  return static_cast<int32_t>(std::clamp<double>(moved, std::numeric_limits<int32_t>::min(),
                                                 std::numeric_limits<int32_t>::max()));
}

// Returns the smallest number of bits that tells `size` things apart.
int CeilLog2(double size) { return static_cast<int>(std::ceil(std::log2(size))); }

// Returns `x` as a 16-bit integer and a shift, and 0 for 0. A power of two becomes 32768, which
// wraps to a negative integer.
FixedPoint FixedPointOf(double x, std::string_view what) {
  if (x == 0) return {};
  constexpr int kMaxShift = 30;
  const double shift = 15 - std::ceil(std::log2(std::fabs(x)));
  if (!(shift >= 0 && shift <= kMaxShift)) {
    Fail(ErrorCode::kUnsupported,
         "{} * 2^24 is {}, expected a magnitude above 2^-16 and up to 2^15: beyond it the operator "
         "is not defined",
         what, x);
  }
  const double integer = std::ldexp(x, static_cast<int>(shift));
  return {Wrap(static_cast<int32_t>(integer < 0 ? integer - 0.5 : integer + 0.5)),
          static_cast<int>(shift)};
}

// Returns 2^-24 over the output's scale as an unsigned 16-bit integer and a shift.
FixedPoint OutputFactor(float scale) {
  const double inverse = 1.0 / static_cast<double>(scale);
  const int exponent = 16 - CeilLog2(inverse);
  constexpr int kSumBits = 24;
  constexpr int kMaxShift = 31;
  if (exponent < -kSumBits || exponent > kMaxShift - kSumBits) {
    Fail(ErrorCode::kUnsupported,
         "y_scale is {}, expected at least 2^-40 and less than 2^-8: beyond it the operator is not "
         "defined",
         scale);
  }
  const double integer = std::ldexp(inverse, exponent) + 0.5;
  return {static_cast<int64_t>(std::min(integer, 65535.0)), kSumBits + exponent};
}

std::vector<int16_t> Codes(const float* x, size_t count, const CodeScale& scale) {
  std::vector<uint16_t> codes(count);
  QuantizeExtended(x, codes.data(), count, scale.scale, scale.zero_point);
  std::vector<int16_t> moved(count);
  for (size_t i = 0; i < count; ++i) moved[i] = static_cast<int16_t>(codes[i] - kCodeOffset);
  return moved;
}

int64_t Product(const int16_t* a, const int16_t* b, size_t count) {
  int64_t sum = 0;
  for (size_t i = 0; i < count; ++i) sum += int32_t{a[i]} * int32_t{b[i]};
  return sum;
}

int64_t Sum(const int16_t* codes, size_t count) {
  int64_t sum = 0;
  for (size_t i = 0; i < count; ++i) sum += codes[i];
  return sum;
}

// The products of the rows of a matrix of codes with a vector of codes.
struct Products {
  const int16_t* matrix = nullptr;
  size_t length = 0;  // of a row
  int shift = 0;      // of the sums, so that they have 32 bits
  FixedPoint unit;    // of the shifted sums
  FixedPoint code;    // of the sum of the vector's codes

  Products(const int16_t* rows, size_t row_length, const FixedPoint& products,
           const FixedPoint& codes, std::string_view what)
      : matrix(rows),
        length(row_length),
        shift(CeilLog2(static_cast<double>(row_length))),
        unit{products.factor, products.shift - shift},
        code(codes) {
    if (unit.shift < 0) {
      Fail(ErrorCode::kUnsupported,
           "{} is {}, which is too large for the scales: beyond 2^{} the operator is not defined",
           what, row_length, products.shift);
    }
  }

  int32_t Row(const int16_t* vector, size_t row) const {
    const int64_t sum = Product(matrix + row * length, vector, length);
    return Saturate(ShiftRight(Saturate(ShiftRight(sum, shift)) * unit.factor, unit.shift));
  }

  int32_t CodesOf(const int16_t* vector) const {
    const auto sum = static_cast<int32_t>(Sum(vector, length));
    return Saturate(ShiftRight(sum * code.factor, code.shift));
  }
};

// Returns products + state_products - x_codes - state_codes + constant. The sum wraps.
int32_t WrappingSum(int32_t products, int32_t state_products, int32_t x_codes, int32_t state_codes,
                    int32_t constant) {
  return static_cast<int32_t>(static_cast<uint32_t>(products) +
                              static_cast<uint32_t>(state_products) -
                              static_cast<uint32_t>(x_codes) - static_cast<uint32_t>(state_codes) +
                              static_cast<uint32_t>(constant));
}

// The codes of one direction's tensors.
struct DirectionCodes {
  std::vector<int16_t> x, w, r, b;
};

// These terms do not depend on the step: the biases less what the zero points add to the products,
// in units of 2^-24, for each row of the weights. A row's sum of codes is exact in double.
struct ZeroPointTerms {
  double input_unit, state_unit, bias_unit;
  int x, w, r, b, y;  // the zero points

  std::vector<int32_t> For(const DirectionCodes& codes, const ExtendedLstmSizes& sizes) const {
    const size_t rows = 4 * sizes.hidden_size;
    double zero_points = static_cast<double>(sizes.input_size) * (input_unit * w) * x;
    zero_points += static_cast<double>(sizes.hidden_size) * (state_unit * r) * y;
    std::vector<int32_t> terms(rows);
    for (size_t i = 0; i < rows; ++i) {
      const int64_t w_sum = Sum(&codes.w[i * sizes.input_size], sizes.input_size);
      const int64_t r_sum = Sum(&codes.r[i * sizes.hidden_size], sizes.hidden_size);
      double term = zero_points;
      term -= input_unit * x * static_cast<double>(w_sum);
      term -= state_unit * y * static_cast<double>(r_sum);
      term += bias_unit * (codes.b[i] + codes.b[rows + i] - 2 * b);
      terms[i] = RoundAndSaturate(term);
    }
    return terms;
  }
};

float Sigmoid(int32_t sum) {
  const auto half = static_cast<float>(sum / (2.0 * kOne));
  return static_cast<float>(std::tanh(half) * 0.5 + 0.5);
}

// Updates the cell state of one unit from the sums of its gates, and returns the unit's output.
float Step(int32_t input, int32_t output, int32_t forget, int32_t candidate, float& cell) {
  const float new_value = std::tanh(static_cast<float>(candidate / kOne));
  cell = Sigmoid(input) * new_value + Sigmoid(forget) * cell;
  return Sigmoid(output) * std::tanh(cell);
}

}  // namespace

ExtendedLstm::ExtendedLstm(const ExtendedLstmScales& scales) : scales_(scales) {
  struct Named {
    const char* name;
    float scale;
  };
  for (const Named& named : {Named{"x_scale", scales.x.scale}, Named{"w_scale", scales.w.scale},
                             Named{"r_scale", scales.r.scale}, Named{"b_scale", scales.b.scale},
                             Named{"y_scale", scales.y.scale}}) {
    if (!formats::IsPositiveFinite(named.scale)) {
      Fail(ErrorCode::kInvalidModel, "{} is {}, expected a positive number", named.name,
           named.scale);
    }
  }
  // The products of scales are float32.
  input_unit_ = static_cast<double>(scales.x.scale * scales.w.scale) * kOne;
  state_unit_ = static_cast<double>(scales.y.scale * scales.r.scale) * kOne;
  if (input_unit_ == 0 || state_unit_ == 0) {
    Fail(ErrorCode::kUnsupported, "the product of {} is 0 as a float32 number",
         input_unit_ == 0 ? "x_scale and w_scale" : "y_scale and r_scale");
  }
  input_products_ = FixedPointOf(input_unit_, "x_scale * w_scale");
  state_products_ = FixedPointOf(state_unit_, "y_scale * r_scale");
  input_codes_ =
      FixedPointOf(input_unit_ * ZeroPoint(scales.w), "x_scale * w_scale * (w_zero_point - 32768)");
  state_codes_ =
      FixedPointOf(state_unit_ * ZeroPoint(scales.r), "y_scale * r_scale * (r_zero_point - 32768)");
  outputs_ = OutputFactor(scales.y.scale);
  // A small number is added before the zero point loses its fraction, towards zero.
  first_state_ = Wrap(static_cast<int32_t>(ZeroPoint(scales.y) + 0.000000001));
}

void ExtendedLstm::Run(const ExtendedLstmSizes& sizes, const ExtendedLstmTensors& tensors,
                       bool is_backward) const {
  const size_t hidden = sizes.hidden_size, rows = 4 * hidden;
  const DirectionCodes codes{Codes(tensors.x, sizes.steps * sizes.input_size, scales_.x),
                             Codes(tensors.w, rows * sizes.input_size, scales_.w),
                             Codes(tensors.r, rows * hidden, scales_.r),
                             Codes(tensors.b, 2 * rows, scales_.b)};
  const Products input_products(codes.w.data(), sizes.input_size, input_products_, input_codes_,
                                "the input's size");
  const Products state_products(codes.r.data(), hidden, state_products_, state_codes_,
                                "hidden_size");
  const std::vector<int32_t> constants =
      ZeroPointTerms{
          input_unit_,          state_unit_,          static_cast<double>(scales_.b.scale) * kOne,
          ZeroPoint(scales_.x), ZeroPoint(scales_.w), ZeroPoint(scales_.r),
          ZeroPoint(scales_.b), ZeroPoint(scales_.y)}
          .For(codes, sizes);
  std::vector<int16_t> state(hidden, first_state_);
  std::vector<uint16_t> outputs(hidden);
  std::vector<float> cells(hidden);
  std::vector<int32_t> sums(rows);
  for (size_t step = 0; step < sizes.steps; ++step) {
    const size_t at = is_backward ? sizes.steps - 1 - step : step;
    const int16_t* x = &codes.x[at * sizes.input_size];
    const int32_t x_codes = input_products.CodesOf(x);
    const int32_t state_codes = state_products.CodesOf(state.data());
    for (size_t i = 0; i < rows; ++i) {
      sums[i] = WrappingSum(input_products.Row(x, i), state_products.Row(state.data(), i), x_codes,
                            state_codes, constants[i]);
    }
    for (size_t i = 0; i < hidden; ++i) {
      const float output =
          Step(sums[i], sums[hidden + i], sums[2 * hidden + i], sums[3 * hidden + i], cells[i]);
      const int64_t scaled = RoundAndSaturate(output * kOne) * outputs_.factor +
                             (int64_t{first_state_} << outputs_.shift);
      state[i] = Wrap(std::clamp<int64_t>(ShiftRight(scaled, outputs_.shift), -65536, 65535));
      outputs[i] = static_cast<uint16_t>(state[i] + kCodeOffset);
    }
    DequantizeLinear(outputs.data(), tensors.y + at * tensors.y_stride, hidden, scales_.y.scale,
                     scales_.y.zero_point);
  }
}

}  // namespace bitpress::kernels
