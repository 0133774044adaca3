// Quadratic forms e H e' of the errors of weights. Fine-tuning compares weights by them: with H =
// the second moments of the inputs, a form is what one output's errors add up to.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/thread_pool.h"

namespace bitpress::finetune {

// Writes the first `count` elements of row `row` of a matrix. Called from several threads.
using ReadRow = std::function<void(int64_t row, int64_t count, float* out)>;

// Returns e H e' for each of `num_rows` rows e. H is symmetric and has as many rows as columns.
// Products are float32 (kernels::AddRowProducts), which is enough for errors of weights about the
// means of their inputs: nothing cancels. Results do not depend on the number of threads.
std::vector<double> QuadraticForms(int64_t columns, const ReadRow& matrix, int64_t num_rows,
                                   const ReadRow& errors, ThreadPool& pool);

}  // namespace bitpress::finetune
