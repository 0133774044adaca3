// The values that the elements of one weight may take: the one interface between learning and
// formats. Scales are fixed first; each element then has a grid of its own.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "formats/qparams.h"
#include "plan/quant_plan.h"
#include "weights/pair_rules.h"

namespace bitpress::finetune {

// A weight as the model will hold it.
struct QuantizedWeight {
  std::vector<float> values;             // quantized and dequantized
  std::vector<formats::QParams> params;  // integers and scaled floats: plan::WeightScaleTable
};

class WeightGrid {
 public:
  // `row` and `operators` are the plan's; `row` must outlive the grid. `reader` is the node, for
  // messages. `pairs`: of integers whose pair sums must fit (weights::PairRules::For).
  WeightGrid(const plan::TensorPlan& row, plan::OperatorSet operators, std::vector<int64_t> dims,
             std::string reader, std::vector<weights::PairRule> pairs = {});

  // Chooses scales for these values as quantizing them would, and fixes them. Throws
  // Error(kInvalidModel) if one is not finite.
  void FitScales(std::span<const float> values, ThreadPool& pool);

  // The value next to x that the element can have with the fixed scales; x beyond the range
  // saturates. Ties as rounding to even has them. REQUIRES: FitScales, x is finite.
  float Round(size_t element, double x) const;
  // The distance between the values around x.
  double StepAt(size_t element, double x) const;

  // Makes the pair sums of values of the grid fit, at the least cost of moving away from `target`;
  // nothing where there are no pairs.
  void FitPairs(std::span<const float> target, std::span<float> quantized, ThreadPool& pool) const;
  // Returns `value`, of the grid, or the next one towards code 0 with which the element's pair sums
  // fit while all other elements are as in `quantized`.
  float FitBeside(size_t element, float value, std::span<const float> quantized) const;

  // What the model holds if it is given these values: blocks choose their scales anew (values of
  // Round are kept), others keep the fixed ones if there are any.
  QuantizedWeight Quantize(std::span<const float> values, ThreadPool& pool) const;

  // Scales that elements share, after FitScales; 0 for formats without one.
  size_t num_scales() const { return num_scales_; }
  size_t ScaleIndexOf(size_t element) const {
    return params_index_.empty() ? block_index_[element] : params_index_[element];
  }
  // What scales may be multiplied by; 1 comes first, and stands alone where pair sums must fit: the
  // scale was chosen for that.
  std::span<const double> ScaleFactors() const;
  // Rounds as Round does, with the scale that MultiplyScales makes of the element's and `factor`.
  float RoundScaled(size_t element, double x, double factor) const;
  // Multiplies scale i by factors[i], one of ScaleFactors. Scales of integers take the next value
  // that the row's kind of scale allows.
  void MultiplyScales(std::span<const double> factors);

  bool is_integer() const { return row_.integer.has_value(); }
  // Integers and scaled floats: elements with the same parameters share their scale.
  const std::vector<formats::QParams>& params() const { return params_; }
  void set_params(std::vector<formats::QParams> params);
  size_t ParamsIndexOf(size_t element) const { return params_index_[element]; }

 private:
  float ScaledBy(float scale, double factor) const;
  float RoundTo(double unit, size_t element, double x) const;
  double StepTo(double unit, double x) const;
  void FitBlocks(std::span<const float> values, ThreadPool& pool);
  void UseParams();
  int32_t CodeOf(size_t element, float value) const;
  float ValueOf(size_t element, int32_t code) const;

  // Who is whose neighbour in one reading of the weight.
  struct Neighbours {
    std::vector<uint32_t> of;      // the element itself: it has none
    std::vector<uint8_t> largest;  // activation code that the element meets
  };

  const plan::TensorPlan& row_;
  plan::OperatorSet operators_;
  std::vector<int64_t> dims_;
  std::string reader_;
  std::vector<weights::PairRule> pairs_;
  std::vector<Neighbours> neighbours_;  // of each of pairs_
  // What codes mean in units of the element's scale: whole numbers, or floats.
  bool has_float_elements_ = false;
  int mantissa_bits_ = 0;
  int min_exponent_ = 0;
  int max_exponent_ = 0;
  double least_ = 0;                // code, without its zero point
  double largest_ = 0;              // code, or the largest magnitude of a float
  std::vector<float> units_;        // of each element; empty: 1
  std::vector<float> zero_points_;  // of each element; empty: 0
  std::vector<formats::QParams> params_;
  std::vector<uint32_t> params_index_;  // of each element, where there are params_
  std::vector<uint32_t> block_index_;   // of each element, blocks only
  size_t num_scales_ = 0;
};

}  // namespace bitpress::finetune
