// Products of float matrices, C = A B or C += A B, in any layout of A and B, with float32 sums.
// Learning by gradients uses them (gradients/). For example:
//
//   const PackedMatrix weights(rows, depth, {w, depth, 1});
//   Multiply(weights, columns, {x, columns, 1}, y, columns, /*adds=*/false);
//
// Each element of C is summed in the order of the summed dimension, in parts of a fixed length. So
// results do not depend on how C is divided among threads.
#pragma once

#include <cstddef>

#include "kernels/aligned_vector.h"

namespace bitpress::kernels {

// A matrix that is read. Element (i, j) is data[i * row_stride + j * column_stride].
struct MatrixView {
  const float* data = nullptr;
  size_t row_stride = 0, column_stride = 0;
};

// The left matrix of products, copied into the order in which they read it. Several threads may
// multiply with it.
class PackedMatrix {
 public:
  PackedMatrix() = default;
  PackedMatrix(size_t rows, size_t depth, const MatrixView& matrix) { Pack(rows, depth, matrix); }
  // Takes another matrix; memory is used again.
  void Pack(size_t rows, size_t depth, const MatrixView& matrix);

  size_t rows() const { return rows_; }
  size_t depth() const { return depth_; }
  const float* data() const { return data_.data(); }

 private:
  size_t rows_ = 0, depth_ = 0;
  AlignedVector<float> data_;
};

// Writes a.rows() x columns sums to c[i * c_stride + j], or adds them to what is there. `b` has
// a.depth() rows. With a depth of 0 the sums are 0.
void Multiply(const PackedMatrix& a, size_t columns, const MatrixView& b, float* c, size_t c_stride,
              bool adds);

}  // namespace bitpress::kernels
