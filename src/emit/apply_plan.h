// Turns a float model into the quantized model of a plan. Call ApplyPlan once the plan is resolved.
// apply_plan.cc is also the schedule of the passes in src/emit.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/thread_pool.h"
#include "bitpress/progress.h"
#include "bitpress/quantize_options.h"
#include "emit/portable_functions.h"
#include "emit/quantize_weights.h"
#include "emit/use_integer_operators.h"
#include "emit/use_native_operators.h"
#include "graph/model.h"
#include "graph/pass.h"
#include "plan/quant_plan.h"
#include "plan/resolved_plan.h"

namespace bitpress::emit {

using bitpress::IntegerForm;
using bitpress::Target;

// The form of the written model (bitpress/quantize_options.inc), and what its users do not choose.
struct ApplyOptions {
#define BITPRESS_FORM_OPTION(type, field, key, value, ...) type field = value;
#include "bitpress/quantize_options.inc"
  // Key-value caches stay float, so that the model takes the samples of the float model.
  bool keeps_interface = false;
  graph::PassNames disabled_passes = {};
};

struct TransformReport {
  std::vector<graph::PassResult> passes;  // those that ran
  PortableFunctions portable;
  NativeOperators native;    // empty where weights are decoded, as for Target::kPortable
  IntegerOperators integer;  // IntegerForm::kQOperator
  // The weights that Storage::kQdq packed, because ONNX has no form for them: name and reason.
  std::vector<std::pair<std::string, std::string>> not_standard;
  // The rules of the target about the model as a whole that it breaks.
  std::vector<std::string> broken_rules;
  // The statistics of the quantized weights. Their errors are known once the model has been
  // written.
  std::vector<std::shared_ptr<const weights::WeightStatistics>> weights;
};

// Returns the names of the passes of ApplyPlan, in their order.
std::vector<std::string_view> EmitPasses();

// Returns whether products and convolutions compute from the codes of weights in block formats by
// operators of our library: for Target::kBitpress, and by default if the weights are packed and the
// operators are not those of Quark, whose users have its library.
bool ComputesFromCodes(const ApplyOptions& options, plan::OperatorSet operators);

// Runs those passes. A second run with the same plan changes nothing in the file, unless the first
// one replaced what reads a weight or an activation: quantize-dynamically, look-up-rows,
// hard-swish-on-codes, products from codes, the operators of ONNX Runtime and those on integers do.
// The plan no longer fits the model then.
// `pool` is used until the model is written and must live that long.
// Throws Error as the passes and plan::CheckWritten do; the model is in an unspecified but valid
// state then.
TransformReport ApplyPlan(graph::Model& model, const plan::ResolvedPlan& resolved,
                          const ApplyOptions& options, ThreadPool& pool,
                          const ProgressSink& progress = {});

// Writes the metadata bitpress.version, bitpress.format_version, bitpress.config and, if the plan
// quantizes weights, bitpress.weights (pass record-config). With `weights` it also writes
// bitpress.unpacked, the reason for each weight that is stored as floats. Returns whether any
// metadata changed. ApplyPlan writes none where nothing is quantized.
bool RecordConfig(
    graph::Model& model, const plan::QuantPlan& plan,
    const std::vector<std::shared_ptr<const weights::WeightStatistics>>& weights = {});

}  // namespace bitpress::emit
