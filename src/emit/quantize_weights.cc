#include "emit/quantize_weights.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

#include "base/error.h"
#include "emit/tied_tables.h"
#include "formats/packed_tensor.h"
#include "ops/operator_traits.h"
#include "ops/quantizer_nodes.h"
#include "plan/pair_safety.h"
#include "weights/integer_weight.h"
#include "weights/packed_nodes.h"
#include "weights/standard_form.h"
#include "weights/unpack_functions.h"
#include "weights/unpack_integers.h"
#include "weights/weight_store.h"

namespace bitpress::emit {
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

class WeightQuantizer {
 public:
  WeightQuantizer(Model& model, const plan::ResolvedPlan& resolved, const StorageOptions& options,
                  ThreadPool& pool, const ProgressSink& sink)
      : model_(model),
        resolved_(resolved),
        plan_(resolved.plan),
        index_(model),
        options_(options),
        scales_(resolved.scales),
        activations_(plan::ActivationsOfNodes(resolved.plan)),
        integer_readers_(resolved),
        pair_rules_(resolved.plan, model, resolved.channels),
        weight_scales_(resolved.weight_scales),
        opset_(OpsetOf(model)),
        pool_(pool),
        store_(model, sink) {}

  QuantizedWeights Run() {
    // The weights that get a copy are chosen before anything changes.
    std::vector<std::pair<const TensorPlan*, bool>> rows;
    for (const TensorPlan& row : plan_.tensors) {
      if (IsWeightRow(row) && !IsDone(row)) rows.emplace_back(&row, IsReadElsewhere(row));
    }
    if (options_.storage == Storage::kPacked) tied_ = FindTiedTables(model_, resolved_);
    store_.set_num_weights(rows.size() - tied_.size());
    PrepareIntegers();
    // Tables come first, so that heads find what they read.
    std::stable_partition(rows.begin(), rows.end(),
                          [&](const auto& row) { return !tied_.contains(row.first); });
    for (const auto& [row, has_copy] : rows) {
      const auto tie = tied_.find(row);
      if (tie != tied_.end() && Share(*row, *tie->second, has_copy)) continue;
      if (row->integer) {
        ReplaceInteger(*row, has_copy);
      } else {
        Replace(*row, has_copy);
      }
    }
    result_.step = store_.Step();
    return std::move(result_);
  }

 private:
  // Returns whether an earlier run gave every reader its quantized value.
  bool IsDone(const TensorPlan& row) const {
    return !row.uses.empty() && std::ranges::all_of(row.uses, [&](const plan::TensorUse& use) {
      const graph::Node node = index_.Find(use);
      const auto input = static_cast<size_t>(use.input);
      return model_.IsDeferred(node.input(input)) ||
             ops::ReadsQuantized(model_, node, input, row.value);
    });
  }

  bool IsReadElsewhere(const TensorPlan& row) const {
    if (model_.IsOutput(row.value)) return true;
    const std::vector<graph::Use> uses = model_.AllUses(row.value);
    return std::ranges::any_of(uses, [&](const graph::Use& use) {
      const plan::TensorUse wanted{index_.KeyOf(use.node), use.node.op_type(),
                                   static_cast<int64_t>(use.input_index)};
      return std::ranges::find(row.uses, wanted) == row.uses.end();
    });
  }

  // Returns the reason why a weight cannot be packed in any format; empty if it can.
  std::string WhyNotPacked(const graph::HeldInitializer& source) const {
    if (options_.storage == Storage::kSimulated) return "storage=simulated";
    const int64_t num_elements = NumElements(source.dims);
    const bool is_kernel = source.dims.size() == 3 || source.dims.size() == 4;
    if (num_elements < (is_kernel ? options_.least_kernel : kLeastPackedElements)) {
      return fmt::format("its {} elements are too few", num_elements);
    }
    if (opset_ < weights::kFirstPackedOpset) {
      return fmt::format("operator set {} is older than {} and could not be converted", opset_,
                         weights::kFirstPackedOpset);
    }
    return "";
  }

