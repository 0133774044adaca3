#include "data/batch_builder.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace bitpress::data {

bool Batch::HasRows() const {
  return num_samples > 0 && std::ranges::all_of(inputs, [&](const Tensor& input) {
           return !input.dims.empty() && input.dims[0] == static_cast<int64_t>(num_samples);
         });
}

Batch Batch::Rows(size_t first, size_t count) const {
  BITPRESS_DCHECK(HasRows() && first + count <= num_samples);
  Batch rows{.inputs = {}, .labels = {}, .names = {}, .num_samples = count};
  for (const Tensor& input : inputs) {
    rows.inputs.push_back(CutRows(input, static_cast<int64_t>(first), static_cast<int64_t>(count)));
  }
  const auto cut = [&](const auto& all, auto& part) {
    if (all.empty()) return;
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(first);
    part.assign(begin, begin + static_cast<std::ptrdiff_t>(count));
  };
  cut(labels, rows.labels);
  cut(names, rows.names);
  return rows;
}

int64_t CommonRows(const std::vector<Tensor>& inputs) {
  BITPRESS_DCHECK(!inputs.empty());
  const int64_t rows = inputs[0].dims.empty() ? -1 : inputs[0].dims[0];
  for (const Tensor& input : inputs) {
    if (input.dims.empty() || input.dims[0] != rows) return -1;
    // Rows of packed elements that do not fill whole bytes cannot be cut and joined.
    const std::vector<int64_t> row_dims(input.dims.begin() + 1, input.dims.end());
    const uint64_t row_elements = static_cast<uint64_t>(NumElements(row_dims));
    if ((row_elements % 8) * ElementBits(input.type) % 8 != 0) return -1;
  }
  return rows;
}

Tensor CutRows(const Tensor& tensor, int64_t first, int64_t count) {
  BITPRESS_DCHECK(!tensor.dims.empty() && tensor.dims[0] > 0);
  BITPRESS_DCHECK(first >= 0 && count >= 0 && count <= tensor.dims[0] - first);
  const size_t row_bytes = tensor.bytes.size() / static_cast<size_t>(tensor.dims[0]);
  const auto begin =
      tensor.bytes.begin() + static_cast<std::ptrdiff_t>(row_bytes * static_cast<size_t>(first));
  Tensor rows{.type = tensor.type, .dims = tensor.dims, .bytes = {}};
  rows.dims[0] = count;
  rows.bytes.assign(begin,
                    begin + static_cast<std::ptrdiff_t>(row_bytes * static_cast<size_t>(count)));
  return rows;
}

bool IsConverted(DataType found, DataType wanted) {
  return found == DataType::kDouble && wanted == DataType::kFloat;
}

void ConvertTypes(std::span<const DataType> wanted, std::vector<Tensor>& inputs) {
  for (size_t i = 0; i < std::min(wanted.size(), inputs.size()); ++i) {
    if (!IsConverted(inputs[i].type, wanted[i])) continue;
    Tensor converted{.type = DataType::kFloat, .dims = inputs[i].dims, .bytes = {}};
    const std::span<const double> from = std::as_const(inputs[i]).values<double>();
    converted.bytes.resize(from.size() * sizeof(float));
    std::ranges::transform(from, converted.values<float>().begin(),
                           [](double value) { return static_cast<float>(value); });
    inputs[i] = std::move(converted);
  }
}

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
                          std::span<const int64_t> labels) {
  BITPRESS_DCHECK(Accepts(inputs));
  BITPRESS_DCHECK(labels.empty() || labels.size() == names.size());
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
  batch_.labels.insert(batch_.labels.end(), labels.begin(), labels.end());
}

Batch BatchBuilder::Take() { return std::exchange(batch_, {}); }

}  // namespace bitpress::data
