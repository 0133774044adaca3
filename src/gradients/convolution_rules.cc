// The rules of Conv and ConvTranspose with one or two spatial dimensions: products of matrices for
// 1 x 1 kernels, im2col for others, and loops of their own for depthwise ones (depthwise.h). A
// ConvTranspose computes the gradient of a Conv's input, and its own gradients are that Conv and
// the gradient of its weights.
#include <algorithm>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/round_up.h"
#include "gradients/convolution_shape.h"
#include "gradients/depthwise.h"
#include "gradients/products.h"
#include "gradients/rules.h"
#include "kernels/row_products.h"

namespace bitpress::gradients {
namespace {

// Output positions of one task.
constexpr size_t kPositionsAtOnce = 1024;
// Input channels of one task of the weights' gradient.
constexpr size_t kChannelsAtOnce = 24;

// The sums of one convolution. Weights are [groups * outputs, inputs, taps], as Conv has them.
template <typename T>
class ConvolutionSums {
 public:
  ConvolutionSums(const ConvolutionShape& shape, ThreadPool& pool) : shape_(shape), pool_(pool) {}

  // Writes the outputs for inputs `x`. `bias` may be null.
  void Forward(const T* x, const T* all_weights, const T* bias, T* y) const {
    if constexpr (std::is_same_v<T, float>) {
      if (shape_.is_depthwise()) {
        return DepthwiseForward(shape_, x, all_weights, bias, y, pool_);
      }
    }
    const std::vector<Left<T>> weights = PackWeights(all_weights, /*is_turned=*/false);
    ForParts([&](size_t image, size_t group, size_t begin, size_t end) {
      std::vector<T> windows;
      const size_t count = end - begin;
      const T* const from = x + (image * shape_.groups + group) * shape_.inputs * plane();
      View<T> read{from + begin, plane(), 1};
      if (!shape_.is_pointwise()) {
        windows.resize(shape_.depth() * count);
        for (size_t k = 0; k < shape_.depth(); ++k) {
          ReadTap(shape_, from + k / shape_.num_taps() * plane(), k % shape_.num_taps(), begin, end,
                  windows.data() + k * count);
        }
        read = {windows.data(), count, 1};
      }
      T* const to = y + OutputOf(image, group) + begin;
      weights[group].Multiply(count, read, to, shape_.positions(), false);
      if (bias == nullptr) return;
      for (size_t i = 0; i < shape_.outputs; ++i) {
        const T add = bias[group * shape_.outputs + i];
        T* const row = to + i * shape_.positions();
        for (size_t j = 0; j < count; ++j) row[j] += add;
      }
    });
  }

  // Adds the gradients of the inputs and of the weights, for the outputs' gradient `g`. Null: they
  // are not wanted.
  void Backward(const T* x, const T* weights, const T* g, T* of_x, T* of_weights) const {
    if constexpr (std::is_same_v<T, float>) {
      if (shape_.is_depthwise()) {
        return DepthwiseBackward(shape_, x, weights, g, of_x, of_weights, pool_);
      }
    }
    if (of_x) AddInputGradient(weights, g, of_x);
    if (of_weights) AddWeightGradient(x, g, of_weights);
  }

 private:
  size_t plane() const { return shape_.input_plane(); }
  size_t OutputOf(size_t image, size_t group) const {
    return (image * shape_.groups + group) * shape_.outputs * shape_.positions();
  }

  // Calls run(image, group, begin, end) for parts of the output positions.
  template <typename Run>
  void ForParts(const Run& run) const {
    const size_t parts = (shape_.positions() + kPositionsAtOnce - 1) / kPositionsAtOnce;
    pool_.ParallelFor(shape_.images * shape_.groups * parts, [&](size_t task) {
      const size_t part = task % parts;
      const size_t group = task / parts % shape_.groups;
      run(task / parts / shape_.groups, group, part * kPositionsAtOnce,
          std::min(shape_.positions(), (part + 1) * kPositionsAtOnce));
    });
  }

  std::vector<Left<T>> PackWeights(const T* weights, bool is_turned) const {
    std::vector<Left<T>> packed(shape_.groups);
    for (size_t group = 0; group < shape_.groups; ++group) {
      const View<T> view{weights + group * shape_.outputs * shape_.depth(), shape_.depth(), 1};
      if (is_turned) {
        packed[group].Pack(shape_.depth(), shape_.outputs, view.Turned());
      } else {
        packed[group].Pack(shape_.outputs, shape_.depth(), view);
      }
    }
    return packed;
  }