  std::string WhyNotPacked(const weights::WeightJob& job) const {
    std::string why = WhyNotPacked(job.source());
    if (why.empty()) why = formats::WhyNotPackable(job.spec());
    if (!why.empty()) return why;
    if (job.is_half() && job.spec().name == "fp16") return "it is FLOAT16 already";
    return "";
  }

  std::string ReaderOf(const TensorPlan& row) const {
    return row.uses.empty() ? "the model" : index_.Find(row.uses.front()).Describe();
  }

  // Returns the scale of the activation that a node multiplies; nothing if it is not an integer.
  std::optional<float> InputScale(const plan::TensorUse& use) const {
    const auto activation = activations_.find(use.node);
    if (activation == activations_.end()) return std::nullopt;
    const auto found = scales_.find(plan::ScaleKeyOf(*activation->second));
    return found == scales_.end() ? std::nullopt : std::optional(found->second.scale);
  }

  // Tells integer weights the biases that are added to their products, before any weight changes.
  void PrepareIntegers() {
    std::map<const TensorPlan*, std::vector<weights::Int32Bias>> biases;
    for (const TensorPlan& row : plan_.tensors) {
      if (!row.integer) continue;
      if (row.role != plan::Role::kWeight) continue;
      for (const plan::TensorUse& use : row.uses) weight_of_node_[use.node] = &row;
    }
    for (const TensorPlan& row : plan_.tensors) {
      if (!row.has_scale_of_products() || row.uses.size() != 1) continue;
      const auto weight = weight_of_node_.find(row.uses.front().node);
      const std::optional<float> scale = InputScale(row.uses.front());
      if (weight == weight_of_node_.end() || !scale || !model_.IsInitializer(row.value)) continue;
      biases[weight->second].push_back({model_.HoldInitializer(row.value), *scale});
    }
    for (const TensorPlan& row : plan_.tensors) {
      const bool has_own_scale =
          row.integer && row.role != plan::Role::kActivation && !row.has_scale_of_products();
      if (!has_own_scale || !model_.IsInitializer(row.value) || model_.IsDeferred(row.value)) {
        continue;
      }
      const auto given = weight_scales_.find(plan::ScaleKeyOf(row));
      integers_[&row] = std::make_shared<const weights::IntegerWeight>(
          model_.HoldInitializer(row.value), row, ReaderOf(row), std::move(biases[&row]),
          given == weight_scales_.end() ? std::vector<formats::QParams>() : given->second,
          row.role == plan::Role::kWeight ? pair_rules_.For(row)
                                          : std::vector<weights::PairRule>());
    }
  }

  void ReplaceInteger(const TensorPlan& row, bool has_copy) {
    const auto statistics = std::make_shared<weights::WeightStatistics>();
    statistics->value = row.value;
    statistics->format = row.format;
    const graph::HeldInitializer source = model_.HoldInitializer(row.value);
    statistics->num_elements = NumElements(source.dims);
    std::shared_ptr<const weights::IntegerWeight> weight;
    float input_scale = 1;
    if (row.has_scale_of_products()) {
      const auto found = row.uses.size() == 1 ? weight_of_node_.find(row.uses.front().node)
                                              : weight_of_node_.end();
      const std::optional<float> scale =
          row.uses.size() == 1 ? InputScale(row.uses.front()) : std::nullopt;
      if (found == weight_of_node_.end() || !scale || !integers_.contains(found->second)) {
        statistics->quantized = row.value;
        statistics->unpacked_reason = "the input that it is added to has no scale";
        statistics->sqnr_db = std::numeric_limits<double>::infinity();
        statistics->stored_bytes = source.bytes.size();
        result_.weights.push_back(statistics);
        return;
      }
      weight = integers_.at(found->second);
      input_scale = *scale;
    } else {
      weight = integers_.at(&row);
    }
    const std::string target = has_copy ? model_.FreshName(row.value + "_quantized") : row.value;
    statistics->quantized = target;
    if (!has_copy) MoveReadersAway(row, target);
    if (row.has_scale_of_products()) {
      StoreIntegerBias(weight, row.uses.front().node, source, input_scale, target, statistics);
    } else {
      StoreInteger(row, weight, target, statistics);
    }
    Redirect(row, target, has_copy);
    result_.weights.push_back(statistics);
  }

