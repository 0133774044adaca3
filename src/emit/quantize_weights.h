// Replaces the weights and biases that the plan quantizes by their quantized form, packed codes or
// simulated floats (pass quantize-weights). ApplyPlan runs it on every model. No operator of ours
// runs on the weights at inference. The values are computed while the model is written, one weight
// at a time.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/thread_pool.h"
#include "bitpress/progress.h"
#include "bitpress/quantize_options.h"
#include "graph/model.h"
#include "plan/quant_plan.h"
#include "plan/resolved_plan.h"
#include "weights/native_weight.h"
#include "weights/weight_job.h"

namespace bitpress::emit {

using bitpress::Storage;

// Returns the first operator set whose DequantizeLinear takes an integer row.
int64_t DequantizeOpset(const plan::TensorPlan& row);

struct QuantizedWeights {
  // A weight behind an Unpack node.
  struct Packed {
    weights::NativeWeight native;
    std::shared_ptr<weights::WeightStatistics> statistics;
  };
  bool is_modified = false;
  // The statistics of the weights, in the plan's order, without weights that an earlier run
  // replaced. Errors are known once the model has been written.
  std::vector<std::shared_ptr<const weights::WeightStatistics>> weights;
  std::vector<Packed> packed;
  // Those that Storage::kQdq packs all the same: name and reason.
  std::vector<std::pair<std::string, std::string>> not_standard;
  // The rows of floats that operators are to quantize (Storage::kQdq), with the scale of those that
  // have one. They are rows of the plan.
  std::map<const plan::TensorPlan*, std::optional<float>> behind_operators;
  std::function<void()> step;  // call it once per weight written in another way
};

// The least number of elements of a packed weight. Smaller weights stay floats in packed models,
// because decoding one costs more at load than its bytes save.
inline constexpr int64_t kLeastPackedElements = 512;
// The same for kernels of convolutions that operators of ours read.
inline constexpr int64_t kLeastPackedKernel = 64;

// How weights are stored.
struct StorageOptions {
  Storage storage = Storage::kPacked;
  // Weights of three or four dimensions are packed from so many elements on, others from
  // kLeastPackedElements on.
  int64_t least_kernel = kLeastPackedElements;
  int64_t least_opset = 0;    // the operator set that the user asked for
  bool fills_blocks = false;  // Storage::kQdq: blocks divide their axis, see StandardForm
};

// The nodes of a plan that read integers as activations. Activations without a scale, because
// nothing was seen of them or the guard left them float, are no integers.
class IntegerReaders {
 public:
  explicit IntegerReaders(const plan::ResolvedPlan& resolved);
  bool Contain(const plan::TensorUse& use) const { return nodes_.contains(use.node); }
  // Returns whether the weight is multiplied with integers. Other weights are decoded to floats.
  bool Contain(const plan::TensorPlan& weight) const;

 private:
  std::set<std::string> nodes_;
};

// Returns the plan with a row of their own for those readers of an integer weight in bodies that
// multiply floats. ONNX Runtime makes a MatMulNBits of such a product, and does not load it if the
// constants lie in a graph around it: these readers must get the weight decoded, though others
// multiply its codes.
plan::ResolvedPlan SplitReadersInBodies(const graph::Model& model, plan::ResolvedPlan resolved);

// Quantizes the weights and biases of the plan.
//
// Names: a weight that is read in only one way keeps its name. Otherwise each treatment gets a copy
// `<weight>_quantized`, and the original is removed when nothing reads it any more.
//
// Packed weights: the initializers are `<name>_codes`, `<name>_scales` and so on, and a node
// `bitpress.Unpack_<format>` gives the value. A weight is simulated instead if its format has no
// packed form, or if the standard operator set is too old and cannot be converted. Its statistics
// say why.
//
// Integer weights: if they are multiplied with integers (IntegerReaders), they become codes,
// `<name>_scale` and `<name>_zero_point` with a DequantizeLinear behind them. ONNX Runtime then
// computes with integers. Otherwise they are packed as other formats are. An int32 bias of an
// integer product has the scale of input times weight. It stays float if `resolved.scales` has no
// scale for the input. Biases of other integer formats are quantized as weights are.
//
// Storage::kQdq: weights become codes behind a DequantizeLinear, integers and other formats as the
// standard has them (weights/standard_form.h), with any number of elements. Quark's operators
// quantize floats instead. Weights without such a form are packed, and `not_standard` says why.
//
// A head whose matrix is the transpose of a table that the model looks rows up in (tied_tables.h)
// reads the packed table through a Transpose, which ONNX Runtime folds when it loads the model.
//
// `pool` is used until the model is written and must live that long. Throws Error(kInvalidArgument)
// if the plan does not fit (plan::CheckFits). Writing the model throws Error(kInvalidModel) naming
// node, tensor and index of the first NaN or infinity.
QuantizedWeights QuantizeWeights(graph::Model& model, const plan::ResolvedPlan& resolved,
                                 const StorageOptions& options, ThreadPool& pool,
                                 const ProgressSink& progress = {});

}  // namespace bitpress::emit
