// Rules of products of matrices: MatMul with any dimensions in front, Gemm, and rotations.
#include <algorithm>
#include <utility>
#include <vector>

#include "base/hadamard.h"
#include "gradients/products.h"
#include "gradients/rules.h"
#include "graph/own_domain.h"

namespace bitpress::gradients {
namespace {

// Rows of the left side in one task, at least: each task copies the right side anew.
constexpr size_t kLeastRowsOfTask = 96;

// A product of two matrices that lie somewhere in the inputs: c[rows, columns] = a b.
template <typename T>
struct Factors {
  size_t rows = 0, depth = 0, columns = 0;
  View<T> a, b;
};

// Computes c = a b, or c += a b, in tasks of some rows of `a`.
template <typename T>
void MultiplyRows(const Factors<T>& product, T* c, size_t c_stride, bool adds, ThreadPool& pool) {
  const size_t of_thread = (product.rows + pool.num_threads() - 1) / pool.num_threads();
  const size_t of_task = std::max(kLeastRowsOfTask, of_thread);
  pool.ParallelFor((product.rows + of_task - 1) / of_task, [&](size_t task) {
    const size_t first = task * of_task;
    const size_t count = std::min(of_task, product.rows - first);
    Left<T> left;
    left.Pack(count, product.depth,
              {product.a.data + first * product.a.row_stride, product.a.row_stride,
               product.a.column_stride});
    left.Multiply(product.columns, product.b, c + first * c_stride, c_stride, adds);
  });
}

// MatMul: products of the last two dimensions, for each index of the dimensions before them.
template <typename T>
class MatMulRule : public Rule<T> {
 public:
  using typename Rule<T>::Inputs;
  explicit MatMulRule(ThreadPool& pool) : pool_(pool) {}

  void Forward(Inputs inputs, std::span<Array<T>* const> outputs) override {
    Prepare(*inputs[0], *inputs[1]);
    outputs[0]->Reshape(dims_);
    T* const c = outputs[0]->data();
    for (size_t i = 0; i < offsets_.size(); ++i) {
      const T* const a = inputs[0]->data() + offsets_[i].first;
      const T* const b = inputs[1]->data() + offsets_[i].second;
      MultiplyRows<T>({rows_, depth_, columns_, {a, depth_, 1}, {b, columns_, 1}},
                      c + i * rows_ * columns_, columns_, false, pool_);
    }
  }

  void Backward(Inputs inputs, Inputs, Inputs output_gradients,
                std::span<Array<T>* const> gradients) override {
    for (size_t i = 0; i < offsets_.size(); ++i) {
      const T* const g = output_gradients[0]->data() + i * rows_ * columns_;
      const auto [at_a, at_b] = offsets_[i];
      const View<T> a{inputs[0]->data() + at_a, depth_, 1};
      const View<T> b{inputs[1]->data() + at_b, columns_, 1};
      const View<T> of_output{g, columns_, 1};
      if (gradients[0] != nullptr) {
        MultiplyRows<T>({rows_, columns_, depth_, of_output, b.Turned()},
                        gradients[0]->data() + at_a, depth_, true, pool_);
      }
      if (gradients[1] != nullptr) {
        MultiplyRows<T>({depth_, rows_, columns_, a.Turned(), of_output},
                        gradients[1]->data() + at_b, columns_, true, pool_);
      }
    }
  }

