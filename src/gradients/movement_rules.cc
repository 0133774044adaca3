// Rules of operators that move values and compute nothing: reshapes, Transpose, Concat, Slice,
// Split, Gather of constant indices, Pad with zeros, Resize to the nearest element.
#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "gradients/rules.h"

namespace bitpress::gradients {
namespace {

// The output has the input's elements in their order. `shape` gives its dimensions.
template <typename T, typename Shape>
class ReshapeRule : public Rule<T> {
 public:
  using typename Rule<T>::Inputs;
  explicit ReshapeRule(Shape shape) : shape_(std::move(shape)) {}
  void Forward(Inputs inputs, std::span<Array<T>* const> outputs) override {
    const std::vector<int64_t> dims = shape_(inputs[0]->dims);
    if (NumElements(dims) != static_cast<int64_t>(inputs[0]->size())) {
      Fail(ErrorCode::kInvalidArgument, "[{}] does not become [{}]",
           fmt::join(inputs[0]->dims, ", "), fmt::join(dims, ", "));
    }
    outputs[0]->Reshape(dims);
    outputs[0]->values = inputs[0]->values;
  }
  void Backward(Inputs, Inputs, Inputs output_gradients,
                std::span<Array<T>* const> gradients) override {
    if (gradients[0] == nullptr) return;
    for (size_t i = 0; i < gradients[0]->size(); ++i) {
      gradients[0]->values[i] += output_gradients[0]->values[i];
    }
  }

 private:
  Shape shape_;
};
template <typename T, typename Shape>
RuleOf<T> MakeReshape(Shape shape) {
  return std::make_unique<ReshapeRule<T, Shape>>(std::move(shape));
}

// Each element of output k is an element of input `source` of the node. Subclasses say which.
template <typename T>
class MoveRule : public Rule<T> {
 public:
  using typename Rule<T>::Inputs;
  // The output takes elements of one input; element i of the output reads index[i], nothing if that
  // is -1. Indices are computed once for a shape.
  struct Move {
    std::vector<int64_t> dims;
    std::vector<int64_t> index;
  };
  // Returns the move from an input to an output.
  virtual Move MoveOf(std::span<const int64_t> input, size_t output) const = 0;

  void Forward(Inputs inputs, std::span<Array<T>* const> outputs) override {
    if (moves_.size() != outputs.size() || input_ != inputs[0]->dims) {
      input_ = inputs[0]->dims;
      moves_.clear();
      for (size_t k = 0; k < outputs.size(); ++k) moves_.push_back(MoveOf(input_, k));
    }
    for (size_t k = 0; k < outputs.size(); ++k) {
      outputs[k]->Reshape(moves_[k].dims);
      for (size_t i = 0; i < moves_[k].index.size(); ++i) {
        const int64_t from = moves_[k].index[i];
        outputs[k]->values[i] = from < 0 ? T{0} : inputs[0]->values[static_cast<size_t>(from)];
      }
    }
  }
  void Backward(Inputs, Inputs, Inputs output_gradients,
                std::span<Array<T>* const> gradients) override {
    if (gradients[0] == nullptr) return;
    for (size_t k = 0; k < output_gradients.size(); ++k) {
      if (output_gradients[k] == nullptr) continue;
      for (size_t i = 0; i < moves_[k].index.size(); ++i) {
        const int64_t from = moves_[k].index[i];
        if (from < 0) continue;
        gradients[0]->values[static_cast<size_t>(from)] += output_gradients[k]->values[i];
      }
    }
  }

 protected:
  // Returns the move whose output element at `index` reads the input element whose index along each
  // dimension `from` gives; nothing where it gives a negative one.
  template <typename From>
  static Move Make(std::span<const int64_t> input, std::vector<int64_t> dims, const From& from) {
    Move move{std::move(dims), {}};
    move.index.resize(static_cast<size_t>(NumElements(move.dims)));
    std::vector<int64_t> index(move.dims.size());
    std::vector<int64_t> at(input.size());
    for (int64_t& element : move.index) {
      from(index, at);
      element = 0;
      for (size_t d = 0; d < input.size() && element >= 0; ++d) {
        element = at[d] < 0 || at[d] >= input[d] ? -1 : element * input[d] + at[d];
      }
      for (size_t d = move.dims.size(); d-- > 0;) {
        if (++index[d] < move.dims[d]) break;
        index[d] = 0;
      }
    }
    return move;
  }

