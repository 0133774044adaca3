#include "transform/quantize_weights.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "formats/packed_tensor.h"
#include "plan/quantizer_nodes.h"
#include "transform/unpack_functions.h"

namespace bitpress::transform {
namespace {

using graph::Model;
using plan::QuantPlan;
using plan::TensorPlan;

bool IsWeightRow(const TensorPlan& row) {
  return row.is_quantized() && row.role != plan::Role::kActivation;
}

int64_t OpsetOf(const Model& model) {
  const auto imports = model.OpsetImports();
  const auto standard = imports.find("");
  return standard == imports.end() ? 0 : standard->second;
}

// Counts the weights that are done while the model is written.
struct Progress {
  ProgressSink sink;
  size_t num_done = 0;
  size_t num_weights = 0;

  void Step() {
    ++num_done;
    if (sink) sink("quantize weights", std::min(num_done, num_weights), num_weights);
  }
};

class WeightQuantizer {
 public:
  WeightQuantizer(Model& model, const QuantPlan& plan, Storage storage, ThreadPool& pool,
                  const ProgressSink& sink)
      : model_(model),
        plan_(plan),
        index_(model),
        storage_(storage),
        opset_(OpsetOf(model)),
        pool_(pool),
        progress_(std::make_shared<Progress>(Progress{sink, 0, 0})) {
    const std::vector<graph::Node> nodes = model.Nodes();
    if (!nodes.empty()) first_node_ = nodes.front();
  }

  QuantizedWeights Run() {
    // Who gets a copy is settled before anything changes.
    std::vector<std::pair<const TensorPlan*, bool>> rows;
    for (const TensorPlan& row : plan_.tensors) {
      if (IsWeightRow(row) && !IsDone(row)) rows.emplace_back(&row, IsReadElsewhere(row));
    }
    progress_->num_weights = rows.size();
    for (const auto& [row, has_copy] : rows) Replace(*row, has_copy);
    return std::move(result_);
  }

 private:
  // Whether an earlier run gave every reader its quantized value.
  bool IsDone(const TensorPlan& row) const {
    return !row.uses.empty() && std::ranges::all_of(row.uses, [&](const plan::TensorUse& use) {
      const graph::Node node = index_.Find(use);
      const auto input = static_cast<size_t>(use.input);
      return model_.IsDeferred(node.input(input)) ||
             plan::ReadsQuantized(model_, node, input, row.value);
    });
  }

  bool IsReadElsewhere(const TensorPlan& row) const {
    if (model_.IsOutput(row.value) || model_.IsUsedInSubgraph(row.value)) return true;
    const std::vector<graph::Use> uses = model_.Uses(row.value);
    return std::ranges::any_of(uses, [&](const graph::Use& use) {
      const plan::TensorUse wanted{index_.KeyOf(use.node), use.node.op_type(),
                                   static_cast<int64_t>(use.input_index)};
      return std::ranges::find(row.uses, wanted) == row.uses.end();
    });
  }

  // Why a weight is not packed; empty if it is.
  std::string WhyNotPacked(const WeightJob& job) const {
    if (storage_ == Storage::kSimulated) return "storage=simulated";
    const int64_t num_elements = NumElements(job.source().dims);
    if (num_elements < kLeastPackedElements) {
      return fmt::format("its {} elements are too few", num_elements);
    }
    if (opset_ < kFirstPackedOpset) {
      return fmt::format("operator set {} is older than {} and could not be converted", opset_,
                         kFirstPackedOpset);
    }
    const std::string why = formats::WhyNotPackable(job.spec());
    if (!why.empty()) return why;
    if (job.is_half() && job.spec().name == "fp16") return "it is FLOAT16 already";
    return "";
  }