 private:
  void Prepare(const Array<T>& a, const Array<T>& b) {
    if (a.dims.size() < 2 || b.dims.size() < 2 || a.dims.back() != b.dims[b.dims.size() - 2]) {
      Fail(ErrorCode::kInvalidArgument, "shapes [{}] and [{}] do not multiply",
           fmt::join(a.dims, ", "), fmt::join(b.dims, ", "));
    }
    depth_ = static_cast<size_t>(a.dims.back());
    columns_ = static_cast<size_t>(b.dims.back());
    offsets_.clear();
    if (b.dims.size() == 2) {  // one product of all rows
      rows_ = a.size() / std::max<size_t>(depth_, 1);
      dims_ = a.dims;
      dims_.back() = b.dims.back();
      offsets_.emplace_back(0, 0);
      return;
    }
    rows_ = static_cast<size_t>(a.dims[a.dims.size() - 2]);
    const size_t rank = std::max(a.dims.size(), b.dims.size()) - 2;
    const auto dim_of = [&](const Array<T>& side, size_t d) {
      const size_t missing = rank + 2 - side.dims.size();
      return d < missing ? int64_t{1} : side.dims[d - missing];
    };
    dims_.clear();
    for (size_t d = 0; d < rank; ++d) dims_.push_back(std::max(dim_of(a, d), dim_of(b, d)));
    const int64_t num_products = NumElements(dims_);
    for (int64_t i = 0; i < num_products; ++i) {
      int64_t rest = i;
      int64_t index[2] = {0, 0};
      int64_t stride[2] = {1, 1};
      for (size_t d = rank; d-- > 0;) {
        const int64_t at = rest % dims_[d];
        rest /= dims_[d];
        const int64_t of_sides[2] = {dim_of(a, d), dim_of(b, d)};
        for (size_t side = 0; side < 2; ++side) {
          if (of_sides[side] != 1) index[side] += at * stride[side];
          stride[side] *= of_sides[side];
        }
      }
      offsets_.emplace_back(static_cast<size_t>(index[0]) * rows_ * depth_,
                            static_cast<size_t>(index[1]) * depth_ * columns_);
    }
    dims_.push_back(a.dims[a.dims.size() - 2]);
    dims_.push_back(b.dims.back());
  }

  ThreadPool& pool_;
  size_t rows_ = 0, depth_ = 0, columns_ = 0;
  std::vector<int64_t> dims_;
  std::vector<std::pair<size_t, size_t>> offsets_;  // of each product's matrices
};

// Gemm: y = alpha a b + beta c.
template <typename T>
class GemmRule : public Rule<T> {
 public:
  using typename Rule<T>::Inputs;
  explicit GemmRule(const RuleNode& node)
      : pool_(node.pool),
        is_left_turned_(node.node.GetInt("transA", 0) != 0),
        is_right_turned_(node.node.GetInt("transB", 0) != 0),
        beta_(static_cast<T>(node.node.GetFloat("beta", 1))) {
    if (node.node.GetFloat("alpha", 1) != 1) node.Refuse("Gemm has an alpha");
  }

  void Forward(Inputs inputs, std::span<Array<T>* const> outputs) override {
    const auto [rows, depth, columns, a, b] = FactorsOf(inputs);
    const int64_t dims[2] = {static_cast<int64_t>(rows), static_cast<int64_t>(columns)};
    outputs[0]->Reshape(dims);
    T* const y = outputs[0]->data();
    MultiplyRows<T>({rows, depth, columns, a, b}, y, columns, false, pool_);
    if (inputs.size() < 3 || inputs[2] == nullptr) return;
    const auto [row_step, column_step] = StepsOf(*inputs[2], rows, columns);
    for (size_t i = 0; i < rows; ++i) {
      const T* const c = inputs[2]->data() + i * row_step;
      for (size_t j = 0; j < columns; ++j) y[i * columns + j] += beta_ * c[j * column_step];
    }
  }

  void Backward(Inputs inputs, Inputs, Inputs output_gradients,
                std::span<Array<T>* const> gradients) override {
    const auto [rows, depth, columns, a, b] = FactorsOf(inputs);
    const View<T> g{output_gradients[0]->data(), columns, 1};
    // A turned side gets the turned gradient.
    if (gradients[0] != nullptr && !is_left_turned_) {
      MultiplyRows<T>({rows, columns, depth, g, b.Turned()}, gradients[0]->data(), depth, true,
                      pool_);
    } else if (gradients[0] != nullptr) {
      MultiplyRows<T>({depth, columns, rows, b, g.Turned()}, gradients[0]->data(), rows, true,
                      pool_);
    }
    if (gradients[1] != nullptr && !is_right_turned_) {
      MultiplyRows<T>({depth, rows, columns, a.Turned(), g}, gradients[1]->data(), columns, true,
                      pool_);
    } else if (gradients[1] != nullptr) {
      MultiplyRows<T>({columns, rows, depth, g.Turned(), a}, gradients[1]->data(), depth, true,
                      pool_);
    }
    if (inputs.size() < 3 || gradients[2] == nullptr) return;
    const auto [row_step, column_step] = StepsOf(*inputs[2], rows, columns);
    for (size_t i = 0; i < rows; ++i) {
      T* const c = gradients[2]->data() + i * row_step;
      for (size_t j = 0; j < columns; ++j) c[j * column_step] += beta_ * g.data[i * columns + j];
    }
  }