 private:
  std::vector<int64_t> input_;
  std::vector<Move> moves_;
};

template <typename T>
class TransposeRule : public MoveRule<T> {
 public:
  explicit TransposeRule(std::vector<int64_t> order) : order_(std::move(order)) {}
  typename MoveRule<T>::Move MoveOf(std::span<const int64_t> input, size_t) const override {
    std::vector<int64_t> order = order_;
    if (order.empty()) {
      order.resize(input.size());
      std::iota(order.rbegin(), order.rend(), 0);
    }
    if (order.size() != input.size()) Fail(ErrorCode::kInvalidArgument, "perm does not fit");
    std::vector<int64_t> dims;
    for (const int64_t d : order) dims.push_back(input[static_cast<size_t>(d)]);
    return this->Make(input, dims, [&](const auto& index, auto& at) {
      for (size_t d = 0; d < order.size(); ++d) at[static_cast<size_t>(order[d])] = index[d];
    });
  }

 private:
  std::vector<int64_t> order_;
};

template <typename T>
class SliceRule : public MoveRule<T> {
 public:
  SliceRule(std::vector<int64_t> starts, std::vector<int64_t> ends, std::vector<int64_t> axes,
            std::vector<int64_t> steps)
      : starts_(std::move(starts)),
        ends_(std::move(ends)),
        axes_(std::move(axes)),
        steps_(std::move(steps)) {}
  typename MoveRule<T>::Move MoveOf(std::span<const int64_t> input, size_t) const override {
    std::vector<int64_t> dims(input.begin(), input.end());
    std::vector<int64_t> first(input.size(), 0), step(input.size(), 1);
    for (size_t i = 0; i < starts_.size(); ++i) {
      const size_t axis = AxisOf(axes_.empty() ? static_cast<int64_t>(i) : axes_[i], input.size());
      const int64_t size = input[axis];
      step[axis] = steps_.empty() ? 1 : steps_[i];
      const bool is_back = step[axis] < 0;
      const auto limited = [&](int64_t at) {
        return std::clamp<int64_t>(at < 0 ? at + size : at, is_back ? -1 : 0,
                                   is_back ? size - 1 : size);
      };
      first[axis] = limited(starts_[i]);
      const int64_t end = is_back && ends_[i] < -size ? -1 : limited(ends_[i]);
      const int64_t length = is_back ? first[axis] - end : end - first[axis];
      const int64_t stride = std::abs(step[axis]);
      dims[axis] = std::max<int64_t>(0, (length + stride - 1) / stride);
    }
    return this->Make(input, dims, [&](const auto& index, auto& at) {
      for (size_t d = 0; d < at.size(); ++d) at[d] = first[d] + index[d] * step[d];
    });
  }

 private:
  std::vector<int64_t> starts_, ends_, axes_, steps_;
};

template <typename T>
class SplitRule : public MoveRule<T> {
 public:
  SplitRule(int64_t axis, std::vector<int64_t> sizes, size_t num)
      : axis_(axis), sizes_(std::move(sizes)), num_(num) {}
  typename MoveRule<T>::Move MoveOf(std::span<const int64_t> input, size_t output) const override {
    const size_t axis = AxisOf(axis_, input.size());
    const auto count = static_cast<int64_t>(num_);
    const int64_t equal = (input[axis] + count - 1) / count;
    int64_t first = 0;
    for (size_t k = 0; k < output; ++k) first += sizes_.empty() ? equal : sizes_[k];
    std::vector<int64_t> dims(input.begin(), input.end());
    dims[axis] = sizes_.empty() ? std::min(equal, input[axis] - first) : sizes_[output];
    return this->Make(input, dims, [&](const auto& index, auto& at) {
      at = index;
      at[axis] += first;
    });
  }

 private:
  int64_t axis_;
  std::vector<int64_t> sizes_;
  size_t num_;
};

// Gather of constant indices.
template <typename T>
class GatherRule : public MoveRule<T> {
 public:
  GatherRule(int64_t axis, std::vector<int64_t> index_dims, std::vector<int64_t> indices)
      : axis_(axis), index_dims_(std::move(index_dims)), indices_(std::move(indices)) {}
  typename MoveRule<T>::Move MoveOf(std::span<const int64_t> input, size_t) const override {
    const size_t axis = AxisOf(axis_, input.size());
    for (const int64_t index : indices_) {
      if (index >= -input[axis] && index < input[axis]) continue;
      Fail(ErrorCode::kInvalidArgument, "index {} is none of {} elements", index, input[axis]);
    }
    std::vector<int64_t> dims(input.begin(), input.begin() + static_cast<int64_t>(axis));
    dims.insert(dims.end(), index_dims_.begin(), index_dims_.end());
    dims.insert(dims.end(), input.begin() + static_cast<int64_t>(axis) + 1, input.end());
    return this->Make(input, dims, [&](const auto& index, auto& at) {
      size_t place = 0;
      for (size_t d = 0; d < index_dims_.size(); ++d) {
        place = place * static_cast<size_t>(index_dims_[d]) + static_cast<size_t>(index[axis + d]);
      }
      for (size_t d = 0; d < axis; ++d) at[d] = index[d];
      at[axis] = indices_[place] < 0 ? indices_[place] + input[axis] : indices_[place];
      for (size_t d = axis + 1; d < at.size(); ++d) at[d] = index[d + index_dims_.size() - 1];
    });
  }

