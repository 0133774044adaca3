// Pass quantize-weights: replaces the weights and biases that the plan quantizes by their quantized
// form, packed codes or simulated floats. No operator of ours runs on them at inference. The values
// are computed while the model is written, one weight at a time.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/progress.h"
#include "base/thread_pool.h"
#include "graph/model.h"
#include "plan/quant_plan.h"
#include "plan/resolved_plan.h"
#include "weights/integer_weight.h"
#include "weights/weight_job.h"

namespace bitpress::emit {

// How quantized weights lie in the model.
enum class Storage {
  kPacked,     // codes and scales at their real width, decoded by a function when the model is
               // loaded
  kSimulated,  // floats that hold the quantized values
};
inline constexpr std::array<std::pair<std::string_view, Storage>, 2> kStorageWords{
    {{"packed", Storage::kPacked}, {"simulated", Storage::kSimulated}}};

struct QuantizedWeights {
  // An integer weight behind an Unpack node.
  struct PackedInteger {
    std::shared_ptr<const weights::IntegerWeight> weight;
    std::shared_ptr<weights::WeightStatistics> statistics;
  };
  bool is_modified = false;
  // In the plan's order, without those that an earlier run replaced; their errors are known once
  // the model has been written.
  std::vector<std::shared_ptr<const weights::WeightStatistics>> weights;
  std::vector<PackedInteger> integers;
  std::function<void()> step;  // to be called once for each weight that is written in another way
};

// Weights with fewer elements stay floats in packed models: decoding one costs more at load than
// its bytes save.
inline constexpr int64_t kLeastPackedElements = 512;

// The nodes of a plan that read integers as activations.
class IntegerReaders {
 public:
  explicit IntegerReaders(const plan::QuantPlan& plan);
  // Whether the weight is multiplied with integers; it is decoded to floats otherwise.
  bool Contain(const plan::TensorPlan& weight) const;

 private:
  std::set<std::string> nodes_;
};

// A weight that is read in one way only keeps its name; otherwise each treatment gets a copy
// `<weight>_quantized`, and the original goes when nothing reads it any more. Packed, the
// initializers are `<name>_codes`, `<name>_scales` and so on, and a node `bitpress.Unpack_<format>`
// gives the value; where the standard operator set is too old for that and cannot be converted, or
// the format has no packed form, the weight is simulated and its statistics say why.
//
// Integer formats: codes, `<name>_scale` and `<name>_zero_point` with a DequantizeLinear behind
// them where they are multiplied with integers (IntegerReaders), which ONNX Runtime then computes
// with; packed as other formats otherwise. An int32 bias of an integer product has the scale of
// input times weight; where the input has none in `resolved.scales`, the bias stays float. Biases
// of other integer formats are quantized as weights are.
//
// `pool` is used until the model is written and must live so long. Throws
// Error(kInvalidArgument) if the plan does not fit (plan::CheckFits); writing the model throws
// Error(kInvalidModel) naming node, tensor and index of the first NaN or infinity.
QuantizedWeights QuantizeWeights(graph::Model& model, const plan::ResolvedPlan& resolved,
                                 Storage storage, ThreadPool& pool,
                                 const ProgressSink& progress = {});

}  // namespace bitpress::emit
