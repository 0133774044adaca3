#include "kernels/fake_quantize.h"

#include <algorithm>
#include <vector>

#include "base/check.h"
#include "base/error.h"
#include "base/round_up.h"
#include "formats/float_bits.h"
#include "kernels/dispatch.h"
#include "kernels/half.h"

namespace bitpress::kernels {
namespace {

thread_local KernelRun last_run;

void Call(const KernelTable& table, const FakeQuantizeParams& params, const float* x, float* y,
          size_t length, size_t columns, Strides strides) {
  table[ChosenTargetIndex()](params, x, y, length, columns, strides);
}

// One below the least exponent that fake_quantize-inl.h takes, because mse also tries the exponent
// below the floor.
constexpr uint32_t kLeastVectorExponent = 63u << 23;
constexpr uint32_t kLargestVectorExponent = 240u << 23;  // there is room for every magic number
constexpr size_t kElementsPerTask = 1 << 14;

uint32_t ExponentField(int exponent) {
  return static_cast<uint32_t>(exponent) << formats::kFloatMantissaBits;
}

uint32_t ClampedExponentField(int exponent) {
  const int least = static_cast<int>(kLeastVectorExponent >> formats::kFloatMantissaBits);
  const int largest = static_cast<int>(kLargestVectorExponent >> formats::kFloatMantissaBits);
  return ExponentField(std::clamp(exponent, least, largest));
}

FakeQuantizeParams BlockParams(const formats::FormatSpec& spec) {
  FakeQuantizeParams p;
  const formats::BlockRange range = formats::RangeOf(spec);
  p.block_size = static_cast<size_t>(spec.block_size);
  p.sub_block_size = static_cast<size_t>(spec.sub_block_size);
  p.max_shift = ExponentField((1 << spec.sub_block_shift_bits) - 1);
  p.emax_offset = ExponentField(range.max_exponent);
  p.limit_mantissa =
      formats::FloatBits(static_cast<float>(range.max_value)) & formats::kFloatMantissaMask;
  switch (spec.scale_choice) {
    case formats::ScaleChoice::kCeil:
      p.exponent_threshold = p.limit_mantissa;
      break;
    case formats::ScaleChoice::kEven:
      // Adding half a step of the element's mantissa carries from here on.
      p.exponent_threshold = formats::kFloatMantissaMask -
                             (1u << (formats::kFloatMantissaBits - 1 - range.fraction_bits));
      break;
    case formats::ScaleChoice::kFloor:
    case formats::ScaleChoice::kMse:
      p.exponent_threshold = formats::kFloatMantissaMask;
      break;
  }
  if (spec.limit_shared_exponent) {
    const int offset = range.max_exponent + formats::kFloatBias;
    p.least_exponent = ClampedExponentField(range.min_shared_exponent + offset);
    p.largest_exponent = ClampedExponentField(range.max_shared_exponent + offset);
  } else {
    p.least_exponent = kLeastVectorExponent;
    p.largest_exponent = kLargestVectorExponent;
  }
  if (spec.has_float_elements()) {
    const formats::FloatLayout layout = formats::LayoutOf(spec.element_type);
    p.subnormal_offset = ExponentField(layout.max_exponent - (1 - layout.bias));
    p.magic_offset = ExponentField(formats::kFloatMantissaBits - layout.mantissa_bits);
  } else {
    p.magic_offset = ExponentField(formats::kFloatMantissaBits - range.fraction_bits);
  }
  return p;
}

FakeQuantizeParams ElementParams(const formats::FormatSpec& spec) {
  FakeQuantizeParams p;
  const formats::FloatLayout layout = formats::LayoutOf(spec.element_type);
  p.limit = formats::FloatBits(static_cast<float>(layout.max_value));
  p.least_exponent = ExponentField(1 - layout.bias + formats::kFloatBias);
  p.magic_offset = ExponentField(formats::kFloatMantissaBits - layout.mantissa_bits);
  return p;
}

const BlockKernels& KernelsOf(const formats::FormatSpec& spec) {
#define BITPRESS_BLOCKS(name, is_for) \
  if (is_for) return k##name;
#include "kernels/kernels.inc"
#undef BITPRESS_BLOCKS
  Fail(ErrorCode::kUnsupported, "format '{}' has no kernels", spec.name);
}

}  // namespace

FakeQuantizer::FakeQuantizer(const formats::FormatSpec& spec, int64_t outer, int64_t axis_length,
                             int64_t inner)
    : spec_(spec),
      params_(spec.is_blocked() ? BlockParams(spec) : ElementParams(spec)),
      outer_(static_cast<size_t>(outer)),
      axis_length_(static_cast<size_t>(axis_length)),
      inner_(static_cast<size_t>(inner)) {
  BITPRESS_DCHECK(!spec.is_integer());
  BITPRESS_DCHECK(outer >= 0 && axis_length >= 0 && inner >= 0);
  params_.spec = &spec_;
  const size_t num_elements = outer_ * axis_length_ * inner_;
  if (num_elements == 0) return;
  if (!spec.is_blocked()) {
    elements_per_task_ = kElementsPerTask;
    num_tasks_ = CeilDivide(num_elements, elements_per_task_);
  } else if (inner_ > 1) {
    const size_t rows = std::min(params_.block_size, axis_length_);
    // Whole cache lines, so that two threads do not write to the same one in an aligned tensor.
    columns_per_task_ =
        std::clamp<size_t>(kElementsPerTask / rows / 16 * 16, 64, inner_ > 64 ? inner_ : 64);
    blocks_per_axis_ = CeilDivide(axis_length_, params_.block_size);
    num_tasks_ = outer_ * blocks_per_axis_ * CeilDivide(inner_, columns_per_task_);
  } else {
    // Rows that are whole blocks follow each other without a seam: one long row.
    if (axis_length_ % params_.block_size == 0) {
      axis_length_ *= outer_;
      outer_ = 1;
    }
    elements_per_task_ = CeilDivide(kElementsPerTask, params_.block_size) * params_.block_size;
    if (outer_ > 1) {
      columns_per_task_ = std::max<size_t>(1, kElementsPerTask / axis_length_);  // rows here
      num_tasks_ = CeilDivide(outer_, columns_per_task_);
    } else {
      num_tasks_ = CeilDivide(axis_length_, elements_per_task_);
    }
  }
}

FakeQuantizer::TaskElements FakeQuantizer::ElementsOf(size_t task) const {
  BITPRESS_DCHECK(task < num_tasks_);
  if (!spec_.is_blocked()) {
    const size_t begin = task * elements_per_task_;
    return {begin, std::min(elements_per_task_, outer_ * axis_length_ * inner_ - begin), 1};
  }
  if (inner_ > 1) {
    const size_t chunks = CeilDivide(inner_, columns_per_task_);
    const size_t column = task % chunks * columns_per_task_;
    const size_t block = task / chunks % blocks_per_axis_ * params_.block_size;
    const size_t outer = task / chunks / blocks_per_axis_;
    return {(outer * axis_length_ + block) * inner_ + column,
            std::min(params_.block_size, axis_length_ - block),
            std::min(columns_per_task_, inner_ - column)};
  }
  if (outer_ > 1) {
    const size_t row = task * columns_per_task_;
    return {row * axis_length_, axis_length_, std::min(columns_per_task_, outer_ - row)};
  }
  const size_t begin = task * elements_per_task_;
  return {begin, std::min(elements_per_task_, axis_length_ - begin), 1};
}

void FakeQuantizer::RunTask(size_t task, const float* x, float* y) const {
  const TaskElements elements = ElementsOf(task);
  x += elements.offset;
  y += elements.offset;
  CallKernel(x, y, elements, inner_);
}

void FakeQuantizer::CallKernel(const float* x, float* y, const TaskElements& elements,
                               size_t stride) const {
  if (!spec_.is_blocked()) {
    Call(kFloatElementsTable, params_, x, y, elements.length, 1, {});
    return;
  }
  const BlockKernels& kernels = KernelsOf(spec_);
  if (inner_ > 1) {
    Call(kernels.columns, params_, x, y, elements.length, elements.columns, {stride, stride});
  } else {
    Call(kernels.rows, params_, x, y, elements.length, elements.columns,
         {elements.length, elements.length});
  }
}

void FakeQuantizer::RunTaskHalf(size_t task, const uint16_t* x, uint16_t* y) const {
  const TaskElements elements = ElementsOf(task);
  x += elements.offset;
  y += elements.offset;
  // A task's columns lie `inner_` apart in the tensor and next to each other in the buffer.
  const bool strided = spec_.is_blocked() && inner_ > 1;
  const size_t rows = strided ? elements.length : 1;
  const size_t width = strided ? elements.columns : elements.length * elements.columns;
  std::vector<float> buffer(rows * width);
  for (size_t r = 0; r < rows; ++r) HalfToFloat({x + r * inner_, width}, buffer.data() + r * width);
  CallKernel(buffer.data(), buffer.data(), elements, elements.columns);
  for (size_t r = 0; r < rows; ++r) FloatToHalf({buffer.data() + r * width, width}, y + r * inner_);
}

void FakeQuantizer::Run(const float* x, float* y) const {
  for (size_t task = 0; task < num_tasks_; ++task) RunTask(task, x, y);
}

void FakeQuantizer::RunColumns(const float* x, size_t x_stride, float* y, size_t y_stride,
                               size_t length, size_t columns) const {
  if (!spec_.is_blocked()) {
    constexpr size_t kLineFloats = 16;
    for (size_t r = 0; r < length; ++r) {
      // A row's next piece often follows, and no hardware prefetcher follows rows that lie far
      // apart.
      const float* const next = x + r * x_stride + columns;
      for (size_t i = 0; i < columns && columns < x_stride; i += kLineFloats) {
        __builtin_prefetch(next + i, /*for writing=*/0, /*second level=*/2);
      }
      Call(kFloatElementsTable, params_, x + r * x_stride, y + r * y_stride, columns, 1, {});
    }
    return;
  }
  BITPRESS_DCHECK(length <= params_.block_size);
  Call(KernelsOf(spec_).columns, params_, x, y, length, columns, {x_stride, y_stride});
}

void FakeQuantizer::RunColumnCodes(const float* x, size_t length, size_t columns, size_t stride,
                                   const ColumnCodes& out) const {
  BITPRESS_DCHECK(!spec_.is_blocked() || length <= params_.block_size);
  const CodesTable& table = spec_.is_blocked() ? KernelsOf(spec_).codes : kBfloat16CodesTable;
  table[ChosenTargetIndex()](params_, x, length, columns, stride, out);
}

void NoteRun(std::string_view kernel, std::string_view target) { last_run = {kernel, target}; }

KernelRun LastRun() { return last_run; }

}  // namespace bitpress::kernels
