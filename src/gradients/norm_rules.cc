// Rules of functions that take a row of values together: Softmax, LayerNormalization,
// RMSNormalization, SimplifiedLayerNormalization, InstanceNormalization, ReduceMean, ReduceSum.
#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "gradients/rules.h"

namespace bitpress::gradients {
namespace {

template <typename T>
class SoftmaxRule : public Rule<T> {
 public:
  using typename Rule<T>::Inputs;
  SoftmaxRule(int64_t axis, ThreadPool& pool) : axis_(axis), pool_(pool) {}

  void Forward(Inputs inputs, std::span<Array<T>* const> outputs) override {
    const std::vector<int64_t>& dims = inputs[0]->dims;
    const size_t axis = AxisOf(axis_, dims.size());
    length_ = static_cast<size_t>(dims[axis]);
    inner_ = static_cast<size_t>(Extent(dims, axis + 1, dims.size()));
    outputs[0]->Reshape(dims);
    const T* const x = inputs[0]->data();
    T* const y = outputs[0]->data();
    ForRows(inputs[0]->size(), [&](size_t at) {
      T most = x[at];
      for (size_t i = 0; i < length_; ++i) most = std::max(most, x[at + i * inner_]);
      T sum = 0;
      for (size_t i = 0; i < length_; ++i) {
        sum += y[at + i * inner_] = std::exp(x[at + i * inner_] - most);
      }
      for (size_t i = 0; i < length_; ++i) y[at + i * inner_] /= sum;
    });
  }

  void Backward(Inputs, Inputs outputs, Inputs output_gradients,
                std::span<Array<T>* const> gradients) override {
    if (gradients[0] == nullptr) return;
    const T* const y = outputs[0]->data();
    const T* const g = output_gradients[0]->data();
    T* const out = gradients[0]->data();
    ForRows(outputs[0]->size(), [&](size_t at) {
      T sum = 0;
      for (size_t i = 0; i < length_; ++i) sum += g[at + i * inner_] * y[at + i * inner_];
      for (size_t i = 0; i < length_; ++i) {
        out[at + i * inner_] += y[at + i * inner_] * (g[at + i * inner_] - sum);
      }
    });
  }

 private:
  template <typename Run>
  void ForRows(size_t count, const Run& run) const {
    if (count == 0) return;
    const size_t size = length_ * inner_;
    pool_.ParallelFor(count / size, [&](size_t outer) {
      for (size_t i = 0; i < inner_; ++i) run(outer * size + i);
    });
  }
  int64_t axis_;
  ThreadPool& pool_;
  size_t length_ = 1, inner_ = 1;
};

// Rows are divided by their deviation, or by the root of their mean square. What follows is a
// factor and perhaps a bias for each element of a row.
template <typename T>
class RowNormRule : public Rule<T> {
 public:
  using typename Rule<T>::Inputs;
  RowNormRule(int64_t axis, float epsilon, bool is_centred, ThreadPool& pool)
      : axis_(axis), epsilon_(static_cast<T>(epsilon)), is_centred_(is_centred), pool_(pool) {}

  void Forward(Inputs inputs, std::span<Array<T>* const> outputs) override {
    const std::vector<int64_t>& dims = inputs[0]->dims;
    length_ = static_cast<size_t>(Extent(dims, AxisOf(axis_, dims.size()), dims.size()));
    rows_ = inputs[0]->size() / std::max<size_t>(length_, 1);
    if (inputs[1]->size() != length_) {
      Fail(ErrorCode::kInvalidArgument, "{} factors do not fit rows of {}", inputs[1]->size(),
           length_);
    }
    outputs[0]->Reshape(dims);
    normed_.resize(inputs[0]->size());
    factors_.resize(rows_);
    const T* const scale = inputs[1]->data();
    const T* const bias = inputs.size() > 2 && inputs[2] ? inputs[2]->data() : nullptr;
    pool_.ParallelFor(rows_, [&](size_t row) {
      const T* const x = inputs[0]->data() + row * length_;
      T* const y = outputs[0]->data() + row * length_;
      T* const normed = normed_.data() + row * length_;
      const T count = static_cast<T>(length_);
      T mean = 0;
      for (size_t i = 0; is_centred_ && i < length_; ++i) mean += x[i] / count;
      T square = 0;
      for (size_t i = 0; i < length_; ++i) square += (x[i] - mean) * (x[i] - mean) / count;
      factors_[row] = 1 / std::sqrt(square + epsilon_);
      for (size_t i = 0; i < length_; ++i) {
        normed[i] = (x[i] - mean) * factors_[row];
        y[i] = normed[i] * scale[i] + (bias ? bias[i] : T{0});
      }
    });
  }

