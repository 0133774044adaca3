// Products of matrices for rules: vectorized for float, plain loops for double.
#pragma once

#include <cstddef>
#include <vector>

#include "kernels/float_products.h"

namespace bitpress::gradients {

// A matrix that is read. Element (i, j) is data[i * row_stride + j * column_stride].
template <typename T>
struct View {
  const T* data = nullptr;
  size_t row_stride = 0, column_stride = 0;
  View Turned() const { return {data, column_stride, row_stride}; }
};

// The left side of products.
template <typename T>
class Left {
 public:
  void Pack(size_t rows, size_t depth, const View<T>& matrix) {
    rows_ = rows;
    depth_ = depth;
    values_.resize(rows * depth);
    for (size_t i = 0; i < rows; ++i) {
      for (size_t k = 0; k < depth; ++k) {
        values_[i * depth + k] = matrix.data[i * matrix.row_stride + k * matrix.column_stride];
      }
    }
  }
  // Writes the products with `b` to c, or adds them to it.
  void Multiply(size_t columns, const View<T>& b, T* c, size_t c_stride, bool adds) const {
    for (size_t i = 0; i < rows_; ++i) {
      for (size_t j = 0; j < columns; ++j) {
        T sum = 0;
        for (size_t k = 0; k < depth_; ++k) {
          sum += values_[i * depth_ + k] * b.data[k * b.row_stride + j * b.column_stride];
        }
        c[i * c_stride + j] = adds ? c[i * c_stride + j] + sum : sum;
      }
    }
  }

 private:
  size_t rows_ = 0, depth_ = 0;
  std::vector<T> values_;
};

template <>
class Left<float> {
 public:
  void Pack(size_t rows, size_t depth, const View<float>& matrix) {
    matrix_.Pack(rows, depth, {matrix.data, matrix.row_stride, matrix.column_stride});
  }
  void Multiply(size_t columns, const View<float>& b, float* c, size_t c_stride, bool adds) const {
    kernels::Multiply(matrix_, columns, {b.data, b.row_stride, b.column_stride}, c, c_stride, adds);
  }

 private:
  kernels::PackedMatrix matrix_;
};

}  // namespace bitpress::gradients