  // Returns the form of an integer weight behind a DequantizeLinear.
  weights::StandardForm DequantizedForm(const TensorPlan& row,
                                        const weights::IntegerWeight& weight) const {
    const bool is_per_block = row.integer->granularity == plan::Granularity::kPerBlock;
    weights::StandardForm form{.code_type = weight.code_type(),
                               .code_dims = weight.code_dims(),
                               .scale_dims = weight.scale_dims(),
                               .axis = weight.axis(),
                               .block_size = is_per_block ? row.integer->block_size : 0,
                               .has_tensor_scale = weight.channel_axis().has_value(),
                               .channel_axis = weight.channel_axis(),
                               .has_zero_points = true};
    if (form.channel_axis) form.scale_type = DataType::kUInt8;
    if (is_per_block) form.FitBlocks(options_.fills_blocks);
    return form;
  }

  void StoreInteger(const TensorPlan& row,
                    const std::shared_ptr<const weights::IntegerWeight>& weight,
                    const std::string& target,
                    const std::shared_ptr<weights::WeightStatistics>& statistics) {
    const graph::HeldInitializer& source = weight->source();
    const auto quantize = [weight, statistics, &pool = pool_](bool is_packed, bool has_channels) {
      weights::IntegerWeight::Result result = weight->Quantize(pool, *statistics, is_packed);
      weight->source().Release();
      std::vector<Tensor> tensors;
      tensors.push_back(std::move(result.codes));
      tensors.push_back(std::move(has_channels ? result.multiples : result.scales));
      if (has_channels) tensors.push_back(std::move(result.channel_scales));
      tensors.push_back(std::move(result.zero_points));
      return tensors;
    };
    const bool is_per_block = row.integer->granularity == plan::Granularity::kPerBlock;
    // Scales of half-precision models would have to be FLOAT16 there, too coarse for them. Codes of
    // 32 bits have no integer kernel, but ONNX Runtime fuses their DequantizeLinear all the same,
    // and then refuses the model.
    const bool is_dequantized =
        options_.storage == Storage::kQdq
            ? opset_ >= DequantizeOpset(row) && !DecodesInBodies(row)
            : options_.storage == Storage::kPacked && integer_readers_.Contain(row);
    if (is_dequantized && source.type != DataType::kFloat16 &&
        ElementBits(weight->code_type()) < 32 && !(is_per_block && IsConvOnIntegers(row))) {
      const weights::StandardForm form = DequantizedForm(row, *weight);
      if (row.Spec().has_wider_onnx_type()) statistics->wider_type = DataTypeName(form.code_type);
      store_.StoreStandard(
          target, source, form,
          [quantize, form] {
            std::vector<Tensor> tensors =
                quantize(/*is_packed=*/false, form.channel_axis.has_value());
            weights::FillBlocks(form, tensors[0]);
            return tensors;
          },
          *statistics);
      return;
    }
    statistics->unpacked_reason = WhyNotPacked(source);
    if (statistics->unpacked_reason.empty()) {
      store_.StorePacked(
          target, source, weights::StoragePackedInteger(row.Spec(), source.dims, weight->Layout()),
          [quantize] { return quantize(/*is_packed=*/true, false); }, *statistics);
      result_.packed.push_back({weights::NativeWeightOf(weight), statistics});
    } else {
      store_.StoreFloats(
          target, source,
          [weight, statistics, &pool = pool_] { return weight->Simulate(pool, *statistics); },
          *statistics);
    }
  }

  // Returns whether a reader in a body multiplies floats: see SplitReadersInBodies.
  bool DecodesInBodies(const TensorPlan& row) const {
    return std::ranges::any_of(row.uses, [&](const plan::TensorUse& use) {
      return !integer_readers_.Contain(use) && model_.Owner(index_.Find(use));
    });
  }

