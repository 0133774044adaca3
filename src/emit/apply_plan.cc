#include "emit/apply_plan.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/version.h"
#include "emit/dequantize_in_bodies.h"
#include "emit/hard_swish_on_codes.h"
#include "emit/insert_quantizers.h"
#include "emit/look_up_rows.h"
#include "emit/quantize_caches.h"
#include "emit/quantize_dynamically.h"
#include "emit/use_product_operators.h"
#include "ops/quantizer_nodes.h"
#include "plan/target_profile.h"
#include "weights/standard_form.h"

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
    if (!row.integer && row.role != plan::Role::kActivation && options.storage == Storage::kQdq &&
        plan.operators == plan::OperatorSet::kBitpress) {
      wanted.Add(weights::StandardOpset(row.Spec()));
    }
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
  if (more.num_fastest_sums) to.num_fastest_sums = more.num_fastest_sums;
  to.num_slower_sums += more.num_slower_sums;
  std::set<std::string> known;
  for (const auto& [name, why] : to.omissions) known.insert(name);
  for (const auto& omission : more.omissions) {
    if (!known.contains(omission.first)) to.omissions.push_back(omission);
  }
}

// Returns whether products compute from codes, by what the target's operators read.
bool UsesProducts(plan::CodeReaders products, const ApplyOptions& options,
                  plan::OperatorSet operators) {
  if (products == plan::CodeReaders::kAll) return true;
  return products == plan::CodeReaders::kQuick && options.storage == Storage::kPacked &&
         !plan::IsQuark(operators);
}

// The data that the passes share.
struct EmitState {
  const plan::ResolvedPlan& resolved;
  const ApplyOptions& options;
  ThreadPool& pool;
  const ProgressSink& progress;
  TransformReport& report;
  std::optional<SplitPlan> split = {};          // nothing: no row is dynamic
  std::optional<plan::ResolvedPlan> rest = {};  // the rows that are not dynamic
  QuantizedWeights quantized = {};
  const plan::TargetProfile target = plan::ProfileOf(options.target);  // read once

  bool ComputesFromCodes() const {
    return UsesProducts(target.products, options, resolved.plan.operators);
  }
};

using EmitPass = graph::Pass<EmitState>;
using graph::Model;
using graph::PassResult;

bool FitsRest(const Model& model, const EmitState& state) {
  plan::CheckFits(state.rest->plan, model);  // or it throws
  return true;
}

constexpr EmitPass kRaiseOpset{.name = "raise-opset",
                               .run = [](Model& model, EmitState& state) -> PassResult {
                                 return RaiseOpset(model, state.resolved, state.options);
                               }};

constexpr EmitPass kSplitPlan{.name = "split-plan",
                              .run = [](Model& model, EmitState& state) -> PassResult {
                                state.split = SplitDynamic(state.resolved);
                                state.rest = SplitReadersInBodies(
                                    model, state.split ? state.split->rest : state.resolved);
                                return false;
                              },
                              .can_be_off = false};

constexpr EmitPass kQuantizeWeights{
    .name = "quantize-weights",
    .run = [](Model& model, EmitState& state) -> PassResult {
      state.quantized = QuantizeWeights(
          model, *state.rest,
          {.storage = state.options.storage,
           .least_kernel = state.ComputesFromCodes() ? kLeastPackedKernel : kLeastPackedElements,
           .least_opset = static_cast<int64_t>(state.options.least_opset),
           .fills_blocks = state.target.wants_whole_blocks()},
          state.pool, state.progress);
      state.report.weights = state.quantized.weights;
      state.report.not_standard = state.quantized.not_standard;
      return state.quantized.is_modified;
    },
    .requires_before = FitsRest,
    .ensures_after = FitsRest};

constexpr EmitPass kInsertQuantizers{.name = "insert-quantizers",
                                     .run = [](Model& model, EmitState& state) -> PassResult {
                                       return InsertQuantizers(model, *state.rest,
                                                               state.quantized.behind_operators);
                                     },
                                     .requires_before = FitsRest,
                                     .ensures_after =
                                         [](const Model& result, const EmitState& state) {
                                           return ReadsQuantizedActivations(result, *state.rest);
                                         }};

constexpr EmitPass kHardSwishOnCodes{
    .name = "hard-swish-on-codes",
    .run = [](Model& model, EmitState&) -> PassResult { return HardSwishOnCodes(model) > 0; },
    // Compilers know the operators themselves, and those of Quark the nodes that Quark writes.
    .is_wanted =
        [](const Model&, const EmitState& state) {
          return state.target.runtime.empty() && !plan::IsQuark(state.resolved.plan.operators);
        }};

constexpr EmitPass kQuantizeCaches{.name = "quantize-caches",
                                   .run = [](Model& model, EmitState& state) -> PassResult {
                                     return QuantizeCaches(model, state.resolved.plan);
                                   },
                                   .is_wanted =
                                       [](const Model&, const EmitState& state) {
                                         return !state.options.keeps_interface &&
                                                std::ranges::any_of(state.resolved.plan.caches,
                                                                    &plan::CachePlan::is_quantized);
                                       }};