  void Replace(const TensorPlan& row, bool has_copy) {
    const std::string reader =
        row.uses.empty() ? "the model" : index_.Find(row.uses.front()).Describe();
    const auto job = std::make_shared<const WeightJob>(model_.HoldInitializer(row.value), row,
                                                       plan_.operators, reader);
    const auto statistics = std::make_shared<WeightStatistics>();
    statistics->value = row.value;
    statistics->format = row.format;
    statistics->num_elements = NumElements(job->source().dims);
    statistics->unpacked_reason = WhyNotPacked(*job);
    std::string target = row.value;
    if (has_copy) target = model_.FreshName(row.value + "_quantized");
    statistics->quantized = target;
    if (statistics->unpacked_reason.empty()) {
      // Its name will be that of a node's output.
      if (!has_copy) MoveReadersAway(row, target);
      StorePacked(job, target, statistics);
    } else {
      StoreSimulated(job, target, statistics);
    }
    for (const plan::TensorUse& use : row.uses) {
      index_.Find(use).set_input(static_cast<size_t>(use.input), target);
    }
    const bool is_unused = has_copy && model_.Uses(row.value).empty() &&
                           !model_.IsOutput(row.value) && !model_.IsUsedInSubgraph(row.value);
    if (is_unused) model_.RemoveInitializer(row.value);
    result_.weights.push_back(statistics);
    result_.is_modified = true;
  }

  void MoveReadersAway(const TensorPlan& row, const std::string& target) {
    const std::string meanwhile = model_.FreshName(target + "_float");
    for (const plan::TensorUse& use : row.uses) {
      index_.Find(use).set_input(static_cast<size_t>(use.input), meanwhile);
    }
    model_.RemoveInitializer(row.value);
  }

  void StoreSimulated(const std::shared_ptr<const WeightJob>& job, const std::string& target,
                      const std::shared_ptr<WeightStatistics>& statistics) {
    const graph::HeldInitializer& source = job->source();
    statistics->stored_bytes = source.bytes.size();
    model_.DeferInitializers({{target, source.type, source.dims}},
                             [job, statistics, &pool = pool_, progress = progress_] {
                               std::vector<Tensor> tensors;
                               tensors.push_back(job->Simulate(pool, *statistics));
                               progress->Step();
                               return tensors;
                             });
  }

  void StorePacked(const std::shared_ptr<const WeightJob>& job, const std::string& target,
                   const std::shared_ptr<WeightStatistics>& statistics) {
    const std::vector<int64_t>& dims = job->source().dims;
    const PackedStorage packed = StoragePacked(job->spec(), dims, job->view(), opset_);
    std::vector<graph::DeferredTensor> tensors;
    std::vector<std::string> inputs;
    for (const PackedStorage::Part& part : packed.parts) {
      inputs.push_back(model_.FreshName(target + "_" + part.suffix));
      tensors.push_back({inputs.back(), part.type, part.dims});
      statistics->stored_bytes += NumBytes(part.type, NumElements(part.dims));
    }
    model_.DeferInitializers(
        tensors, [job, statistics, parts = packed.parts, &pool = pool_, progress = progress_] {
          std::vector<Tensor> produced = job->Pack(parts, pool, *statistics);
          progress->Step();
          return produced;
        });
    model_.SetOpsetImport(packed.function.domain, 1);
    model_.SetFunction(packed.function);
    const std::string decoded = job->is_half() ? model_.FreshName(target + "_float") : target;
    model_.InsertNode({decoded + "_unpack",
                       packed.function.name,
                       packed.function.domain,
                       inputs,
                       {decoded},
                       packed.attributes},
                      first_node_);
    Describe(decoded, DataType::kFloat, dims);
    if (job->is_half()) {
      model_.InsertNode({target + "_cast",
                         "Cast",
                         "",
                         {decoded},
                         {target},
                         {{"to", static_cast<int64_t>(DataType::kFloat16)}}},
                        first_node_);
      Describe(target, DataType::kFloat16, dims);
    }
  }

  void Describe(const std::string& value, DataType type, const std::vector<int64_t>& dims) {
    graph::ValueInfo info{type, true, {}};
    for (const int64_t dim : dims) info.shape.push_back({dim, ""});
    model_.SetInfo(value, info);
  }

  Model& model_;
  const QuantPlan& plan_;
  plan::NodeIndex index_;
  Storage storage_;
  int64_t opset_;
  ThreadPool& pool_;
  std::shared_ptr<Progress> progress_;
  std::optional<graph::Node> first_node_;
  QuantizedWeights result_;
};

}  // namespace

QuantizedWeights QuantizeWeights(Model& model, const QuantPlan& plan, Storage storage,
                                 ThreadPool& pool, const ProgressSink& progress) {
  plan::CheckFits(plan, model);
  return WeightQuantizer(model, plan, storage, pool, progress).Run();
}

}  // namespace bitpress::transform
