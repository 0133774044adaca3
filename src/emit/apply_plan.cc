#include "emit/apply_plan.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/version.h"
#include "emit/dequantize_in_bodies.h"
#include "emit/insert_quantizers.h"
#include "emit/look_up_rows.h"
#include "emit/quantize_caches.h"
#include "emit/quantize_dynamically.h"
#include "emit/use_product_operators.h"
#include "ops/quantizer_nodes.h"

namespace bitpress::emit {
namespace {

using Weights = std::vector<std::shared_ptr<const weights::WeightStatistics>>;

// An operator set that a plan needs.
struct WantedOpset {
  int64_t version = 0;
  // A quantized value that cannot do without it, because QuantizeLinear has no such form before.
  std::string needed_by = {};

  void Add(int64_t at_least) { version = std::max(version, at_least); }
};

// Returns the operator set that packed weights and quantizers need.
WantedOpset WantedOpsetOf(const graph::Model& model, const plan::ResolvedPlan& resolved,
                          const ApplyOptions& options) {
  const plan::QuantPlan& plan = resolved.plan;
  WantedOpset wanted;
  wanted.Add(static_cast<int64_t>(options.least_opset));
  const IntegerReaders integer_readers(resolved);
  for (const plan::TensorPlan& row : plan.tensors) {
    if (!row.is_quantized()) continue;
    if (row.integer && row.role != plan::Role::kActivation && !row.has_scale_of_products() &&
        !integer_readers.Contain(row)) {
      if (options.storage == Storage::kPacked) wanted.Add(weights::kFirstPackedOpset);
      // Where the operator set cannot be raised, it is packed.
      if (options.storage == Storage::kQdq) wanted.Add(DequantizeOpset(row));
    } else if (row.integer) {
      wanted.Add(DequantizeOpset(row));
      wanted.needed_by = row.value;
    } else if (plan::WritesCasts(plan.operators, row.Spec()) || row.scaled) {
      wanted.Add(weights::HasFloat8Codes(row.Spec()) ? weights::kFirstFloat8Opset
                                                     : weights::kFirstPackedOpset);
    } else if (row.role == plan::Role::kActivation) {
      const bool is_half = model.InfoOf(row.value).type == DataType::kFloat16;
      if (options.is_portable && plan.operators == plan::OperatorSet::kBitpress) {
        wanted.Add(is_half ? kFirstPortableHalfOpset : kFirstPortableOpset);
      }
    } else if (options.storage == Storage::kPacked) {
      wanted.Add(weights::HasFloat8Codes(row.Spec()) ? weights::kFirstFloat8Opset
                                                     : weights::kFirstPackedOpset);
    }
  }
  return wanted;
}

// Raises the standard operator set to the one that the plan needs. Node handles become invalid.
// Where that cannot be, integers are an error. Other formats have other forms: FP8 codes are bytes
// then, and passes that need a later operator set say so.
bool RaiseOpset(graph::Model& model, const plan::ResolvedPlan& resolved,
                const ApplyOptions& options) {
  const WantedOpset wanted = WantedOpsetOf(model, resolved, options);
  const auto imports = model.OpsetImports();
  const auto standard = imports.find("");
  if (standard == imports.end() || standard->second >= wanted.version) return false;
  const std::string why_not = model.RaiseOpset(wanted.version);
  if (!why_not.empty() && !wanted.needed_by.empty()) {
    Fail(ErrorCode::kUnsupported,
         "the integers of '{}' need operator set {}, to which the model of operator set {} cannot "
         "be raised: {}",
         wanted.needed_by, wanted.version, standard->second, why_not);
  }
  if (!why_not.empty() && standard->second < static_cast<int64_t>(options.least_opset)) {
    Fail(ErrorCode::kUnsupported, "the model of operator set {} cannot be raised to {}: {}",
         standard->second, wanted.version, why_not);
  }
  if (!why_not.empty()) return false;
  // ONNX infers more in later operator sets, and finds outputs that the file describes wrongly.
  model.InferShapes();
  return true;
}

// Returns whether nothing reads an activation that has quantizers any more.
bool ReadsQuantizedActivations(const graph::Model& model, const plan::ResolvedPlan& resolved) {
  const plan::NodeIndex nodes(model);
  return std::ranges::all_of(resolved.plan.tensors, [&](const plan::TensorPlan& row) {
    if (row.role != plan::Role::kActivation || !row.is_quantized()) return true;
    if (row.integer && !resolved.scales.contains(plan::ScaleKeyOf(row))) return true;
    if (row.scaled && !row.scaled->scale) return true;
    return std::ranges::all_of(row.uses, [&](const plan::TensorUse& use) {
      return nodes.Find(use).input(static_cast<size_t>(use.input)) != row.value;
    });
  });
}

// Returns the reasons why constants are stored as floats, by name.
std::string Unpacked(const graph::Model& model, const plan::QuantPlan& plan,
                     const Weights& weights) {
  nlohmann::json reasons = nlohmann::json::object();
  for (const plan::TensorPlan& row : plan.tensors) {
    if (row.role == plan::Role::kActivation || row.is_quantized()) continue;
    if (model.IsInitializer(row.value)) reasons[row.value] = "float: " + row.reason;
  }
  for (const auto& weight : weights) {
    if (weight->unpacked_reason.empty()) continue;
    reasons[weight->quantized] =
        fmt::format("{} as floats: {}", weight->format, weight->unpacked_reason);
  }
  // Names come from the model and may be no UTF-8.
  return reasons.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// Appends what a second pass replaced and left. What the first one said of a weight stays.
void Append(const NativeOperators& more, NativeOperators& to) {
  to.num_nodes += more.num_nodes;
  std::set<std::string> known;
  for (const auto& [name, why] : to.omissions) known.insert(name);
  for (const auto& omission : more.omissions) {
    if (!known.contains(omission.first)) to.omissions.push_back(omission);
  }
}

}  // namespace

bool RecordConfig(graph::Model& model, const plan::QuantPlan& plan, const Weights& weights) {
  const auto before = model.Metadata();
  model.SetMetadata(ops::kVersionMetadata, std::string(Version()));
  model.SetMetadata(kModelFormatMetadata, std::to_string(kModelFormatVersion));
  model.SetMetadata(ops::kConfigMetadata, plan::ToJson(plan.config));
  const auto num_weights = std::ranges::count_if(plan.tensors, [](const plan::TensorPlan& row) {
    return row.is_quantized() && row.role != plan::Role::kActivation;
  });
  if (num_weights > 0) model.SetMetadata(ops::kWeightsMetadata, std::to_string(num_weights));
  if (!weights.empty()) {
    model.SetMetadata(ops::kUnpackedMetadata, Unpacked(model, plan, weights));
  }
  return model.Metadata() != before;
}

bool ComputesFromCodes(const ApplyOptions& options, plan::OperatorSet operators) {
  if (options.target == Target::kBitpress) return true;
  return options.target == Target::kAutomatic && options.storage == Storage::kPacked &&
         !plan::IsQuark(operators);
}

TransformReport ApplyPlan(graph::Model& model, const plan::ResolvedPlan& resolved,
                          const ApplyOptions& options, ThreadPool& pool,
                          const ProgressSink& progress) {
  const plan::QuantPlan& plan = resolved.plan;
  const bool computes_from_codes = ComputesFromCodes(options, plan.operators);
  TransformReport report;
  plan::CheckFits(plan, model);
  graph::PassRunner passes(options.disabled_passes);
  passes.Run(model, {.name = "raise-opset", .run = [&](graph::Model& changed) {
                       return RaiseOpset(changed, resolved, options);
                     }});
  const std::optional<SplitPlan> split = SplitDynamic(resolved);
  const plan::ResolvedPlan rest = SplitReadersInBodies(model, split ? split->rest : resolved);
  const auto fits = [&](const graph::Model& checked) {
    plan::CheckFits(rest.plan, checked);  // or it throws
    return true;
  };
  QuantizedWeights quantized;
  passes.Run(model, {.name = "quantize-weights",
                     .run =
                         [&](graph::Model& changed) {
                           quantized = QuantizeWeights(
                               changed, rest, options.storage, pool, progress,
                               computes_from_codes ? kLeastPackedKernel : kLeastPackedElements);
                           report.weights = quantized.weights;
                           return quantized.is_modified;
                         },
                     .requires_before = fits,
                     .ensures_after = fits});
  passes.Run(model, {.name = "insert-quantizers",
                     .run =
                         [&](graph::Model& changed) {
                           return InsertQuantizers(changed, rest, quantized.behind_operators);
                         },
                     .requires_before = fits,
                     .ensures_after =
                         [&](const graph::Model& result) {
                           return ReadsQuantizedActivations(result, rest);
                         }});
  const bool has_caches = std::ranges::any_of(
      plan.caches, [](const plan::CachePlan& cache) { return cache.is_quantized(); });
  if (has_caches && !options.keeps_interface) {
    passes.Run(model, {.name = "quantize-caches", .run = [&](graph::Model& changed) {
                         return QuantizeCaches(changed, plan);
                       }});
  }
  if (model.AllNodes().size() > model.Nodes().size()) {
    passes.Run(model, {.name = "dequantize-in-bodies", .run = DequantizeInBodies});
  }
  if (split) {
    passes.Run(model, {.name = "quantize-dynamically", .run = [&](graph::Model& changed) {
                         const Weights weights = QuantizeDynamically(changed, split->dynamic, pool);
                         report.weights.insert(report.weights.end(), weights.begin(),
                                               weights.end());
                         return !weights.empty();
                       }});
  }
  if (options.target == Target::kOnnxRuntime || options.target == Target::kBitpress) {
    const NativeWeights which =
        options.target == Target::kBitpress ? NativeWeights::kIntegers : NativeWeights::kAll;
    passes.Run(model, {.name = "use-native-operators", .run = [&](graph::Model& changed) {
                         report.native = UseNativeOperators(changed, quantized, which,
                                                            options.accuracy_level, pool);
                         return report.native.num_nodes > 0;
                       }});
  }
  passes.Run(model, {.name = "look-up-rows",
                     .run = [](graph::Model& changed) { return LookUpRows(changed) > 0; }});
  if (options.form == IntegerForm::kQOperator) {
    passes.Run(model, {.name = "use-integer-operators", .run = [&](graph::Model& changed) {
                         report.integer = UseIntegerOperators(changed);
                         return report.integer.num_nodes > 0;
                       }});
  }
  if (options.is_portable) {
    passes.Run(model, {.name = "add-portable-functions", .run = [&](graph::Model& changed) {
                         report.portable = AddPortableFunctions(changed);
                         return report.portable.is_changed;
                       }});
  }
  if (computes_from_codes) {
    passes.Run(model, {.name = "use-product-operators", .run = [&](graph::Model& changed) {
                         NativeOperators products = UseProductOperators(
                             changed, options.target == Target::kBitpress ? Replaced::kAll
                                                                          : Replaced::kQuickOnes);
                         Append(products, report.native);
                         return products.num_nodes > 0;
                       }});
  }
  passes.Run(
      model,
      {.name = "record-config",
       .run = [&](graph::Model& changed) { return RecordConfig(changed, plan, report.weights); },
       .ensures_after =
           [](const graph::Model& result) {
             return result.Metadata().contains(ops::kConfigMetadata);
           }});
  report.passes = passes.reports();
  return report;
}

}  // namespace bitpress::emit