 private:
  Factors<T> FactorsOf(Inputs inputs) const {
    const Array<T>& a = *inputs[0];
    const Array<T>& b = *inputs[1];
    if (a.dims.size() != 2 || b.dims.size() != 2 ||
        a.dims[is_left_turned_ ? 0 : 1] != b.dims[is_right_turned_ ? 1 : 0]) {
      Fail(ErrorCode::kInvalidArgument, "shapes [{}] and [{}] do not multiply",
           fmt::join(a.dims, ", "), fmt::join(b.dims, ", "));
    }
    const auto size = [](int64_t dim) { return static_cast<size_t>(dim); };
    View<T> left{a.data(), size(a.dims[1]), 1};
    View<T> right{b.data(), size(b.dims[1]), 1};
    if (is_left_turned_) left = left.Turned();
    if (is_right_turned_) right = right.Turned();
    return {size(a.dims[is_left_turned_ ? 1 : 0]), size(a.dims[is_left_turned_ ? 0 : 1]),
            size(b.dims[is_right_turned_ ? 0 : 1]), left, right};
  }
  // Returns how far the rows and the columns of the broadcast third input are apart.
  static std::pair<size_t, size_t> StepsOf(const Array<T>& c, size_t rows, size_t columns) {
    const auto last = static_cast<size_t>(c.dims.empty() ? 1 : c.dims.back());
    const auto first = static_cast<size_t>(c.dims.size() < 2 ? 1 : c.dims[c.dims.size() - 2]);
    if ((last != columns && last != 1) || (first != rows && first != 1)) {
      Fail(ErrorCode::kInvalidArgument, "the third input of Gemm, [{}], does not fit",
           fmt::join(c.dims, ", "));
    }
    return {first == 1 ? 0 : last, last == 1 ? 0 : 1};
  }

  ThreadPool& pool_;
  bool is_left_turned_, is_right_turned_;
  T beta_;
};

// A rotation multiplies blocks of the last axis by a Hadamard matrix, which is its own inverse and
// transpose: gradients are turned as values are.
template <typename T>
class RotationRule : public Rule<T> {
 public:
  using typename Rule<T>::Inputs;
  RotationRule(size_t size, ThreadPool& pool) : size_(size), pool_(pool) {}

  void Forward(Inputs inputs, std::span<Array<T>* const> outputs) override {
    const std::vector<int64_t>& dims = inputs[0]->dims;
    if (dims.empty() || dims.back() % static_cast<int64_t>(size_) != 0) {
      Fail(ErrorCode::kInvalidArgument, "a rotation reads blocks of {}", size_);
    }
    outputs[0]->Reshape(dims);
    ForTurnedParts(*inputs[0], [&](size_t i, T turned) { outputs[0]->values[i] = turned; });
  }
  void Backward(Inputs, Inputs, Inputs output_gradients,
                std::span<Array<T>* const> gradients) override {
    if (gradients[0] == nullptr) return;
    ForTurnedParts(*output_gradients[0],
                   [&](size_t i, T turned) { gradients[0]->values[i] += turned; });
  }

 private:
  // Calls take(i, turned) for each element of the turned array. Parts are whole blocks, because
  // both sizes are powers of two.
  template <typename Take>
  void ForTurnedParts(const Array<T>& array, const Take& take) {
    ForParts(pool_, array.size(), [&](size_t begin, size_t end) {
      std::vector<T> block(size_);
      for (size_t first = begin; first < end; first += size_) {
        std::copy_n(array.data() + first, size_, block.data());
        TurnRows(std::span(block), size_);
        for (size_t i = 0; i < size_; ++i) take(first + i, block[i]);
      }
    });
  }

  size_t size_;
  ThreadPool& pool_;
};

}  // namespace

template <typename T>
RuleOf<T> MakeProduct(const RuleNode& node) {
  if (const int64_t size = graph::RotationSize(node.node); size > 0) {
    if (static_cast<size_t>(size) > kElementsOfTask) node.Refuse("its blocks are too large");
    return std::make_unique<RotationRule<T>>(static_cast<size_t>(size), node.pool);
  }
  if (node.op_type() == "MatMul") return std::make_unique<MatMulRule<T>>(node.pool);
  if (node.op_type() == "Gemm") return std::make_unique<GemmRule<T>>(node);
  return nullptr;
}
template RuleOf<float> MakeProduct<float>(const RuleNode&);
template RuleOf<double> MakeProduct<double>(const RuleNode&);

}  // namespace bitpress::gradients