  // Returns whether a Conv between quantizers reads a weight. ONNX Runtime makes a QLinearConv of
  // it, which does not run with blocks.
  bool IsConvOnIntegers(const TensorPlan& row) const {
    return std::ranges::any_of(row.uses, [&](const plan::TensorUse& use) {
      return ops::TraitsNamed(use.op_type).product == ops::Product::kConv &&
             integer_readers_.Contain(use);
    });
  }

  // Returns the reason why no DequantizeLinear may stand behind the codes of a weight of floats.
  std::string WhyNotDequantized(const TensorPlan& row, bool is_per_block) const {
    if (DecodesInBodies(row)) return "a body reads it";
    if (is_per_block && IsConvOnIntegers(row)) return "a Conv on integers reads its blocks";
    return "";
  }

  void StoreIntegerBias(const std::shared_ptr<const weights::IntegerWeight>& weight,
                        const std::string& node, const graph::HeldInitializer& bias,
                        float input_scale, const std::string& target,
                        const std::shared_ptr<weights::WeightStatistics>& statistics) {
    std::vector<int64_t> scale_dims;
    if (!weight->scale_dims().empty()) scale_dims = {NumElements(bias.dims)};
    store_.StoreStandard(
        target, bias,
        {.code_type = DataType::kInt32,
         .code_dims = bias.dims,
         .scale_dims = scale_dims,
         .has_zero_points = true},
        [weight, node, bias, input_scale, statistics, &pool = pool_] {
          return weights::QuantizeBias(bias, input_scale, weight->Params(pool),
                                       weight->scale_dims().empty(), weight->LostMeans(node, pool),
                                       pool, *statistics);
        },
        *statistics);
  }

  // Tied LM head: reuses the packed embedding table. Returns whether that is packed.
  bool Share(const TensorPlan& head, const TensorPlan& table, bool has_copy) {
    const auto packed = std::ranges::find(
        result_.packed, table.value,
        [](const QuantizedWeights::Packed& one) { return one.statistics->value; });
    if (packed == result_.packed.end()) return false;
    const auto statistics = std::make_shared<weights::WeightStatistics>();
    statistics->value = head.value;
    statistics->format = head.format;
    statistics->num_elements = NumElements(model_.Initializer(head.value).dims);
    const graph::ValueInfo info = model_.InfoOf(head.value);
    const std::string target = has_copy ? model_.FreshName(head.value + "_quantized") : head.value;
    statistics->quantized = target;
    if (!has_copy) MoveReadersAway(head, target);
    const std::string& decoded = packed->statistics->quantized;
    model_.InsertNode({model_.FreshNodeName(target + "_transpose"),
                       "Transpose",
                       "",
                       {decoded},
                       {target},
                       {{"perm", std::vector<int64_t>{1, 0}}}},
                      model_.NodeBehind(decoded));
    model_.SetInfo(target, info);
    Redirect(head, target, has_copy);
    packed->statistics->tied = statistics;
    result_.weights.push_back(statistics);
    return true;
  }

  // Returns why no operator can quantize a weight of floats, or "".
  std::string WhyNoOperatorBehind(const TensorPlan& row) const {
    if (row.flatten) return "no operator reads several dimensions as one row";
    if (model_.IsDeferred(row.value)) return "its values are not known yet";
    const formats::FormatSpec spec = row.Spec();
    const bool is_half = model_.Initializer(row.value).type == DataType::kFloat16;
    if (is_half && (row.scaled || !plan::HasHalfOperator(plan_.operators, spec))) {
      return "its type is FLOAT16, and the operators give FLOAT";
    }
    return plan::WhyNoOperator(plan_.operators, spec);
  }

