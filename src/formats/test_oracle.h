// TEST ONLY. A second, slow definition of every format, with which tests compare the reference. It
// is written from the specifications (OCP MX 1.0, IEEE 754, the shared-microexponent paper, the
// contracts in the headers of this room) without looking at the reference. It shares nothing with
// reference.cc on purpose. Element values come from a table of all codes, rounding is a search for
// the nearest entry in that table, and exponents are found by counting loops. Arithmetic is in long
// double, where every step is exact for float32 inputs. Not thread-safe while the denormal modes of
// the processor are on.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "formats/format_spec.h"

namespace bitpress::formats::oracle {

// --- One element
// -----------------------------------------------------------------------------------------------------

// Returns all floating-point types of ElementType.
std::span<const ElementType> FloatTypes();

// Returns the number of codes of a floating-point type: 16 to 65536.
uint32_t NumCodes(ElementType type);

// Returns the value of a code by the definition of the type; infinity and NaN as such.
long double Decode(uint32_t code, ElementType type);

// All values of an element at shared exponent 0, in rising order, with one entry for zero.
class ElementTable {
 public:
  // Takes any floating-point type, INT8 with the implied 2^-6 of OCP MX, or sign and magnitude of
  // `bits`.
  ElementTable(ElementType type, int bits);

  int64_t count() const { return count_; }
  long double value(int64_t index) const;
  uint32_t code(int64_t index) const;
  long double largest() const { return value(count_ - 1); }
  // Returns the code of -0, or that of +0 if the type has only that.
  uint32_t negative_zero() const { return negative_zero_; }
  // Returns the index of the entry nearest to t, which is the first or last beyond the ends. By
  // `mode`, ties go to the even code, the larger magnitude or the larger value. Floating-point
  // types always take the even code.
  int64_t Nearest(long double t, RoundingMode mode) const;

 private:
  void FillFromCodes(ElementType type);

  std::vector<long double> values_;  // empty for integers, which are step_ * (index + lowest_)
  std::vector<uint32_t> codes_;
  long double step_ = 0;
  int64_t lowest_ = 0;
  int64_t count_ = 0;
  uint32_t negative_zero_ = 0;
};
// Returns the table of a blocked format's elements, which is built once.
const ElementTable& TableOf(const FormatSpec& spec);

// Return bits and powers, found by counting.
bool IsNegative(float x);
bool IsSpecial(float x);  // infinity or NaN
bool IsNanBits(float x);
long double PowerOfTwo(int exponent);
int ExponentOf(long double a);  // the k with 2^k <= a < 2^(k + 1); a > 0

// Returns the code nearest to x by search in the table, ties to the even code. Beyond the table's
// end it is the last code. x must be finite.
uint32_t EncodeFinite(long double x, ElementType type);

// Returns the float32 nearest to x, ties to even, by search in the bit patterns; infinity from
// 2^128 - 2^103 on.
float NearestFloat(long double x);

// --- Integers
// --------------------------------------------------------------------------------------------------------

// Returns saturate(round(x / scale) + zero_point). The quotient is the float32 nearest to the exact
// one, the rest is in 128-bit integers. NaN gives the zero point.
int64_t QuantizeInteger(float x, float scale, int64_t zero_point, CodeRange range,
                        RoundingMode mode);

// --- One block
// -------------------------------------------------------------------------------------------------------

struct Block {
  int shared_exponent = 0;
  bool is_nan = false;
  std::vector<std::optional<int>> shifts;  // empty if the sub-block is zero: any shift will do
  std::vector<uint32_t> codes;             // meaningless when is_nan
  std::vector<float> dequantized;          // values of the codes
  std::vector<float> fake_quantized;       // values with the zeros and the specials of the rules
};

// Quantizes one block. An exponent given by the caller replaces the scale choice.
Block Quantize(const FormatSpec& spec, std::span<const float> x,
               std::optional<int> exponent = std::nullopt);

// Returns the sum of squared errors of the finite values if the block takes that shared exponent.
// It is exact but for the rounding of long double.
long double SquaredError(const FormatSpec& spec, std::span<const float> x, int exponent);

// Returns the shared exponent after the spec's scale choice.
int ChooseExponent(const FormatSpec& spec, std::span<const float> x);

// Quantizes and dequantizes blocks along the middle dimension of [outer, axis_length, inner].
std::vector<float> FakeQuantize(const FormatSpec& spec, std::span<const float> x, int64_t outer,
                                int64_t axis_length, int64_t inner);

}  // namespace bitpress::formats::oracle
