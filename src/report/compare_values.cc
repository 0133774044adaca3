#include "report/compare_values.h"

#include <algorithm>
#include <set>

#include "calibrate/sample_runs.h"
#include "evaluate/metrics.h"
#include "evaluate/outputs.h"
#include "graph/extract.h"
#include "runtime/describe_inputs.h"

namespace bitpress::report {
namespace {

// The part of a model that computes some of its values.
class PartialModel {
 public:
  PartialModel(const graph::Model& model, const std::set<std::string>& values, size_t num_threads)
      : session_(runtime::Session::FromModel(
            graph::Extract(model, {}, std::vector<std::string>(values.begin(), values.end())),
            {.num_threads = runtime::SessionThreads(num_threads)})) {
    const std::vector<std::string> names = model.InputNames();
    for (const runtime::ValueDescription& input : session_.inputs()) {
      inputs_.push_back(static_cast<size_t>(std::ranges::find(names, input.name) - names.begin()));
    }
  }

  // Computes the values. `inputs` are those of the model, in its order.
  void Run(const std::vector<Tensor>& inputs) {
    std::vector<Tensor> read;
    for (const size_t i : inputs_) read.push_back(inputs.at(i));
    results_ = session_.Run(read);
  }
  const Tensor& result(const std::string& value) const {
    const auto& outputs = session_.outputs();
    const auto found = std::ranges::find(outputs, value, &runtime::ValueDescription::name);
    return results_[static_cast<size_t>(found - outputs.begin())];
  }

 private:
  runtime::Session session_;
  std::vector<size_t> inputs_;
  std::vector<Tensor> results_;
};

// Returns how many pairs, at least one, are compared in one pass.
size_t GroupSize(std::span<const ValuePair> pairs, uint64_t most_elements) {
  uint64_t sum = 0;
  size_t count = 0;
  while (count < pairs.size()) {
    sum += 2 * pairs[count].num_elements;
    if (count > 0 && sum > most_elements) break;
    ++count;
  }
  return count;
}

}  // namespace

std::vector<std::optional<double>> CompareValues(const graph::Model& reference,
                                                 const graph::Model& quantized,
                                                 std::span<const ValuePair> pairs,
                                                 data::Source& source,
                                                 const CompareOptions& options) {
  std::vector<std::optional<double>> noises;
  const std::vector<runtime::ValueDescription> inputs = runtime::DescribeInputs(reference);
  while (!pairs.empty()) {
    const auto group = pairs.first(GroupSize(pairs, options.most_elements));
    pairs = pairs.subspan(group.size());
    std::set<std::string> wanted, found;
    for (const ValuePair& pair : group) {
      wanted.insert(pair.reference);
      found.insert(pair.quantized);
    }
    PartialModel float_part(reference, wanted, options.num_threads);
    PartialModel quantized_part(quantized, found, options.num_threads);
    std::vector<std::optional<evaluate::OutputComparison>> comparisons(
        group.size(), evaluate::OutputComparison());
    constexpr size_t kReadAtOnce = 8;
    calibrate::RunSamples(
        source, inputs, kReadAtOnce,
        [&](const std::vector<Tensor>& sample, size_t) {
          float_part.Run(sample);
          quantized_part.Run(sample);
          for (size_t i = 0; i < group.size(); ++i) {
            if (!comparisons[i]) continue;
            const evaluate::Output a = evaluate::ToOutput(float_part.result(group[i].reference));
            const evaluate::Output b =
                evaluate::ToOutput(quantized_part.result(group[i].quantized));
            if (a.dims != b.dims || a.values.size() != b.values.size()) {
              comparisons[i].reset();
            } else {
              comparisons[i]->Add(a.values, b.values);
            }
          }
        },
        "compare layers", options.progress);
    for (const auto& comparison : comparisons) {
      const bool is_known = comparison && comparison->num_values() > 0;
      noises.push_back(is_known ? std::optional(comparison->NoiseRatio()) : std::nullopt);
    }
  }
  return noises;
}

}  // namespace bitpress::report