  void AddInputGradient(const T* weights, const T* g, T* of_x) const {
    const std::vector<Left<T>> turned = PackWeights(weights, /*is_turned=*/true);
    if (shape_.is_pointwise()) {
      return ForParts([&](size_t image, size_t group, size_t begin, size_t end) {
        turned[group].Multiply(
            end - begin, {g + OutputOf(image, group) + begin, shape_.positions(), 1},
            of_x + (image * shape_.groups + group) * shape_.inputs * plane() + begin, plane(),
            true);
      });
    }
    // Windows overlap, so that one task takes all positions of an image.
    pool_.ParallelFor(shape_.images * shape_.groups, [&](size_t task) {
      const size_t image = task / shape_.groups;
      const size_t group = task % shape_.groups;
      T* const to = of_x + task * shape_.inputs * plane();
      std::vector<T> windows;
      for (size_t begin = 0; begin < shape_.positions(); begin += kPositionsAtOnce) {
        const size_t end = std::min(shape_.positions(), begin + kPositionsAtOnce);
        const size_t count = end - begin;
        windows.resize(shape_.depth() * count);
        turned[group].Multiply(count, {g + OutputOf(image, group) + begin, shape_.positions(), 1},
                               windows.data(), count, false);
        for (size_t k = 0; k < shape_.depth(); ++k) {
          AddTap(shape_, windows.data() + k * count, k % shape_.num_taps(), begin, end,
                 to + k / shape_.num_taps() * plane());
        }
      }
    });
  }

  // The sums run over the positions of all images, which lie along memory once they are gathered:
  // those of several images, or a part of one's.
  void AddWeightGradient(const T* x, const T* g, T* of_weights) const {
    constexpr size_t kMost = kernels::kMostRowProductLength - kernels::kRowProductStep;
    const size_t positions = shape_.positions();
    if (positions == 0) return;
    const size_t images_at_once = std::max<size_t>(1, kMost / positions);
    for (size_t first = 0; first < shape_.images; first += images_at_once) {
      const size_t num = std::min(images_at_once, shape_.images - first);
      for (size_t begin = 0; begin < positions; begin += kMost) {
        AddWeightGradientOf({first, num, begin, std::min(begin + kMost, positions)}, x, g,
                            of_weights);
      }
    }
  }

  // Positions [begin, end) of some images.
  struct Positions {
    size_t first_image, num_images;
    size_t begin, end;

    size_t of_image() const { return end - begin; }
    size_t length() const {
      return RoundUp(num_images * of_image(), size_t{kernels::kRowProductStep});
    }
  };

  void AddWeightGradientOf(const Positions& part, const T* x, const T* g, T* of_weights) const {
    const size_t length = part.length();
    std::vector<T> gathered(shape_.groups * shape_.outputs * length);
    pool_.ParallelFor(shape_.groups * shape_.outputs, [&](size_t channel) {
      for (size_t i = 0; i < part.num_images; ++i) {
        const size_t plane = (part.first_image + i) * shape_.groups * shape_.outputs + channel;
        std::copy_n(g + plane * shape_.positions() + part.begin, part.of_image(),
                    gathered.data() + channel * length + i * part.of_image());
      }
    });
    const size_t parts = CeilDivide(shape_.inputs, kChannelsAtOnce);
    pool_.ParallelFor(shape_.groups * parts, [&](size_t task) {
      const size_t group = task / parts;
      const size_t channel = task % parts * kChannelsAtOnce;
      const size_t rows = std::min(kChannelsAtOnce, shape_.inputs - channel) * shape_.num_taps();
      std::vector<T> windows(rows * length);
      for (size_t k = 0; k < rows; ++k) {
        for (size_t i = 0; i < part.num_images; ++i) {
          const T* const from =
              x + (((part.first_image + i) * shape_.groups + group) * shape_.inputs + channel +
                   k / shape_.num_taps()) *
                      plane();
          ReadTap(shape_, from, k % shape_.num_taps(), part.begin, part.end,
                  windows.data() + k * length + i * part.of_image());
        }
      }
      AddRows(gathered.data() + group * shape_.outputs * length, windows, length,
              of_weights + group * shape_.outputs * shape_.depth() + channel * shape_.num_taps());
    });
  }