  void Backward(Inputs inputs, Inputs, Inputs output_gradients,
                std::span<Array<T>* const> gradients) override {
    const T* const g = output_gradients[0]->data();
    if (gradients[0] != nullptr) AddInputGradient(inputs[1]->data(), g, gradients[0]->data());
    for (size_t row = 0; row < rows_; ++row) {
      const T* const of_row = g + row * length_;
      const T* const normed = normed_.data() + row * length_;
      for (size_t i = 0; gradients[1] != nullptr && i < length_; ++i) {
        gradients[1]->values[i] += of_row[i] * normed[i];
      }
      for (size_t i = 0; gradients.size() > 2 && gradients[2] != nullptr && i < length_; ++i) {
        gradients[2]->values[i] += of_row[i];
      }
    }
  }

 private:
  void AddInputGradient(const T* scale, const T* g, T* out) const {
    pool_.ParallelFor(rows_, [&](size_t row) {
      const size_t at = row * length_;
      const T count = static_cast<T>(length_);
      T mean = 0;
      T along = 0;
      for (size_t i = 0; i < length_; ++i) {
        const T of_normed = g[at + i] * scale[i];
        if (is_centred_) mean += of_normed / count;
        along += of_normed * normed_[at + i] / count;
      }
      for (size_t i = 0; i < length_; ++i) {
        out[at + i] += factors_[row] * (g[at + i] * scale[i] - mean - normed_[at + i] * along);
      }
    });
  }

  int64_t axis_;
  T epsilon_;
  bool is_centred_;
  ThreadPool& pool_;
  size_t length_ = 1, rows_ = 0;
  std::vector<T> normed_, factors_;
};

// The planes of images are rows of a norm with one factor and one bias for each channel.
template <typename T>
class InstanceNormRule : public Rule<T> {
 public:
  using typename Rule<T>::Inputs;
  InstanceNormRule(float epsilon, ThreadPool& pool)
      : epsilon_(static_cast<T>(epsilon)), pool_(pool) {}

  void Forward(Inputs inputs, std::span<Array<T>* const> outputs) override {
    const std::vector<int64_t>& dims = inputs[0]->dims;
    if (dims.size() < 3 || inputs[1]->size() != static_cast<size_t>(dims[1]) ||
        inputs[2]->size() != inputs[1]->size()) {
      Fail(ErrorCode::kInvalidArgument, "{} factors do not fit [{}]", inputs[1]->size(),
           fmt::join(dims, ", "));
    }
    channels_ = static_cast<size_t>(dims[1]);
    plane_ = static_cast<size_t>(Extent(dims, 2, dims.size()));
    outputs[0]->Reshape(dims);
    normed_.resize(inputs[0]->size());
    factors_.resize(static_cast<size_t>(dims[0]) * channels_);
    pool_.ParallelFor(factors_.size(), [&](size_t row) {
      const T* const x = inputs[0]->data() + row * plane_;
      T* const y = outputs[0]->data() + row * plane_;
      T* const normed = normed_.data() + row * plane_;
      const T count = static_cast<T>(plane_);
      T mean = 0;
      for (size_t i = 0; i < plane_; ++i) mean += x[i] / count;
      T square = 0;
      for (size_t i = 0; i < plane_; ++i) square += (x[i] - mean) * (x[i] - mean) / count;
      factors_[row] = 1 / std::sqrt(square + epsilon_);
      const T scale = inputs[1]->values[row % channels_];
      const T bias = inputs[2]->values[row % channels_];
      for (size_t i = 0; i < plane_; ++i) {
        normed[i] = (x[i] - mean) * factors_[row];
        y[i] = normed[i] * scale + bias;
      }
    });
  }

  void Backward(Inputs inputs, Inputs, Inputs output_gradients,
                std::span<Array<T>* const> gradients) override {
    const T* const g = output_gradients[0]->data();
    std::vector<T> sums(factors_.size()), along(factors_.size());
    pool_.ParallelFor(factors_.size(), [&](size_t row) {
      const T* const of_row = g + row * plane_;
      const T* const normed = normed_.data() + row * plane_;
      for (size_t i = 0; i < plane_; ++i) {
        sums[row] += of_row[i];
        along[row] += of_row[i] * normed[i];
      }
      if (gradients[0] == nullptr) return;
      const T factor = factors_[row] * inputs[1]->values[row % channels_];
      const T count = static_cast<T>(plane_);
      T* const out = gradients[0]->data() + row * plane_;
      for (size_t i = 0; i < plane_; ++i) {
        out[i] += factor * (of_row[i] - sums[row] / count - normed[i] * along[row] / count);
      }
    });
    for (size_t row = 0; row < factors_.size(); ++row) {
      if (gradients[1]) gradients[1]->values[row % channels_] += along[row];
      if (gradients[2]) gradients[2]->values[row % channels_] += sums[row];
    }
  }

