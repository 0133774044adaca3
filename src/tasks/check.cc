#include "tasks/check.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/paths.h"
#include "deploy/check_process.h"
#include "graph/stored_bytes.h"
#include "interop/decisions.h"
#include "ops/batch.h"
#include "ops/quantizer_nodes.h"
#include "plan/target_profile.h"
#include "tasks/run.h"

namespace bitpress::tasks {

namespace {

// Returns the rules of a target that a model breaks, whoever quantized it.
plan::BrokenRules RulesBrokenIn(graph::Model& model, const plan::TargetProfile& profile) {
  model.InferShapes();
  const bool reads_tensors = std::ranges::any_of(profile.rules, [](const plan::TargetRule& rule) {
    return rule.subject == plan::Subject::kTensor;
  });
  const bool is_quantized = reads_tensors && !ops::QuantizedOperators(model).empty();
  const plan::QuantPlan plan =
      is_quantized ? interop::AsPlan(interop::DecisionsOf(model)) : plan::QuantPlan();
  return plan::RulesBrokenBy(profile, plan, model);
}

}  // namespace

std::vector<std::vector<Tensor>> FirstSamples(
    const graph::Model& model, const data::SampleSpec& samples, size_t most,
    const std::function<size_t(const std::vector<Tensor>& first)>& count) {
  if (!samples.is_given() || model.InputNames().empty()) return {};
  data::SourceOptions source = SourceFor(model, {.samples = samples});
  source.read_ahead = false;
  const size_t batch_size = std::max<size_t>(1, ops::FixedBatchOf(model));
  source.limit = most * batch_size;
  const std::unique_ptr<data::Source> opened = data::OpenSource(source);
  std::vector<std::vector<Tensor>> found;
  size_t wanted = 1;
  while (found.size() < wanted) {
    std::optional<data::Batch> batch = opened->Next(batch_size);
    if (!batch) break;
    // A model with a fixed batch does not run the rest of the samples.
    if (!found.empty() && batch->HasRows() && batch->num_samples < batch_size) break;
    found.push_back(std::move(batch->inputs));
    if (found.size() == 1) wanted = std::min(count(found[0]), most);
  }
  return found;
}

std::vector<std::vector<Tensor>> MadeUpTokens(const graph::Model& model) {
  constexpr int64_t kFewTokens = 8;
  try {
    const data::TokenInputs inputs(model);
    Tensor ids{.type = DataType::kInt64,
               .dims = {std::max<int64_t>(1, inputs.fixed_batch()),
                        inputs.fixed_length() > 0 ? inputs.fixed_length() : kFewTokens},
               .bytes = {}};
    ids.bytes.resize(NumBytes(ids.type, ids.num_elements()));  // zeros are in every vocabulary
    return {inputs.Make(ids)};
  } catch (const Error&) {
    return {};  // no language model, or one with further inputs
  }
}

deploy::TargetReport CheckTarget(const CheckOptions& options) {
  const plan::TargetProfile profile = plan::ProfileOf(options.target);
  deploy::CheckRequest request{.model = options.model};
  plan::BrokenRules broken;
  {
    graph::Model model = graph::Model::Load(options.model);
    request.samples =
        FirstSamples(model, options.samples, 1, [](const auto&) { return size_t{1}; });
    if (request.samples.empty()) {
      request.samples = MadeUpTokens(model);
      request.are_made_up = true;
    }
    broken = RulesBrokenIn(model, profile);
  }
  request.num_bytes = graph::StoredBytes(options.model);
  deploy::CheckOutcome outcome = deploy::CheckInSubprocess(request);
  if (!outcome.report) {
    Fail(ErrorCode::kRuntime, "'{}' was not checked: {}", PathText(options.model), outcome.why_not);
  }
  outcome.report->broken_rules = std::move(broken.refused);
  outcome.report->advice = std::move(broken.advice);
  return std::move(*outcome.report);
}

}  // namespace bitpress::tasks