  // Adds the products of the rows of g and of the windows to rows of the weights' gradient.
  void AddRows(const T* g, const std::vector<T>& windows, size_t length, T* out) const {
    const size_t rows = windows.size() / length;
    std::vector<double> sums(shape_.outputs * rows);
    if constexpr (std::is_same_v<T, float>) {
      kernels::AddRowProducts({g, shape_.outputs, length}, {windows.data(), rows, length}, length,
                              sums.data(), rows);
    } else {
      for (size_t i = 0; i < shape_.outputs; ++i) {
        for (size_t j = 0; j < rows; ++j) {
          for (size_t k = 0; k < length; ++k) {
            sums[i * rows + j] += g[i * length + k] * windows[j * length + k];
          }
        }
      }
    }
    for (size_t i = 0; i < shape_.outputs; ++i) {
      for (size_t j = 0; j < rows; ++j) {
        out[i * shape_.depth() + j] += static_cast<T>(sums[i * rows + j]);
      }
    }
  }

  const ConvolutionShape& shape_;
  ThreadPool& pool_;
};

// Adds the sums of all images' planes of a channel to its bias.
template <typename T>
void AddBiasGradient(const T* g, size_t images, size_t channels, size_t plane, T* of_bias,
                     ThreadPool& pool) {
  pool.ParallelFor(channels, [&](size_t channel) {
    T sum = 0;
    for (size_t image = 0; image < images; ++image) {
      const T* const row = g + (image * channels + channel) * plane;
      for (size_t j = 0; j < plane; ++j) sum += row[j];
    }
    of_bias[channel] += sum;
  });
}

template <typename T>
class ConvRule : public Rule<T> {
 public:
  using typename Rule<T>::Inputs;
  ConvRule(ConvolutionWindow window, ThreadPool& pool) : window_(std::move(window)), pool_(pool) {}

  void Forward(Inputs inputs, std::span<Array<T>* const> outputs) override {
    shape_ = ShapeOf(window_, inputs[0]->dims, inputs[1]->dims);
    std::vector<int64_t> dims = inputs[0]->dims;
    dims[1] = inputs[1]->dims[0];
    dims.back() = static_cast<int64_t>(shape_.out_width);
    if (dims.size() == 4) dims[2] = static_cast<int64_t>(shape_.out_height);
    outputs[0]->Reshape(dims);
    const T* const bias = inputs.size() > 2 && inputs[2] ? inputs[2]->data() : nullptr;
    ConvolutionSums<T>(shape_, pool_)
        .Forward(inputs[0]->data(), inputs[1]->data(), bias, outputs[0]->data());
  }

  void Backward(Inputs inputs, Inputs, Inputs output_gradients,
                std::span<Array<T>* const> gradients) override {
    const T* const g = output_gradients[0]->data();
    if (gradients.size() > 2 && gradients[2]) {
      AddBiasGradient(g, shape_.images, shape_.groups * shape_.outputs, shape_.positions(),
                      gradients[2]->data(), pool_);
    }
    ConvolutionSums<T>(shape_, pool_)
        .Backward(inputs[0]->data(), inputs[1]->data(), g,
                  gradients[0] ? gradients[0]->data() : nullptr,
                  gradients[1] ? gradients[1]->data() : nullptr);
  }

 private:
  ConvolutionWindow window_;
  ThreadPool& pool_;
  ConvolutionShape shape_;
};

template <typename T>
class ConvTransposeRule : public Rule<T> {
 public:
  using typename Rule<T>::Inputs;
  ConvTransposeRule(ConvolutionWindow window, std::vector<int64_t> output_padding, ThreadPool& pool)
      : window_(std::move(window)), output_padding_(std::move(output_padding)), pool_(pool) {}

  void Forward(Inputs inputs, std::span<Array<T>* const> outputs) override {
    const std::vector<int64_t> dims = OutputDims(inputs[0]->dims, inputs[1]->dims);
    shape_ = ShapeOf(window_, dims, inputs[1]->dims);
    const auto height = inputs[0]->dims.size() == 4 ? inputs[0]->dims[2] : 1;
    if (shape_.out_height != static_cast<size_t>(height) ||
        shape_.out_width != static_cast<size_t>(inputs[0]->dims.back())) {
      Fail(ErrorCode::kInvalidArgument, "a ConvTranspose of [{}] to [{}] does not fit",
           fmt::join(inputs[0]->dims, ", "), fmt::join(dims, ", "));
    }
    outputs[0]->Reshape(dims);
    T* const y = outputs[0]->data();
    std::fill_n(y, outputs[0]->size(), T{0});
    ConvolutionSums<T>(shape_, pool_)
        .Backward(nullptr, inputs[1]->data(), inputs[0]->data(), y, nullptr);
    if (inputs.size() < 3 || !inputs[2]) return;
    const size_t plane = shape_.input_plane();
    const size_t channels = shape_.groups * shape_.inputs;
    pool_.ParallelFor(shape_.images * channels, [&](size_t row) {
      const T add = inputs[2]->values[row % channels];
      for (size_t i = 0; i < plane; ++i) y[row * plane + i] += add;
    });
  }