constexpr EmitPass kDequantizeInBodies{
    .name = "dequantize-in-bodies",
    .run = [](Model& model, EmitState&) -> PassResult { return DequantizeInBodies(model); },
    .is_wanted = [](const Model& model,
                    const EmitState&) { return model.AllNodes().size() > model.Nodes().size(); }};

constexpr EmitPass kQuantizeDynamically{
    .name = "quantize-dynamically",
    .run = [](Model& model, EmitState& state) -> PassResult {
      const Weights weights = QuantizeDynamically(model, state.split->dynamic, state.pool);
      state.report.weights.insert(state.report.weights.end(), weights.begin(), weights.end());
      return !weights.empty();
    },
    .is_wanted = [](const Model&, const EmitState& state) { return state.split.has_value(); }};

constexpr EmitPass kUseNativeOperators{
    .name = "use-native-operators",
    .run = [](Model& model, EmitState& state) -> PassResult {
      state.report.native = UseNativeOperators(model, state.quantized, state.target,
                                               state.options.accuracy_level, state.pool);
      return state.report.native.num_nodes > 0;
    },
    .is_wanted =
        [](const Model&, const EmitState& state) {
          return state.target.contributed != plan::CodeReaders::kNone;
        }};

constexpr EmitPass kLookUpRows{
    .name = "look-up-rows",
    .run = [](Model& model, EmitState&) -> PassResult { return LookUpRows(model) > 0; }};

constexpr EmitPass kUseIntegerOperators{.name = "use-integer-operators",
                                        .run = [](Model& model, EmitState& state) -> PassResult {
                                          state.report.integer = UseIntegerOperators(model);
                                          return state.report.integer.num_nodes > 0;
                                        },
                                        .is_wanted =
                                            [](const Model&, const EmitState& state) {
                                              return state.options.form == IntegerForm::kQOperator;
                                            }};

constexpr EmitPass kAddPortableFunctions{
    .name = "add-portable-functions",
    .run = [](Model& model, EmitState& state) -> PassResult {
      state.report.portable = AddPortableFunctions(model);
      return state.report.portable.is_changed;
    },
    .is_wanted = [](const Model&, const EmitState& state) { return state.options.is_portable; }};

constexpr EmitPass kUseProductOperators{
    .name = "use-product-operators",
    .run = [](Model& model, EmitState& state) -> PassResult {
      const auto order =
          state.options.has_fastest_sums ? formats::SumOrder::kFastest : formats::SumOrder::kFixed;
      const NativeOperators products = UseProductOperators(model, state.target.products, order);
      Append(products, state.report.native);
      return products.num_nodes > 0;
    },
    .is_wanted = [](const Model&, const EmitState& state) { return state.ComputesFromCodes(); }};

constexpr EmitPass kRecordConfig{
    .name = "record-config",
    .run = [](Model& model, EmitState& state) -> PassResult {
      return RecordConfig(model, state.resolved.plan, state.report.weights);
    },
    // A model in which nothing was quantized stays as it was given.
    .is_wanted =
        [](const Model&, const EmitState& state) {
          const plan::QuantPlan& plan = state.resolved.plan;
          const auto is_quantized = [](const auto& row) { return row.is_quantized(); };
          return plan.config.network != plan::Network::kGiven ||
                 std::ranges::any_of(plan.tensors, is_quantized) ||
                 std::ranges::any_of(plan.caches, is_quantized);
        },
    .ensures_after =
        [](const Model& result, const EmitState&) {
          return result.Metadata().contains(ops::kConfigMetadata);
        }};

constexpr const EmitPass* kSchedule[] = {
    &kRaiseOpset,          &kSplitPlan,      &kQuantizeWeights,     &kInsertQuantizers,
    &kHardSwishOnCodes,    &kQuantizeCaches, &kDequantizeInBodies,  &kQuantizeDynamically,
    &kUseNativeOperators,  &kLookUpRows,     &kUseIntegerOperators, &kAddPortableFunctions,
    &kUseProductOperators, &kRecordConfig};

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
  return UsesProducts(plan::ProfileOf(options.target).products, options, operators);
}

TransformReport ApplyPlan(graph::Model& model, const plan::ResolvedPlan& resolved,
                          const ApplyOptions& options, ThreadPool& pool,
                          const ProgressSink& progress) {
  plan::CheckFits(resolved.plan, model);
  TransformReport report;
  EmitState state{resolved, options, pool, progress, report};
  report.passes = graph::RunSchedule<EmitState>(model, kSchedule, state, options.disabled_passes);
  if (options.has_fastest_sums) {
    report.native.num_fastest_sums = report.native.num_fastest_sums.value_or(0);
  }
  report.broken_rules = plan::CheckWritten(state.target, model);
  return report;
}

std::vector<std::string_view> EmitPasses() { return graph::NamesOf<EmitState>(kSchedule); }

}  // namespace bitpress::emit
