#include "data/batch_builder.h"

#include <algorithm>
#include <utility>

namespace bitpress::data {

bool BatchBuilder::Accepts(const std::vector<Tensor>& inputs) const {
  if (batch_.num_samples == 0) return true;
  return std::equal(inputs.begin(), inputs.end(), batch_.inputs.begin(), batch_.inputs.end(),
                    [](const Tensor& a, const Tensor& b) {
                      return a.type == b.type && !a.dims.empty() && !b.dims.empty() &&
                             std::equal(a.dims.begin() + 1, a.dims.end(), b.dims.begin() + 1,
                                        b.dims.end());
                    });
}

void BatchBuilder::Append(std::vector<Tensor> inputs, const std::vector<std::string>& names,
                          std::optional<int64_t> label) {
  if (batch_.num_samples == 0) {
    batch_.inputs = std::move(inputs);
  } else {
    for (size_t i = 0; i < inputs.size(); ++i) {
      Tensor& target = batch_.inputs[i];
      target.dims[0] += inputs[i].dims[0];
      target.bytes.insert(target.bytes.end(), inputs[i].bytes.begin(), inputs[i].bytes.end());
    }
  }
  batch_.num_samples += names.size();
  batch_.names.insert(batch_.names.end(), names.begin(), names.end());
  if (label) batch_.labels.push_back(*label);
}

Batch BatchBuilder::Take() { return std::exchange(batch_, {}); }

}  // namespace bitpress::data
