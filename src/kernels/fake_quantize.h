// Quantize-dequantize of whole tensors, vectorized: the fast twin of formats::ref::FakeQuantize,
// equal to it bit for bit on every instruction set. Work is cut into independent tasks so that a
// caller's thread pool can run them in any order. For example:
//
//   const FakeQuantizer quantizer(spec, outer, axis_length, inner);
//   pool.ParallelFor(quantizer.num_tasks(), [&](size_t i) { quantizer.RunTask(i, x, y); });
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "formats/format_spec.h"

namespace bitpress::kernels {

struct ColumnCodes;

// The numbers of a format and a shape that kernels need, worked out once a tensor. Exponents are in
// bits 23 to 30, as in float32, so that kernels compare and add them as integers.
struct FakeQuantizeParams {
  // The format, for the blocks that the vector code leaves to the reference.
  const formats::FormatSpec* spec = nullptr;
  size_t block_size = 0;
  size_t sub_block_size = 0;  // 0: none
  uint32_t max_shift = 0;     // largest shift of a sub-block's exponent
  // Mantissas above it raise the shared exponent by one (ceil, even).
  uint32_t exponent_threshold = 0;
  // The limits of the exponent of the block's largest value, after the shared exponent is limited.
  uint32_t least_exponent = 0;
  uint32_t largest_exponent = 0;
  // emax: the distance of the shared exponent below that of the block's largest value.
  uint32_t emax_offset = 0;
  // Float elements: the distance of the smallest normal exponent below the block's largest value.
  uint32_t subnormal_offset = 0;
  uint32_t magic_offset = 0;    // distance from an exponent to the number whose unit is the step
  uint32_t limit_mantissa = 0;  // mantissa of the largest element value
  uint32_t limit = 0;           // formats without blocks: bits of the largest value
};

// A quantizer for tensors of one format and shape.
class FakeQuantizer {
 public:
  // Takes tensors seen as [outer, axis_length, inner] with blocks along the middle dimension (inner
  // == 1: contiguous). Formats without blocks see outer * axis_length * inner elements. REQUIRES:
  // Validate(spec) passes, spec is not an integer format, dimensions are not negative and their
  // product fits int64.
  FakeQuantizer(const formats::FormatSpec& spec, int64_t outer, int64_t axis_length, int64_t inner);
  FakeQuantizer(const FakeQuantizer&) = delete;
  FakeQuantizer& operator=(const FakeQuantizer&) = delete;

  // Tasks are independent of each other and take some ten microseconds each.
  size_t num_tasks() const { return num_tasks_; }
  // Runs one task. x and y are the whole tensors. They may be the same memory, but must not overlap
  // otherwise. REQUIRES: task < num_tasks().
  void RunTask(size_t task, const float* x, float* y) const;
  // Runs one task on IEEE half floats, computed in float32 and rounded back to nearest even.
  void RunTaskHalf(size_t task, const uint16_t* x, uint16_t* y) const;
  // Runs all tasks on this thread.
  void Run(const float* x, float* y) const;
  // Quantizes one block of `columns` neighbouring columns from one piece of memory to another, or
  // to itself; rows are x_stride and y_stride apart. REQUIRES: length is at most that of a block,
  // if the format has blocks.
  void RunColumns(const float* x, size_t x_stride, float* y, size_t y_stride, size_t length,
                  size_t columns) const;
  // Does the same, and takes the values apart. REQUIRES: the elements are whole numbers
  // (formats/block_units.h) that the form of the codes holds, or the form is in tiles.
  void RunColumnCodes(const float* x, size_t length, size_t columns, size_t stride,
                      const ColumnCodes& out) const;

  const formats::FormatSpec& spec() const { return spec_; }

 private:
  // The elements that a task works on.
  struct TaskElements {
    size_t offset = 0;   // index of the first element
    size_t length = 0;   // elements along the axis, or all elements if there are no blocks
    size_t columns = 1;  // neighbouring columns (strided axis) or rows (contiguous axis)
  };
  TaskElements ElementsOf(size_t task) const;
  void CallKernel(const float* x, float* y, const TaskElements& elements, size_t stride) const;

  formats::FormatSpec spec_;
  FakeQuantizeParams params_;
  size_t outer_, axis_length_, inner_;
  size_t blocks_per_axis_ = 0;
  size_t columns_per_task_ = 0;   // for strided blocks
  size_t elements_per_task_ = 0;  // for contiguous blocks and formats without blocks
  size_t num_tasks_ = 0;
};

// A kernel and the target it was compiled for.
struct KernelRun {
  std::string_view kernel;  // a name of kernels.inc
  std::string_view target;  // a name of SupportedTargets()
};
// Returns the kernel that the calling thread ran last, as the compiled kernel itself says. It is
// for the test that a forced instruction set really runs, and for benches.
KernelRun LastRun();

}  // namespace bitpress::kernels
