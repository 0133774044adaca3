// A packed weight on its way into the native form (native_form.h), whatever its format: integers in
// blocks, and block formats whose elements are whole numbers times a power of two. The pass
// use-native-operators writes its nodes with it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/tensor.h"
#include "base/thread_pool.h"
#include "weights/integer_weight.h"
#include "weights/native_form.h"
#include "weights/weight_job.h"

namespace bitpress::weights {

struct NativeWeight {
  // The reason why it has no native form; "" if it has one. Then nothing below means anything.
  std::string why_not;
  std::vector<int64_t> dims;  // two, those of a stack of matrices being below each other
  int64_t num_stacked = 1;    // matrices in a stack [matrices, rows, columns], as experts have
  int64_t axis = 0;           // along which its blocks run
  int64_t block_size = 0;     // a power of two, 16 or more
  int bits = 8;               // of a code: 2, 4 or 8
  bool is_widened = false;    // codes have 3 bits in the file (NativeForm::is_widened)
  bool has_zero_points = false;
  // Returns the bytes of codes, scales and, if the form has them, zero points, and fills in the
  // errors of the statistics. Types and dimensions are the caller's. Throws as IntegerWeight::Codes
  // and WeightJob::Simulate.
  std::function<std::vector<Tensor>(const NativeForm&, ThreadPool&, WeightStatistics&)> encode;

  // Returns the form in which a product or a table reads the weight.
  NativeForm Form(bool is_matmul) const;
};

NativeWeight NativeWeightOf(std::shared_ptr<const IntegerWeight> weight);

// The scale of a block is the largest power of two of which all of its values are multiples, so the
// codes mean the values of the format exactly, but for the sign of zeros. Returns no native form
// for blocks of fewer than 16 elements, and for formats whose codes would need more than 8 bits.
NativeWeight NativeWeightOf(std::shared_ptr<const WeightJob> job);

}  // namespace bitpress::weights