  void Backward(Inputs inputs, Inputs, Inputs output_gradients,
                std::span<Array<T>* const> gradients) override {
    const T* const g = output_gradients[0]->data();
    const ConvolutionSums<T> sums(shape_, pool_);
    if (gradients.size() > 2 && gradients[2]) {
      AddBiasGradient(g, shape_.images, shape_.groups * shape_.inputs, shape_.input_plane(),
                      gradients[2]->data(), pool_);
    }
    if (gradients[1]) sums.Backward(g, nullptr, inputs[0]->data(), nullptr, gradients[1]->data());
    if (!gradients[0]) return;
    std::vector<T> of_x(gradients[0]->size());
    sums.Forward(g, inputs[1]->data(), nullptr, of_x.data());
    for (size_t i = 0; i < of_x.size(); ++i) gradients[0]->values[i] += of_x[i];
  }

 private:
  std::vector<int64_t> OutputDims(std::span<const int64_t> input,
                                  std::span<const int64_t> weight) const {
    if (weight.size() != input.size() || weight.size() < 3 || input[1] != weight[0]) {
      Fail(ErrorCode::kInvalidArgument, "a ConvTranspose of [{}] with [{}] does not fit",
           fmt::join(input, ", "), fmt::join(weight, ", "));
    }
    std::vector<int64_t> dims(input.begin(), input.end());
    dims[1] = weight[1] * window_.groups;
    const size_t rank = input.size() - 2;
    for (size_t i = 0; i < rank; ++i) {
      const size_t d = i + 2 - rank;
      const int64_t reach = (weight[i + 2] - 1) * window_.dilations[d] + 1;
      const int64_t more = i < output_padding_.size() ? output_padding_[i] : 0;
      dims[i + 2] = window_.strides[d] * (input[i + 2] - 1) + more + reach - window_.pads[d] -
                    window_.pads[d + 2];
    }
    return dims;
  }

  ConvolutionWindow window_;
  std::vector<int64_t> output_padding_;
  ThreadPool& pool_;
  ConvolutionShape shape_;  // of the Conv from the output to the input
};

}  // namespace

template <typename T>
RuleOf<T> MakeConvolution(const RuleNode& node) {
  const bool is_transposed = node.op_type() == "ConvTranspose";
  if (node.op_type() != "Conv" && !is_transposed) return nullptr;
  ConvolutionWindow window;
  window.groups = node.node.GetInt("group", 1);
  window.auto_pad = node.node.GetString("auto_pad", "NOTSET");
  const std::vector<int64_t> strides = node.node.GetInts("strides");
  const std::vector<int64_t> dilations = node.node.GetInts("dilations");
  const std::vector<int64_t> pads = node.node.GetInts("pads");
  const graph::ValueInfo weight = node.model.InfoOf(node.node.input(1));
  if (!weight.has_shape || weight.shape.size() < 3 || weight.shape.size() > 4) {
    node.Refuse(node.op_type() + " has no rule unless it has one or two spatial dimensions");
  }
  const size_t rank = weight.shape.size() - 2;
  for (size_t d = 0; d < rank; ++d) {
    const size_t to = d + 2 - rank;
    if (d < strides.size()) window.strides[to] = strides[d];
    if (d < dilations.size()) window.dilations[to] = dilations[d];
    if (d + rank < pads.size()) {
      window.pads[to] = pads[d];
      window.pads[to + 2] = pads[d + rank];
    }
  }
  if (std::ranges::any_of(window.pads, [](int64_t pad) { return pad < 0; })) {
    node.Refuse(node.op_type() + " with negative pads has no rule");
  }
  if (is_transposed) {
    // SAME and output_shape choose pads by the sizes of the output.
    if (window.auto_pad.starts_with("SAME") || !node.node.GetInts("output_shape").empty()) {
      node.Refuse("a ConvTranspose whose output has a given shape has no rule");
    }
    return std::make_unique<ConvTransposeRule<T>>(std::move(window),
                                                  node.node.GetInts("output_padding"), node.pool);
  }
  return std::make_unique<ConvRule<T>>(std::move(window), node.pool);
}
template RuleOf<float> MakeConvolution<float>(const RuleNode&);
template RuleOf<double> MakeConvolution<double>(const RuleNode&);

}  // namespace bitpress::gradients