 private:
  int64_t axis_;
  std::vector<int64_t> index_dims_, indices_;
};

template <typename T>
class PadRule : public MoveRule<T> {
 public:
  explicit PadRule(std::vector<int64_t> pads) : pads_(std::move(pads)) {}
  typename MoveRule<T>::Move MoveOf(std::span<const int64_t> input, size_t) const override {
    if (pads_.size() != 2 * input.size()) Fail(ErrorCode::kInvalidArgument, "pads do not fit");
    std::vector<int64_t> dims(input.begin(), input.end());
    for (size_t d = 0; d < dims.size(); ++d) dims[d] += pads_[d] + pads_[d + dims.size()];
    return this->Make(input, dims, [&](const auto& index, auto& at) {
      for (size_t d = 0; d < at.size(); ++d) at[d] = index[d] - pads_[d];
    });
  }

 private:
  std::vector<int64_t> pads_;
};

// Resize by whole factors, where element i of the output is element i / factor of the input.
template <typename T>
class NearestRule : public MoveRule<T> {
 public:
  explicit NearestRule(std::vector<int64_t> factors) : factors_(std::move(factors)) {}
  typename MoveRule<T>::Move MoveOf(std::span<const int64_t> input, size_t) const override {
    if (factors_.size() != input.size()) Fail(ErrorCode::kInvalidArgument, "scales do not fit");
    std::vector<int64_t> dims(input.begin(), input.end());
    for (size_t d = 0; d < dims.size(); ++d) dims[d] *= factors_[d];
    return this->Make(input, dims, [&](const auto& index, auto& at) {
      for (size_t d = 0; d < at.size(); ++d) at[d] = index[d] / factors_[d];
    });
  }

 private:
  std::vector<int64_t> factors_;
};

template <typename T>
class ConcatRule : public Rule<T> {
 public:
  using typename Rule<T>::Inputs;
  explicit ConcatRule(int64_t axis) : axis_(axis) {}
  void Forward(Inputs inputs, std::span<Array<T>* const> outputs) override {
    std::vector<int64_t> dims = inputs[0]->dims;
    const size_t axis = AxisOf(axis_, dims.size());
    dims[axis] = 0;
    for (const Array<T>* input : inputs) dims[axis] += input->dims[axis];
    outer_ = static_cast<size_t>(Extent(dims, 0, axis));
    outputs[0]->Reshape(dims);
    Walk(inputs, outputs[0]->size(), [&](size_t i, size_t from, size_t to, size_t length) {
      std::copy_n(inputs[i]->data() + from, length, outputs[0]->data() + to);
    });
  }
  void Backward(Inputs inputs, Inputs, Inputs output_gradients,
                std::span<Array<T>* const> gradients) override {
    Walk(inputs, output_gradients[0]->size(), [&](size_t i, size_t from, size_t to, size_t length) {
      if (gradients[i] == nullptr) return;
      for (size_t k = 0; k < length; ++k) {
        gradients[i]->values[from + k] += output_gradients[0]->values[to + k];
      }
    });
  }

