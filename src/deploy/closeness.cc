#include "deploy/closeness.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <set>
#include <utility>

#include "base/content_hash.h"
#include "base/error.h"
#include "base/output_error.h"
#include "evaluate/loss.h"
#include "evaluate/metrics.h"
#include "evaluate/outputs.h"

namespace bitpress::deploy {
namespace {

using runtime::ValueDescription;

// Returns the position of each value of `wanted` in `found`. Throws Error(kUnsupported) if there is
// none of its name.
std::vector<size_t> PositionsOf(const std::vector<ValueDescription>& wanted,
                                const std::vector<ValueDescription>& found, const char* what) {
  std::vector<size_t> positions;
  for (const ValueDescription& value : wanted) {
    const auto at = std::ranges::find(found, value.name, &ValueDescription::name);
    if (at == found.end()) {
      Fail(ErrorCode::kUnsupported, "only one of the models has the {} '{}'", what, value.name);
    }
    positions.push_back(static_cast<size_t>(at - found.begin()));
  }
  return positions;
}

uint64_t HashOf(const std::vector<Tensor>& inputs) {
  ContentHash hash;
  for (const Tensor& input : inputs) {
    for (const int64_t dim : input.dims) hash.AddNumber(static_cast<uint64_t>(dim));
    hash.Add(input.bytes);
  }
  return hash.value();
}

// Returns whether there are inputs of floats, and each has one and the same value everywhere.
bool AreConstant(const std::vector<Tensor>& inputs) {
  bool has_floats = false;
  for (const Tensor& input : inputs) {
    const std::vector<double> values = evaluate::ToOutput(input).values;
    if (values.size() < 2) continue;
    has_floats = true;
    if (std::ranges::adjacent_find(values, std::ranges::not_equal_to()) != values.end()) {
      return false;
    }
  }
  return has_floats;
}

// Compares one output over the runs.
class OutputMeter {
 public:
  void Add(const evaluate::Output& wanted, const evaluate::Output& found) {
    comparison_.Add(wanted.values, found.values);
    errors_.push_back(CompareOutputs<double>(wanted.values, found.values));
    if (errors_.size() == 1) {
      first_ = wanted.values;
    } else {
      varies_ = varies_ || wanted.values != first_;
    }
  }

  bool has_runs() const { return !errors_.empty(); }

  OutputCloseness Result(const std::string& name) const {
    OutputCloseness result{{name, comparison_.num_values(), 0, comparison_.Cosine()}};
    for (const OutputError& error : errors_) result.num_lost += error.num_lost;
    const std::vector<double> noises = SampleNoises(errors_);
    if (result.num_lost > 0) {
      result.sqnr_db = result.worst_db = -std::numeric_limits<double>::infinity();
    } else if (const double noise = MeanNoise(errors_); noise > 0) {
      result.sqnr_db = evaluate::SqnrDb(noise);
      result.worst_db = evaluate::SqnrDb(std::ranges::max(noises));
    } else {
      // What samples differ in is silent beside the others, or all of them are silent.
      result.sqnr_db = result.worst_db = comparison_.SqnrDb();
    }
    result.varies = varies_ || errors_.size() < 2;
    return result;
  }

 private:
  evaluate::OutputComparison comparison_;
  std::vector<OutputError> errors_;
  std::vector<double> first_;
  bool varies_ = false;
};

// Compares the outputs of all runs. The positions are those of the written model's outputs among
// the session's.
void Compare(runtime::Session& session, const std::vector<ValueDescription>& inputs,
             const std::vector<size_t>& output_positions,
             const std::vector<std::vector<Tensor>>& samples,
             const std::vector<std::vector<Tensor>>& outputs,
             const std::vector<ValueDescription>& descriptions, Closeness& closeness) {
  std::vector<OutputMeter> meters(descriptions.size());
  std::vector<size_t> num_other_shapes(descriptions.size());
  std::set<uint64_t> known;
  for (size_t run = 0; run < outputs.size(); ++run) {
    if (!known.insert(HashOf(samples[run])).second) {
      ++closeness.num_equal_runs;
      continue;
    }
    if (AreConstant(samples[run])) ++closeness.num_constant_runs;
    const std::vector<Tensor> wanted = session.Run(AsRead(session, samples[run], inputs));
    for (size_t k = 0; k < descriptions.size(); ++k) {
      const evaluate::Output reference = evaluate::ToOutput(wanted.at(output_positions[k]));
      const evaluate::Output found = evaluate::ToOutput(outputs[run].at(k));
      // Codes have no distance from the floats that they stand for.
      const bool is_comparable = reference.values.empty() == found.values.empty();
      if (!is_comparable) continue;
      if (reference.dims != found.dims) {
        ++num_other_shapes[k];
      } else if (!reference.values.empty() && !found.values.empty()) {
        meters[k].Add(reference, found);
      }
    }
    ++closeness.num_runs;
  }
  for (size_t k = 0; k < descriptions.size(); ++k) {
    const std::string& name = descriptions[k].name;
    if (meters[k].has_runs()) closeness.outputs.push_back(meters[k].Result(name));
    if (num_other_shapes[k] > 0) closeness.other_shapes.push_back({name, num_other_shapes[k]});
  }
}

}  // namespace

std::vector<Tensor> AsRead(const runtime::Session& session, const std::vector<Tensor>& sample,
                           const std::vector<ValueDescription>& inputs) {
  std::vector<Tensor> ordered;
  for (const size_t i : PositionsOf(session.inputs(), inputs, "input")) {
    ordered.push_back(sample.at(i));
  }
  return ordered;
}

Closeness MeasureCloseness(runtime::Session& given, const std::vector<std::vector<Tensor>>& samples,
                           const std::vector<std::vector<Tensor>>& outputs,
                           const std::vector<ValueDescription>& inputs,
                           const std::vector<ValueDescription>& descriptions) {
  Closeness closeness;
  Compare(given, inputs, PositionsOf(descriptions, given.outputs(), "output"), samples, outputs,
          descriptions, closeness);
  return closeness;
}

std::optional<OutputCloseness> Closeness::worst() const {
  if (outputs.empty()) return std::nullopt;
  return *std::ranges::min_element(outputs, {}, &OutputCloseness::sqnr_db);
}

bool Closeness::is_far() const {
  const std::optional<OutputCloseness> output = worst();
  return output && (output->num_lost > 0 || output->sqnr_db < wanted_db);
}

bool Closeness::has_poor_samples() const {
  return (num_runs == 1 && num_equal_runs > 0) || (num_runs > 0 && num_constant_runs == num_runs);
}

}  // namespace bitpress::deploy
