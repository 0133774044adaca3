// Rules of pooling: GlobalAveragePool, AveragePool and MaxPool with one or two spatial dimensions.
#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "gradients/convolution_shape.h"
#include "gradients/rules.h"

namespace bitpress::gradients {
namespace {

template <typename T>
class GlobalAverageRule : public Rule<T> {
 public:
  using typename Rule<T>::Inputs;
  void Forward(Inputs inputs, std::span<Array<T>* const> outputs) override {
    std::vector<int64_t> dims = inputs[0]->dims;
    if (dims.size() < 3) Fail(ErrorCode::kInvalidArgument, "there is nothing to pool");
    plane_ = static_cast<size_t>(Extent(dims, 2, dims.size()));
    std::fill(dims.begin() + 2, dims.end(), 1);
    outputs[0]->Reshape(dims);
    for (size_t i = 0; i < outputs[0]->size(); ++i) {
      T sum = 0;
      for (size_t j = 0; j < plane_; ++j) sum += inputs[0]->values[i * plane_ + j];
      outputs[0]->values[i] = sum / static_cast<T>(plane_);
    }
  }
  void Backward(Inputs, Inputs, Inputs output_gradients,
                std::span<Array<T>* const> gradients) override {
    if (gradients[0] == nullptr) return;
    for (size_t i = 0; i < output_gradients[0]->size(); ++i) {
      const T share = output_gradients[0]->values[i] / static_cast<T>(plane_);
      for (size_t j = 0; j < plane_; ++j) gradients[0]->values[i * plane_ + j] += share;
    }
  }

 private:
  size_t plane_ = 1;
};

// Windows of one plane, as a depthwise convolution has them. Padding counts as nothing, unless an
// average includes it.
template <typename T>
class WindowPoolRule : public Rule<T> {
 public:
  using typename Rule<T>::Inputs;
  WindowPoolRule(ConvolutionWindow window, bool is_max, bool includes_padding, ThreadPool& pool)
      : window_(std::move(window)),
        is_max_(is_max),
        includes_padding_(includes_padding),
        pool_(pool) {}

  void Forward(Inputs inputs, std::span<Array<T>* const> outputs) override {
    std::vector<int64_t> dims = inputs[0]->dims;
    if (dims.size() < 3 || dims.size() > 4) Fail(ErrorCode::kInvalidArgument, "no plane to pool");
    std::vector<int64_t> weight{dims[1], 1, window_.kernel[0], window_.kernel[1]};
    if (dims.size() == 3) weight.erase(weight.begin() + 2);
    window_.groups = dims[1];
    shape_ = ShapeOf(window_, dims, weight);
    if (dims.size() == 4) dims[2] = static_cast<int64_t>(shape_.out_height);
    dims.back() = static_cast<int64_t>(shape_.out_width);
    outputs[0]->Reshape(dims);
    chosen_.resize(is_max_ ? outputs[0]->size() : 0);
    ForPlanes([&](size_t from, size_t to) {
      PoolPlane(inputs[0]->data() + from, outputs[0]->data() + to,
                is_max_ ? chosen_.data() + to : nullptr);
    });
  }

  void Backward(Inputs, Inputs, Inputs output_gradients,
                std::span<Array<T>* const> gradients) override {
    if (gradients[0] == nullptr) return;
    ForPlanes([&](size_t from, size_t to) {
      T* const out = gradients[0]->data() + from;
      const T* const g = output_gradients[0]->data() + to;
      for (size_t i = 0; i < shape_.positions(); ++i) {
        if (is_max_) {
          out[chosen_[to + i]] += g[i];
          continue;
        }
        const T share = g[i] / Count(i);
        ForWindow(i, [&](size_t at) { out[at] += share; });
      }
    });
  }

 private:
  template <typename Run>
  void ForPlanes(const Run& run) const {
    pool_.ParallelFor(shape_.images * shape_.groups, [&](size_t plane) {
      run(plane * shape_.input_plane(), plane * shape_.positions());
    });
  }
  template <typename Run>
  void ForWindow(size_t position, const Run& run) const {
    const size_t row = position / shape_.out_width * shape_.strides[0];
    const size_t column = position % shape_.out_width * shape_.strides[1];
    for (size_t tap = 0; tap < shape_.num_taps(); ++tap) {
      const size_t y = row + tap / shape_.kernel[1] * shape_.dilations[0];
      const size_t x = column + tap % shape_.kernel[1] * shape_.dilations[1];
      if (y < shape_.pads[0] || x < shape_.pads[1]) continue;
      if (y - shape_.pads[0] >= shape_.height || x - shape_.pads[1] >= shape_.width) continue;
      run((y - shape_.pads[0]) * shape_.width + x - shape_.pads[1]);
    }
  }
  T Count(size_t position) const {
    if (includes_padding_) return static_cast<T>(shape_.num_taps());
    size_t count = 0;
    ForWindow(position, [&](size_t) { ++count; });
    return static_cast<T>(std::max<size_t>(count, 1));
  }
  void PoolPlane(const T* x, T* y, size_t* chosen) const {
    for (size_t i = 0; i < shape_.positions(); ++i) {
      if (is_max_) {
        T most = -std::numeric_limits<T>::infinity();
        ForWindow(i, [&](size_t at) {
          if (x[at] > most) {
            most = x[at];
            chosen[i] = at;
          }
        });
        y[i] = most;
      } else {
        T sum = 0;
        ForWindow(i, [&](size_t at) { sum += x[at]; });
        y[i] = sum / Count(i);
      }
    }
  }

  ConvolutionWindow window_;
  bool is_max_, includes_padding_;
  ThreadPool& pool_;
  ConvolutionShape shape_;
  std::vector<size_t> chosen_;  // the largest element of each window
};

}  // namespace

template <typename T>
RuleOf<T> MakePooling(const RuleNode& node) {
  const std::string& type = node.op_type();
  if (type == "GlobalAveragePool") return std::make_unique<GlobalAverageRule<T>>();
  if (type != "AveragePool" && type != "MaxPool") return nullptr;
  if (node.node.GetInt("ceil_mode", 0) != 0) node.Refuse(type + " with ceil_mode has no rule");
  if (node.node.num_outputs() > 1) node.Refuse(type + " with several outputs has no rule");
  const std::vector<int64_t> kernel = node.node.GetInts("kernel_shape");
  const std::vector<int64_t> strides = node.node.GetInts("strides");
  const std::vector<int64_t> dilations = node.node.GetInts("dilations");
  const std::vector<int64_t> pads = node.node.GetInts("pads");
  if (kernel.empty() || kernel.size() > 2) node.Refuse(type + " has no rule for such a kernel");
  ConvolutionWindow window;
  window.auto_pad = node.node.GetString("auto_pad", "NOTSET");
  const size_t rank = kernel.size();
  for (size_t d = 0; d < rank; ++d) {
    const size_t to = d + 2 - rank;
    window.kernel[to] = kernel[d];
    if (d < strides.size()) window.strides[to] = strides[d];
    if (d < dilations.size()) window.dilations[to] = dilations[d];
    if (d + rank < pads.size()) {
      window.pads[to] = pads[d];
      window.pads[to + 2] = pads[d + rank];
    }
  }
  return std::make_unique<WindowPoolRule<T>>(std::move(window), type == "MaxPool",
                                             node.node.GetInt("count_include_pad", 0) != 0,
                                             node.pool);
}
template RuleOf<float> MakePooling<float>(const RuleNode&);
template RuleOf<double> MakePooling<double>(const RuleNode&);

}  // namespace bitpress::gradients