 private:
  template <typename Run>
  void Walk(Inputs inputs, size_t size, const Run& run) const {
    if (outer_ == 0 || size == 0) return;
    size_t begin = 0;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const size_t length = inputs[i]->size() / outer_;
      for (size_t outer = 0; outer < outer_; ++outer) {
        run(i, outer * length, outer * (size / outer_) + begin, length);
      }
      begin += length;
    }
  }
  int64_t axis_;
  size_t outer_ = 1;
};

template <typename T>
RuleOf<T> MakeResize(const RuleNode& node) {
  const std::string mode = node.node.GetString("coordinate_transformation_mode", "half_pixel");
  const std::string nearest = node.node.GetString("nearest_mode", "round_prefer_floor");
  const bool is_plain = (mode == "asymmetric" && nearest == "floor") ||
                        (mode == "half_pixel" && nearest == "round_prefer_floor");
  if (node.node.GetString("mode", "nearest") != "nearest" || !is_plain || !node.HasInput(2) ||
      !node.model.IsInitializer(node.node.input(2)) || node.node.HasAttribute("axes")) {
    node.Refuse("only Resize to the nearest element by constant whole factors has a rule");
  }
  std::vector<int64_t> factors;
  for (const float scale : node.model.Initializer(node.node.input(2)).values<float>()) {
    factors.push_back(static_cast<int64_t>(scale));
    if (static_cast<float>(factors.back()) != scale || scale < 1) {
      node.Refuse("only Resize by whole factors has a rule");
    }
  }
  if (factors.empty()) node.Refuse("Resize to given sizes has no rule");
  return std::make_unique<NearestRule<T>>(std::move(factors));
}

template <typename T>
RuleOf<T> MakeReshapes(const RuleNode& node) {
  const std::string& type = node.op_type();
  using Dims = std::vector<int64_t>;
  if (type == "Identity" || (type == "Dropout" && node.node.num_outputs() == 1)) {
    return MakeReshape<T>([](const Dims& dims) { return dims; });
  }
  if (type == "Flatten") {
    return MakeReshape<T>([axis = node.node.GetInt("axis", 1)](const Dims& dims) {
      const size_t at =
          axis == static_cast<int64_t>(dims.size()) ? dims.size() : AxisOf(axis, dims.size());
      return Dims{Extent(dims, 0, at), Extent(dims, at, dims.size())};
    });
  }
  if (type == "Reshape") {
    const auto shape = node.Ints(1, "shape");
    if (!shape || node.node.GetInt("allowzero", 0) != 0) node.Refuse("Reshape has no shape");
    return MakeReshape<T>([wanted = *shape](const Dims& dims) {
      Dims found = wanted;
      int64_t known = 1;
      for (size_t d = 0; d < found.size(); ++d) {
        if (found[d] == 0 && d < dims.size()) found[d] = dims[d];
        if (found[d] >= 0) known *= found[d];
      }
      for (int64_t& dim : found) {
        if (dim < 0) dim = known == 0 ? 0 : NumElements(dims) / known;
      }
      return found;
    });
  }
  if (type == "Unsqueeze" || type == "Squeeze") {
    const auto axes = node.Ints(1, "axes");
    if (!axes && type == "Unsqueeze") node.Refuse("Unsqueeze has no axes");
    return MakeReshape<T>([axes, adds = type == "Unsqueeze"](const Dims& dims) {
      Dims found;
      const size_t rank = dims.size() + (adds ? axes->size() : 0);
      std::vector<bool> is_named(rank, false);
      if (axes) {
        for (const int64_t axis : *axes) is_named[AxisOf(axis, rank)] = true;
      }
      for (size_t d = 0, from = 0; d < rank; ++d) {
        if (adds) {
          found.push_back(is_named[d] ? 1 : dims[from++]);
        } else if (axes ? !is_named[d] : dims[d] != 1) {
          found.push_back(dims[d]);
        }
      }
      return found;
    });
  }
  return nullptr;
}

}  // namespace

template <typename T>
RuleOf<T> MakeMovement(const RuleNode& node) {
  const std::string& type = node.op_type();
  if (RuleOf<T> reshape = MakeReshapes<T>(node)) return reshape;
  if (type == "Transpose") return std::make_unique<TransposeRule<T>>(node.node.GetInts("perm"));
  if (type == "Concat") return std::make_unique<ConcatRule<T>>(node.node.GetInt("axis", 0));
  if (type == "Resize") return MakeResize<T>(node);
  if (type == "Gather") {
    const auto indices = node.Ints(1, "");
    const auto dims = node.model.Initializer(node.node.input(1)).dims;
    return std::make_unique<GatherRule<T>>(
        node.node.GetInt("axis", 0), std::vector<int64_t>(dims.begin(), dims.end()), *indices);
  }
  if (type == "Slice") {
    const auto starts = node.Ints(1, "starts");
    const auto ends = node.Ints(2, "ends");
    if (!starts || !ends) node.Refuse("Slice has no ends");
    return std::make_unique<SliceRule<T>>(*starts, *ends,
                                          node.Ints(3, "axes").value_or(std::vector<int64_t>{}),
                                          node.Ints(4, "").value_or(std::vector<int64_t>{}));
  }
  if (type == "Split") {
    return std::make_unique<SplitRule<T>>(node.node.GetInt("axis", 0),
                                          node.Ints(1, "split").value_or(std::vector<int64_t>{}),
                                          node.node.num_outputs());
  }
  if (type == "Pad") {
    const auto pads = node.Ints(1, "pads");
    const bool is_zero = node.Scalar(2, "value").value_or(0) == 0;
    if (!pads || !is_zero || node.HasInput(3) ||
        node.node.GetString("mode", "constant") != "constant") {
      node.Refuse("only Pad with zeros along all axes has a rule");
    }
    return std::make_unique<PadRule<T>>(*pads);
  }
  return nullptr;
}
template RuleOf<float> MakeMovement<float>(const RuleNode&);
template RuleOf<double> MakeMovement<double>(const RuleNode&);

}  // namespace bitpress::gradients
