// One constant on its way to integers: its scales and zero points, its codes, and the floats that
// they mean.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
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

// A bias that is added to products with this weight: b / (input_scale * weight scale) must fit 32
// bits, so a weight scale may have to be larger than the weight asks for.
struct Int32Bias {
  graph::HeldInitializer data;  // float32 or float16, one for each output channel
  float input_scale = 1;
};

// Thread-safe: parameters are computed once, by whoever asks first.
class IntegerWeight {
 public:
  // `given`: the parameters, in the order of scale_dims; empty: chosen by the row's range method,
  // and wider where pairs do not fit. `pairs`: those of PairRules::For; all codes fit them.
  // REQUIRES: row.integer is there, plan::CheckFits passed. Throws Error(kInvalidArgument) if
  // `given` has another number of them.
  IntegerWeight(graph::HeldInitializer source, const plan::TensorPlan& row, std::string reader,
                std::vector<Int32Bias> biases = {}, std::vector<formats::QParams> given = {},
                std::vector<PairRule> pairs = {});

  // Scales lie along [outer, index, inner]: per tensor there is one, per axis one an index of the
  // axis, per block one a block and column.
  const std::vector<int64_t>& scale_dims() const { return scale_dims_; }
  DataType code_type() const { return code_type_; }
  const graph::HeldInitializer& source() const { return source_; }
  const formats::IntegerSpec& spec() const { return spec_; }
  // Which of the parameters an element has, counted in row-major order.
  size_t ParamsIndexOf(size_t element) const { return view_.IndexOf(element); }

  // In the order of scale_dims. Throws Error(kInvalidModel) naming reader, tensor and index of the
  // first NaN or infinity.
  const std::vector<formats::QParams>& Params(ThreadPool& pool) const;

  // The same as a packed weight has them.
  IntegerLayout Layout() const;
  // Along which scales differ; 0 per tensor.
  int64_t axis() const { return axis_; }

  struct Result {
    Tensor codes;        // in the shape of the weight; of 2 and 4 bits several to a byte
    Tensor scales;       // float32, scale_dims
    Tensor zero_points;  // of the codes' type, scale_dims
  };
  // Fills in the errors of `statistics`. Throws Error(kInvalidModel) where codes would mean
  // infinity.
  Result Quantize(ThreadPool& pool, WeightStatistics& statistics) const;
  // The codes alone, as whole numbers in the shape of the weight (of uint32 the low 32 bits).
  // Throws as Quantize.
  std::vector<int32_t> Codes(ThreadPool& pool, WeightStatistics& statistics) const;
  // What rounding to the pairs' codes costs against any codes. REQUIRES: `pairs` were given, and no
  // parameters.
  PairLoss LossOfPairs(ThreadPool& pool) const;
  // By how much rounding lowers the mean of each output of `node`, where its pair rule knows the
  // means of the activation: what a bias makes up for. Empty where it does not.
  std::vector<double> LostMeans(const std::string& node, ThreadPool& pool) const;
  // The floats that the codes mean, in the type of the source.
  Tensor Simulate(ThreadPool& pool, WeightStatistics& statistics) const;

 private:
  void DescribeScales(const plan::TensorPlan& row);
  std::vector<formats::QParams> ComputeParams(ThreadPool& pool) const;
  // By the range method alone.
  std::vector<formats::QParams> ChooseParams(std::span<const float> values, ThreadPool& pool) const;
  void RaiseForBiases(std::vector<formats::QParams>& params) const;
  // Changes codes of x whose pair sums do not fit, and y with them, and of such a weight codes
  // whose errors add up. Returns how many pairs did not fit.
  uint64_t FitToPairs(std::span<const float> x, std::vector<int32_t>& codes, std::vector<float>& y,
                      ThreadPool& pool) const;
  // The same; y gets the floats that the codes mean.
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
