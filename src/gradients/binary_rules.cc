// Rules of functions of two values with broadcasting: Add, Sub, Mul, Div, PRelu, Pow with a
// constant exponent.
#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "gradients/rules.h"

namespace bitpress::gradients {
namespace {

// The loop over the output's elements, with the inputs' strides (0 along what is repeated).
struct Broadcast {
  std::vector<int64_t> dims;
  std::vector<int64_t> strides[2];

  Broadcast(std::span<const int64_t> a, std::span<const int64_t> b) {
    const size_t rank = std::max(a.size(), b.size());
    dims.resize(rank);
    const std::span<const int64_t> shapes[2] = {a, b};
    const auto dim_of = [&](size_t side, size_t d) {
      const size_t missing = rank - shapes[side].size();
      return d < missing ? int64_t{1} : shapes[side][d - missing];
    };
    for (size_t d = 0; d < rank; ++d) {
      const int64_t left = dim_of(0, d);
      const int64_t right = dim_of(1, d);
      if (left != right && left != 1 && right != 1) {
        Fail(ErrorCode::kInvalidArgument, "shapes [{}] and [{}] do not fit", fmt::join(a, ", "),
             fmt::join(b, ", "));
      }
      dims[d] = left == 1 ? right : left;
    }
    for (size_t side = 0; side < 2; ++side) {
      strides[side].resize(rank);
      int64_t stride = 1;
      for (size_t d = rank; d-- > 0;) {
        strides[side][d] = dim_of(side, d) == 1 ? 0 : stride;
        stride *= dim_of(side, d);
      }
    }
    Merge();
  }

  // Calls run(offset of a row in the output, in a, in b) for each row: the last dimension.
  template <typename Run>
  void ForRows(const Run& run) const {
    const size_t rank = merged_.size();
    std::vector<int64_t> index(rank);
    int64_t at[2] = {0, 0};
    const int64_t length = merged_.back();
    const int64_t rows = NumElements(merged_) / std::max<int64_t>(length, 1);
    for (int64_t row = 0; row < rows; ++row) {
      run(row * length, at[0], at[1]);
      for (size_t d = rank - 1; d-- > 0;) {
        for (size_t side = 0; side < 2; ++side) at[side] += steps_[side][d];
        if (++index[d] < merged_[d]) break;
        for (size_t side = 0; side < 2; ++side) at[side] -= merged_[d] * steps_[side][d];
        index[d] = 0;
      }
    }
  }
  int64_t length() const { return merged_.back(); }
  int64_t step(size_t side) const { return steps_[side].back(); }

 private:
  // Joins dimensions that both inputs go through in the same way, so that rows are long.
  void Merge() {
    for (size_t d = 0; d < dims.size(); ++d) {
      if (dims[d] == 1) continue;
      const bool joins = !merged_.empty() && [&] {
        for (size_t side = 0; side < 2; ++side) {
          if (steps_[side].back() != strides[side][d] * dims[d]) return false;
        }
        return true;
      }();
      if (joins) {
        merged_.back() *= dims[d];
        for (size_t side = 0; side < 2; ++side) steps_[side].back() = strides[side][d];
        continue;
      }
      merged_.push_back(dims[d]);
      for (size_t side = 0; side < 2; ++side) steps_[side].push_back(strides[side][d]);
    }
    if (merged_.empty()) {
      merged_ = {NumElements(dims)};
      for (auto& steps : steps_) steps = {0};
    }
  }
  std::vector<int64_t> merged_;
  std::vector<int64_t> steps_[2];
};

template <typename T>
struct AddOf {
  static T Value(T a, T b) { return a + b; }
  static T Left(T, T) { return 1; }
  static T Right(T, T) { return 1; }
};
template <typename T>
struct SubOf {
  static T Value(T a, T b) { return a - b; }
  static T Left(T, T) { return 1; }
  static T Right(T, T) { return -1; }
};
template <typename T>
struct MulOf {
  static T Value(T a, T b) { return a * b; }
  static T Left(T, T b) { return b; }
  static T Right(T a, T) { return a; }
};
template <typename T>
struct DivOf {
  static T Value(T a, T b) { return a / b; }
  static T Left(T, T b) { return 1 / b; }
  static T Right(T a, T b) { return -a / (b * b); }
};
template <typename T>
struct PReluOf {
  static T Value(T a, T b) { return a >= 0 ? a : a * b; }
  static T Left(T a, T b) { return a >= 0 ? T{1} : b; }
  static T Right(T a, T) { return a >= 0 ? T{0} : a; }
};
template <typename T>
struct PowOf {
  static T Value(T a, T b) { return b == 2 ? a * a : std::pow(a, b); }
  static T Left(T a, T b) { return b == 2 ? 2 * a : b * std::pow(a, b - 1); }
  static T Right(T a, T b) { return a > 0 ? std::log(a) * std::pow(a, b) : T{0}; }
};

template <typename T, typename F>
class BinaryRule : public Rule<T> {
 public:
  using typename Rule<T>::Inputs;

