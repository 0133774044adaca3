// A constant on its way to integers: its scales and zero points, its codes, and the floats that the
// codes mean. Passes that store integer weights and biases, and fine-tuning, use it.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/tensor.h"
#include "base/thread_pool.h"
#include "formats/qparams.h"
#include "graph/model.h"
#include "kernels/integer_codes.h"
#include "plan/quant_plan.h"
#include "weights/pair_rules.h"
#include "weights/unpack_integers.h"
#include "weights/weight_job.h"

namespace bitpress::weights {

// A bias that the model adds as an int32 to the integer products of a weight. Its code, bias /
// (input_scale * weight scale), must fit 32 bits, so that the weight may need a larger scale than
// its own values ask for.
struct Int32Bias {
  graph::HeldInitializer data;  // float32 or float16, one for each output channel
  float input_scale = 1;        // scale of the activation in these products
};

// A weight and its integers. Thread-safe: parameters are computed once, by the first caller.
class IntegerWeight {
 public:
  // Begins with the weight `source` of a plan's row; `reader` is a node that reads it, for
  // messages. `given` holds the parameters in the order of scale_dims. If it is empty, they are
  // chosen by the row's range method, and are wider if pairs do not fit. All codes fit `pairs`, the
  // rules of PairRules::For. REQUIRES: row.integer is there, plan::CheckFits passed. Throws
  // Error(kInvalidArgument) if `given` has another number of parameters.
  IntegerWeight(graph::HeldInitializer source, const plan::TensorPlan& row, std::string reader,
                std::vector<Int32Bias> biases = {}, std::vector<formats::QParams> given = {},
                std::vector<PairRule> pairs = {});

  // Returns the dimensions of the scales: none per tensor, [axis] per axis, and per block those of
  // the weight with a scale for each block of the axis.
  const std::vector<int64_t>& scale_dims() const { return scale_dims_; }
  // Returns the dimensions of the codes in front of a DequantizeLinear: those of the weight, with
  // the dimensions that a block runs over as one.
  std::vector<int64_t> code_dims() const;
  DataType code_type() const { return code_type_; }
  int element_bits() const { return element_bits_; }
  const graph::HeldInitializer& source() const { return source_; }
  const formats::IntegerSpec& spec() const { return spec_; }
  // Returns the index of the parameters that an element has; elements count in row-major order.
  size_t ParamsIndexOf(size_t element) const { return view_.IndexOf(element); }

  // Returns the parameters, in the order of scale_dims. Throws Error(kInvalidModel) naming reader,
  // tensor and index of the first NaN or infinity.
  const std::vector<formats::QParams>& Params(ThreadPool& pool) const;

  // Returns the layout of the scales in a packed weight.
  IntegerLayout Layout() const;
  // Returns the axis along which scales differ; 0 per tensor.
  int64_t axis() const { return axis_; }
  // Returns the axis of the channels whose blocks have whole multiples of one scale (LPBQ).
  std::optional<int64_t> channel_axis() const;

  // The tensors of a quantized weight.
  struct Result {
    Tensor codes;        // the weight's shape; codes of 2 to 4 bits lie several to a byte
    Tensor scales;       // float32, scale_dims
    Tensor zero_points;  // the codes' type, scale_dims
    // LPBQ has multiples (uint8, scale_dims) of the scales of channels (float32).
    Tensor multiples = {};
    Tensor channel_scales = {};
  };
  // Quantizes the weight and fills in the errors of `statistics`. Codes and zero points take the
  // bits of their format if `is_packed` (formats/pack.h), otherwise those of code_type(). Throws
  // Error(kInvalidModel) if codes would mean infinity.
  Result Quantize(ThreadPool& pool, WeightStatistics& statistics, bool is_packed = false) const;
  // Returns the codes alone, as whole numbers in the shape of the weight (the low 32 bits of uint32
  // codes). Fills in the errors of `statistics`. Throws as Quantize.
  std::vector<int32_t> Codes(ThreadPool& pool, WeightStatistics& statistics) const;
  // Returns the loss of rounding to codes that fit the pairs, beside that of rounding to any codes.
  // REQUIRES: `pairs` were given, and no parameters.
  PairLoss LossOfPairs(ThreadPool& pool) const;
  // Returns by how much rounding lowers the mean of each output of `node`, so that a bias can make
  // up for it. Empty if the pair rule of the node does not know the means of its activation.
  std::vector<double> LostMeans(const std::string& node, ThreadPool& pool) const;
  // Returns the floats that the codes mean, in the type of the source. Fills in the errors of
  // `statistics`.
  Tensor Simulate(ThreadPool& pool, WeightStatistics& statistics) const;

 private:
  void DescribeScales(const plan::TensorPlan& row);
  std::vector<formats::QParams> ComputeParams(ThreadPool& pool) const;
  // Chooses the parameters by the range method alone.
  std::vector<formats::QParams> ChooseParams(std::span<const float> values, ThreadPool& pool) const;
  // Makes the scales of blocks whole multiples, 1 to 16, of a sixteenth of the largest one in their
  // channel: of the two beside a scale the one with less squared error.
  void MakeMultiples(std::span<const float> values, std::vector<formats::QParams>& params,
                     ThreadPool& pool) const;
  // Returns the index of the channel that a parameter is of.
  size_t ChannelOf(size_t parameter) const;
  void RaiseForBiases(std::vector<formats::QParams>& params) const;
  // Changes the codes of x whose pair sums do not fit, and y with them. In a weight with such pairs
  // it also changes codes whose errors add up. Returns the number of pairs that did not fit.
  uint64_t FitToPairs(std::span<const float> x, std::vector<int32_t>& codes, std::vector<float>& y,
                      ThreadPool& pool) const;
  // Returns the codes, fitted to the pairs. y gets the floats that they mean.
  std::vector<int32_t> Round(ThreadPool& pool, std::vector<float>& y,
                             WeightStatistics& statistics) const;
  std::vector<float> Floats() const;

  graph::HeldInitializer source_;
  std::string value_;
  std::string reader_;
  formats::IntegerSpec spec_;
  plan::RangeMethod range_;
  std::vector<formats::QParams> given_;
  std::vector<Int32Bias> biases_;
  std::vector<PairRule> pairs_;
  int64_t axis_ = 0;
  kernels::ParamsLayout view_;
  std::vector<int64_t> scale_dims_;
  DataType code_type_ = DataType::kInt8;
  int element_bits_ = 8;  // of a code of the format; those of 3 bits have a wider type
  mutable std::once_flag once_;
  mutable std::vector<formats::QParams> params_;
};

// A bias as int32 with the scale that its products have, input_scale * weight scale (or the normal
// float32 next to it), and zero point 0: codes, scales, zero points as IntegerWeight::Result, one
// scale if `is_per_tensor`.
// `lost_means` is added to it: see IntegerWeight; empty: nothing. Fills in the errors of
// `statistics`.
std::vector<Tensor> QuantizeBias(const graph::HeldInitializer& bias, float input_scale,
                                 const std::vector<formats::QParams>& weight, bool is_per_tensor,
                                 std::span<const double> lost_means, ThreadPool& pool,
                                 WeightStatistics& statistics);

}  // namespace bitpress::weights