  // Leaves the floats to an operator that quantizes them, and measures what it will do.
  void LeaveToOperator(const TensorPlan& row, const weights::WeightJob& job,
                       const std::shared_ptr<weights::WeightStatistics>& statistics,
                       std::optional<float> scale) {
    statistics->quantized = row.value;
    statistics->unpacked_reason = "storage=qdq: an operator quantizes it";
    statistics->stored_bytes = job.source().bytes.size();
    job.Simulate(pool_, *statistics);
    if (row.scaled && !scale) {
      scale = weights::ScaleOf(row.Spec(), model_.Initializer(row.value).values<float>());
    }
    job.source().Release();
    store_.Step()();
    result_.behind_operators[&row] = scale;
    result_.weights.push_back(statistics);
  }

  // Stores a weight as standard ONNX has it. Returns false, and notes why, if there is no such
  // form.
  bool StoreStandard(const TensorPlan& row, const std::shared_ptr<const weights::WeightJob>& job,
                     bool has_copy, const std::shared_ptr<weights::WeightStatistics>& statistics) {
    weights::StandardForm form =
        weights::StandardFormOf(*job, opset_, options_.least_opset, options_.fills_blocks);
    if (form.why_not.empty()) form.why_not = WhyNotDequantized(row, form.block_size > 0);
    if (!form.why_not.empty()) {
      result_.not_standard.emplace_back(row.value, form.why_not);
      return false;
    }
    const std::string target = has_copy ? model_.FreshName(row.value + "_quantized") : row.value;
    statistics->quantized = target;
    if (!has_copy) MoveReadersAway(row, target);
    store_.StoreStandard(
        target, job->source(), form,
        [job, form, statistics, &pool = pool_] {
          return weights::EncodeStandard(*job, form, pool, *statistics);
        },
        *statistics);
    Redirect(row, target, has_copy);
    result_.weights.push_back(statistics);
    return true;
  }

  void Replace(const TensorPlan& row, bool has_copy) {
    const std::string reader = ReaderOf(row);
    const auto given = weight_scales_.find(plan::ScaleKeyOf(row));
    const auto job = std::make_shared<const weights::WeightJob>(
        model_.HoldInitializer(row.value), row, plan_.operators, reader,
        given == weight_scales_.end() ? std::nullopt : std::optional(given->second.front().scale));
    const auto statistics = std::make_shared<weights::WeightStatistics>();
    statistics->value = row.value;
    statistics->format = row.format;
    statistics->num_elements = NumElements(job->source().dims);
    if (options_.storage == Storage::kQdq && plan_.operators == plan::OperatorSet::kBitpress) {
      if (StoreStandard(row, job, has_copy, statistics)) return;
    } else if (options_.storage == Storage::kQdq && WhyNoOperatorBehind(row).empty()) {
      return LeaveToOperator(row, *job, statistics,
                             given == weight_scales_.end()
                                 ? std::nullopt
                                 : std::optional(given->second.front().scale));
    }
    statistics->unpacked_reason = WhyNotPacked(*job);
    std::string target = row.value;
    if (has_copy) target = model_.FreshName(row.value + "_quantized");
    statistics->quantized = target;
    if (statistics->unpacked_reason.empty()) {
      // A node's output takes over the name of the weight.
      if (!has_copy) MoveReadersAway(row, target);
      const weights::PackedStorage packed =
          weights::StoragePacked(job->spec(), job->source().dims, job->view(), opset_);
      store_.StorePacked(
          target, job->source(), packed,
          [job, statistics, parts = packed.parts, &pool = pool_] {
            return job->Pack(parts, pool, *statistics);
          },
          *statistics, job->is_scaled());
      result_.packed.push_back({weights::NativeWeightOf(job), statistics});
    } else {
      store_.StoreFloats(
          target, job->source(),
          [job, statistics, &pool = pool_] { return job->Simulate(pool, *statistics); },
          *statistics);
    }
    Redirect(row, target, has_copy);
    result_.weights.push_back(statistics);
  }

  // Gives the row's readers the quantized value. Removes the original if nothing else reads it.
  void Redirect(const TensorPlan& row, const std::string& target, bool has_copy) {
    for (const plan::TensorUse& use : row.uses) {
      index_.Find(use).set_input(static_cast<size_t>(use.input), target);
    }
    if (has_copy && !model_.IsRead(row.value)) model_.RemoveInitializer(row.value);
    result_.is_modified = true;
  }

