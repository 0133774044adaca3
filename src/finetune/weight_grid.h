// The values that the elements of one weight may take in its format. LayerTuner rounds with it and
// knows nothing else of formats. Scales are fixed first; then each element has a grid of its own.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/thread_pool.h"
#include "formats/qparams.h"
#include "plan/quant_plan.h"
#include "weights/pair_rules.h"

namespace bitpress::finetune {

// A weight as the model will store it.
struct QuantizedWeight {
  std::vector<float> values;             // quantized and dequantized
  std::vector<formats::QParams> params;  // integers and scaled floats: plan::WeightScaleTable
};

// The grid of one weight. Its const methods may be called from several threads.
class WeightGrid {
 public:
  // `row` and `operators` are the plan's; `row` must outlive the grid. `reader` is the node, for
  // messages. `pairs`: of integers whose pair sums must fit (weights::PairRules::For).
  WeightGrid(const plan::TensorPlan& row, plan::OperatorSet operators, std::vector<int64_t> dims,
             std::string reader, std::vector<weights::PairRule> pairs = {});

  // Keeps the sign that all of these weights have, if they have one: from now on no value rounds to
  // one of the other sign. Such weights are sums with a meaning, as banks of filters for energies
  // are, and a logarithm, a root or a division may follow, which negative numbers break.
  void KeepSignOf(std::span<const float> weights);
  // Returns 1 or -1 for such a sign, else 0.
  int sign() const { return sign_; }

  // Chooses the scales that quantizing these values would choose, and fixes them. Throws
  // Error(kInvalidModel) if a value is not finite. REQUIRES: one value for each element.
  void FitScales(std::span<const float> values, ThreadPool& pool);

  // Returns the value next to x that the element can have with the fixed scales. A tie goes to the
  // even code, and x beyond the range saturates. REQUIRES: FitScales was called, x is finite.
  float Round(size_t element, double x) const;
  // Returns a value between x and Round(x): with a sharpness of 1 that is x, and with more of it
  // first those become Round(x) that are next to a value of the grid, at last all. What saturates
  // is rounded. REQUIRES: as Round, sharpness >= 1.
  float RoundSoftly(size_t element, double x, double sharpness) const;
  // Returns the distance between the two values around x. REQUIRES: as Round.
  double StepAt(size_t element, double x) const;

  // Changes values of the grid until their pair sums fit, as little away from `target` as possible.
  // Does nothing if there are no pairs. REQUIRES: FitScales was called.
  void FitPairs(std::span<const float> target, std::span<float> quantized, ThreadPool& pool) const;
  // Returns `value`, which is of the grid, if the element's pair sums fit with it. Else returns the
  // next value towards code 0 with which they fit. All other elements are those of `quantized`.
  float FitBeside(size_t element, float value, std::span<const float> quantized) const;

  // Returns the weight that the model stores if it is given these values. Block formats choose
  // their scales anew, which keeps values that Round returned. Other formats use the fixed scales,
  // if there are any.
  QuantizedWeight Quantize(std::span<const float> values, ThreadPool& pool) const;

  // Returns the number of different scales after FitScales. 0 for formats without scales.
  size_t num_scales() const { return num_scales_; }
  // Returns the index of the scale of an element. REQUIRES: num_scales() > 0.
  size_t ScaleIndexOf(size_t element) const {
    const std::vector<uint32_t>& index = params_index_.empty() ? block_index_ : params_index_;
    BITPRESS_DCHECK(element < index.size());
    return index[element];
  }
  // Returns the factors that a scale may be multiplied by. The first is 1. It is the only one if
  // pair sums must fit, because the scale was chosen for them.
  std::span<const double> ScaleFactors() const;
  // Rounds as Round does, with the scale that MultiplyScales would give the element.
  // REQUIRES: num_scales() > 0.
  float RoundScaled(size_t element, double x, double factor) const;
  // Multiplies scale i by factors[i], one of ScaleFactors(). Scales of integers take the next value
  // that the row's kind of scale allows. REQUIRES: one factor for each scale.
  void MultiplyScales(std::span<const double> factors);

  // Returns whether the writer chooses scales of blocks that are no powers of two: they stay as
  // they are only if the largest value of each block does.
  bool has_scales_of_largest() const {
    return row_.Spec().is_blocked() && !row_.Spec().has_exponent_scales();
  }
  // Returns whether pair sums must fit.
  bool has_pairs() const { return !pairs_.empty(); }
  bool is_integer() const { return row_.integer.has_value(); }
  // Returns scales and zero points of integers and scaled floats, after FitScales. Empty for block
  // formats.
  const std::vector<formats::QParams>& params() const { return params_; }
  // Replaces them. REQUIRES: as many as before.
  void set_params(std::vector<formats::QParams> params);
  // Returns the index in params() of an element. REQUIRES: params() is not empty.
  size_t ParamsIndexOf(size_t element) const {
    BITPRESS_DCHECK(element < params_index_.size());
    return params_index_[element];
  }

 private:
  float ScaledBy(float scale, double factor) const;
  float RoundTo(double unit, size_t element, double x) const;
  double StepTo(double unit, double x) const;
  // Returns the exponent of the step of a float element, in units of its scale.
  int StepExponentOf(double magnitude) const;
  void FitBlocks(std::span<const float> values, ThreadPool& pool);
  void UseParams();
  int32_t CodeOf(size_t element, float value) const;
  float ValueOf(size_t element, int32_t code) const;

  // The neighbours of elements in the pair sums of one reading of the weight.
  struct Neighbours {
    std::vector<uint32_t> of;      // neighbour of each element; the element itself: it has none
    std::vector<uint8_t> largest;  // largest activation code that multiplies each element
  };

  const plan::TensorPlan& row_;
  plan::OperatorSet operators_;
  std::vector<int64_t> dims_;
  std::string reader_;
  std::vector<weights::PairRule> pairs_;
  std::vector<Neighbours> neighbours_;  // one for each of pairs_
  int sign_ = 0;                        // of all values; 0: any
  // Codes are floats in units of the element's scale; false: they are whole numbers.
  bool has_float_elements_ = false;
  int mantissa_bits_ = 0;
  int min_exponent_ = 0;
  int max_exponent_ = 0;
  double least_ = 0;                // smallest code, before the zero point is subtracted
  double largest_ = 0;              // largest code, or largest magnitude of a float
  std::vector<float> units_;        // scale of each element; empty: all are 1
  std::vector<float> zero_points_;  // zero point of each element; empty: all are 0
  std::vector<formats::QParams> params_;
  std::optional<float> tensor_scale_;   // of a tensor in blocks, after FitScales
  std::vector<uint32_t> params_index_;  // index in params_ of each element
  std::vector<uint32_t> block_index_;   // block of each element, for block formats only
  size_t num_scales_ = 0;
};

}  // namespace bitpress::finetune