  void Forward(Inputs inputs, std::span<Array<T>* const> outputs) override {
    const Broadcast loop(inputs[0]->dims, inputs[1]->dims);
    outputs[0]->Reshape(loop.dims);
    if (outputs[0]->size() == 0) return;
    const T* const a = inputs[0]->data();
    const T* const b = inputs[1]->data();
    T* const y = outputs[0]->data();
    const int64_t n = loop.length(), step_a = loop.step(0), step_b = loop.step(1);
    loop.ForRows([&](int64_t at, int64_t at_a, int64_t at_b) {
      const T* const left = a + at_a;
      const T* const right = b + at_b;
      T* const out = y + at;
      if (step_a == 1 && step_b == 1) {
        for (int64_t i = 0; i < n; ++i) out[i] = F::Value(left[i], right[i]);
      } else {
        for (int64_t i = 0; i < n; ++i) out[i] = F::Value(left[i * step_a], right[i * step_b]);
      }
    });
  }

  void Backward(Inputs inputs, Inputs, Inputs output_gradients,
                std::span<Array<T>* const> gradients) override {
    const Broadcast loop(inputs[0]->dims, inputs[1]->dims);
    if (output_gradients[0]->size() == 0) return;
    const T* const g = output_gradients[0]->data();
    const int64_t n = loop.length(), step_a = loop.step(0), step_b = loop.step(1);
    const auto add = [&](size_t side, const auto& slope) {
      if (gradients[side] == nullptr) return;
      const int64_t step = loop.step(side);
      loop.ForRows([&](int64_t at, int64_t at_a, int64_t at_b) {
        const T* const left = inputs[0]->data() + at_a;
        const T* const right = inputs[1]->data() + at_b;
        T* const out = gradients[side]->data() + (side == 0 ? at_a : at_b);
        if (step_a == 1 && step_b == 1) {
          for (int64_t i = 0; i < n; ++i) out[i] += g[at + i] * slope(left[i], right[i]);
          return;
        }
        for (int64_t i = 0; i < n; ++i) {
          out[i * step] += g[at + i] * slope(left[i * step_a], right[i * step_b]);
        }
      });
    };
    add(0, F::Left);
    add(1, F::Right);
  }
};

}  // namespace

template <typename T>
RuleOf<T> MakeBinary(const RuleNode& node) {
  const std::string& type = node.op_type();
  if (type == "Add") return std::make_unique<BinaryRule<T, AddOf<T>>>();
  if (type == "Sub") return std::make_unique<BinaryRule<T, SubOf<T>>>();
  if (type == "Mul") return std::make_unique<BinaryRule<T, MulOf<T>>>();
  if (type == "Div") return std::make_unique<BinaryRule<T, DivOf<T>>>();
  if (type == "PRelu") return std::make_unique<BinaryRule<T, PReluOf<T>>>();
  if (type == "Pow") return std::make_unique<BinaryRule<T, PowOf<T>>>();
  return nullptr;
}
template RuleOf<float> MakeBinary<float>(const RuleNode&);
template RuleOf<double> MakeBinary<double>(const RuleNode&);

}  // namespace bitpress::gradients