 private:
  T epsilon_;
  ThreadPool& pool_;
  size_t channels_ = 1, plane_ = 1;
  std::vector<T> normed_, factors_;  // of the planes
};

// Means or sums along axes.
template <typename T>
class ReduceRule : public Rule<T> {
 public:
  using typename Rule<T>::Inputs;
  ReduceRule(std::optional<std::vector<int64_t>> axes, bool keeps, bool is_mean)
      : axes_(std::move(axes)), keeps_(keeps), is_mean_(is_mean) {}

  void Forward(Inputs inputs, std::span<Array<T>* const> outputs) override {
    const std::vector<int64_t>& dims = inputs[0]->dims;
    const size_t rank = dims.size();
    std::vector<bool> is_reduced(rank, !axes_ || axes_->empty());
    for (const int64_t axis : axes_.value_or(std::vector<int64_t>{})) {
      is_reduced[AxisOf(axis, rank)] = true;
    }
    std::vector<int64_t> left;
    strides_.assign(rank, 0);
    int64_t stride = 1;
    int64_t count = 1;
    for (size_t d = rank; d-- > 0;) {
      if (is_reduced[d]) {
        count *= dims[d];
        if (keeps_) left.insert(left.begin(), 1);
      } else {
        strides_[d] = stride;
        stride *= dims[d];
        left.insert(left.begin(), dims[d]);
      }
    }
    factor_ = is_mean_ ? 1 / static_cast<T>(count) : T{1};
    outputs[0]->Reshape(left);
    std::ranges::fill(outputs[0]->values, T{0});
    ForElements(dims, [&](size_t from, size_t to) {
      outputs[0]->values[to] += inputs[0]->values[from] * factor_;
    });
  }

  void Backward(Inputs inputs, Inputs, Inputs output_gradients,
                std::span<Array<T>* const> gradients) override {
    if (gradients[0] == nullptr) return;
    ForElements(inputs[0]->dims, [&](size_t from, size_t to) {
      gradients[0]->values[from] += output_gradients[0]->values[to] * factor_;
    });
  }

 private:
  template <typename Run>
  void ForElements(std::span<const int64_t> dims, const Run& run) const {
    std::vector<int64_t> index(dims.size());
    const auto count = static_cast<size_t>(NumElements(dims));
    int64_t to = 0;
    for (size_t from = 0; from < count; ++from) {
      run(from, static_cast<size_t>(to));
      for (size_t d = dims.size(); d-- > 0;) {
        to += strides_[d];
        if (++index[d] < dims[d]) break;
        to -= dims[d] * strides_[d];
        index[d] = 0;
      }
    }
  }
  std::optional<std::vector<int64_t>> axes_;
  bool keeps_, is_mean_;
  T factor_ = 1;
  std::vector<int64_t> strides_;  // of the output along each dimension of the input
};

}  // namespace

template <typename T>
RuleOf<T> MakeNorm(const RuleNode& node) {
  const std::string& type = node.op_type();
  if (type == "Softmax") {
    const auto opsets = node.model.OpsetImports();
    const auto standard = opsets.find("");
    if (standard == opsets.end() || standard->second < graph::kFirstOpsetWithOneAxis) {
      node.Refuse("Softmax before operator set 13 has no rule");
    }
    return std::make_unique<SoftmaxRule<T>>(node.node.GetInt("axis", -1), node.pool);
  }
  if (type == "LayerNormalization" || type == "RMSNormalization" ||
      type == "SimplifiedLayerNormalization") {
    if (node.node.num_outputs() > 1 && !node.node.output(1).empty()) {
      node.Refuse(type + " with several outputs has no rule");
    }
    return std::make_unique<RowNormRule<T>>(node.node.GetInt("axis", -1),
                                            node.node.GetFloat("epsilon", 1e-5F),
                                            type == "LayerNormalization", node.pool);
  }
  if (type == "InstanceNormalization") {
    return std::make_unique<InstanceNormRule<T>>(node.node.GetFloat("epsilon", 1e-5F), node.pool);
  }
  if (type == "ReduceMean" || type == "ReduceSum") {
    if (node.node.GetInt("noop_with_empty_axes", 0) != 0) node.Refuse("it may reduce nothing");
    return std::make_unique<ReduceRule<T>>(
        node.Ints(1, "axes"), node.node.GetInt("keepdims", 1) != 0, type == "ReduceMean");
  }
  return nullptr;
}
template RuleOf<float> MakeNorm<float>(const RuleNode&);
template RuleOf<double> MakeNorm<double>(const RuleNode&);

}  // namespace bitpress::gradients