  void MoveReadersAway(const TensorPlan& row, const std::string& target) {
    const std::string meanwhile = model_.FreshName(target + "_float");
    for (const plan::TensorUse& use : row.uses) {
      index_.Find(use).set_input(static_cast<size_t>(use.input), meanwhile);
    }
    model_.RemoveInitializer(row.value);
  }

  Model& model_;
  const plan::ResolvedPlan& resolved_;
  const QuantPlan& plan_;
  plan::NodeIndex index_;
  StorageOptions options_;
  const plan::ScaleTable& scales_;
  std::map<std::string, const TensorPlan*> activations_;  // by the key of the node that reads them
  IntegerReaders integer_readers_;
  weights::PairRules pair_rules_;
  const plan::WeightScaleTable& weight_scales_;
  // The integer weights by the node that reads them, with their job.
  std::map<std::string, const TensorPlan*> weight_of_node_;
  std::map<const TensorPlan*, std::shared_ptr<const weights::IntegerWeight>> integers_;
  std::map<const TensorPlan*, const TensorPlan*> tied_;  // heads by their rows -> tables
  int64_t opset_;
  ThreadPool& pool_;
  weights::WeightStore store_;
  QuantizedWeights result_;
};

}  // namespace

int64_t DequantizeOpset(const TensorPlan& row) {
  // An axis (13), blocks and types other than 8 bits (21), and types of 2 bits (25).
  const size_t bits = ElementBits(row.Spec().onnx_type);
  const bool is_new = bits != 8 && !row.has_scale_of_products();
  const bool is_per_block = row.integer->granularity == plan::Granularity::kPerBlock;
  return bits == 2 ? 25 : is_new || is_per_block ? 21 : 13;
}

IntegerReaders::IntegerReaders(const plan::ResolvedPlan& resolved) {
  for (const TensorPlan& row : resolved.plan.tensors) {
    if (!row.integer || row.role != plan::Role::kActivation) continue;
    if (!row.is_dynamic() && !resolved.scales.contains(plan::ScaleKeyOf(row))) continue;
    for (const plan::TensorUse& use : row.uses) {
      if (!ops::TraitsNamed(use.op_type).is_recurrent()) nodes_.insert(use.node);
    }
  }
}

bool IntegerReaders::Contain(const TensorPlan& weight) const {
  return std::ranges::any_of(weight.uses, [&](const plan::TensorUse& use) { return Contain(use); });
}

plan::ResolvedPlan SplitReadersInBodies(const Model& model, plan::ResolvedPlan resolved) {
  const IntegerReaders readers(resolved);
  const plan::NodeIndex nodes(model);
  std::vector<TensorPlan> rows;
  for (TensorPlan& row : resolved.plan.tensors) {
    TensorPlan decoded = row;
    decoded.uses.clear();
    if (row.integer && row.role == plan::Role::kWeight && readers.Contain(row)) {
      std::ranges::copy_if(row.uses, std::back_inserter(decoded.uses),
                           [&](const plan::TensorUse& use) {
                             return !readers.Contain(use) && model.Owner(nodes.Find(use));
                           });
      std::erase_if(row.uses, [&](const plan::TensorUse& use) {
        return std::ranges::find(decoded.uses, use) != decoded.uses.end();
      });
    }
    rows.push_back(std::move(row));
    if (!decoded.uses.empty()) rows.push_back(std::move(decoded));
  }
  resolved.plan.tensors = std::move(rows);
  return resolved;
}

QuantizedWeights QuantizeWeights(Model& model, const plan::ResolvedPlan& resolved,
                                 const StorageOptions& options, ThreadPool& pool,
                                 const ProgressSink& progress) {
  plan::CheckFits(resolved.plan, model);
  return WeightQuantizer(model, resolved, options, pool, progress).Run();
}

}  // namespace bitpress::emit
