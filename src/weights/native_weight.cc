#include "weights/native_weight.h"

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include "base/error.h"
#include "weights/whole_numbers.h"

namespace bitpress::weights {
namespace {

constexpr int64_t kLeastBlock = 16;

// Returns the reason why a weight of any format has no native form, "" if there is none.
std::string WhyNot(const graph::HeldInitializer& source, int64_t block_size) {
  if (source.type != DataType::kFloat) return "it is FLOAT16";
  if (source.dims.size() != 2 && source.dims.size() != 3) return "it is no matrix in blocks";
  if (block_size < kLeastBlock || (block_size & (block_size - 1)) != 0) {
    return fmt::format("blocks of {}", block_size);
  }
  return "";
}

// Returns the dimensions of a matrix, or of a stack of them whose rows lie below each other.
std::vector<int64_t> MatrixDims(const std::vector<int64_t>& dims) {
  if (dims.size() == 2) return dims;
  return {dims[0] * dims[1], dims[2]};
}

// Returns the axis of blocks in MatrixDims, of that in the weight; nothing for blocks of a stack
// that do not lie along its last axis.
std::optional<int64_t> MatrixAxis(const std::vector<int64_t>& dims, int64_t axis) {
  if (dims.size() == 2) return axis;
  return axis == 2 ? std::optional<int64_t>(1) : std::nullopt;
}

// The rows of a weight's elements or blocks as the native form has them.
struct RowView {
  bool is_row_major;
  int64_t num_rows;

  size_t At(int64_t row, int64_t i, int64_t length) const {
    return static_cast<size_t>(is_row_major ? row * length + i : i * num_rows + row);
  }
};

bool IsSigned(const IntegerWeight& weight) {
  return formats::IntegerRange(weight.spec().element_type).quant_min < 0;
}

std::vector<Tensor> EncodeIntegers(const IntegerWeight& weight, const NativeForm& form,
                                   ThreadPool& pool, WeightStatistics& statistics) {
  const std::vector<int32_t> codes = weight.Codes(pool, statistics);
  const std::vector<formats::QParams>& params = weight.Params(pool);
  const std::vector<int64_t>& dims = weight.source().dims;
  const RowView view{weight.axis() == static_cast<int64_t>(dims.size()) - 1, form.num_rows};
  const auto param = [&](int64_t row, int64_t block) -> const formats::QParams& {
    return params[view.At(row, block, form.num_blocks())];
  };
  // Codes count from 0, or, without zero points, around the middle.
  const int64_t offset = IsSigned(weight) ? int64_t{1} << (form.stored_bits() - 1) : 0;
  const auto code = [&](int64_t row, int64_t i) {
    const int64_t number = codes[view.At(row, i, form.row_length)];
    if (form.has_zero_points) return number + offset;
    return number - param(row, i / form.block_size).zero_point + form.middle();
  };
  std::vector<Tensor> tensors(form.has_zero_points ? 3 : 2);
  tensors[0].bytes =
      PackRows(form.stored_bits(), form.num_rows, form.row_length, form.code_stride(), code);
  tensors[1].bytes.resize(params.size() * sizeof(float));
  for (int64_t row = 0; row < form.num_rows; ++row) {
    for (int64_t block = 0; block < form.num_blocks(); ++block) {
      tensors[1].values<float>()[static_cast<size_t>(row * form.num_blocks() + block)] =
          param(row, block).scale;
    }
  }
  if (form.has_zero_points) {
    tensors[2].bytes =
        PackRows(form.bits, form.num_rows, form.num_blocks(), form.zero_point_stride(),
                 [&](int64_t row, int64_t block) { return param(row, block).zero_point + offset; });
  }
  return tensors;
}

std::vector<Tensor> EncodeBlocks(const WeightJob& job, int64_t axis, const NativeForm& form,
                                 ThreadPool& pool, WeightStatistics& statistics) {
  const Tensor simulated = job.Simulate(pool, statistics);
  const std::span<const float> values = simulated.values<float>();
  const RowView view{axis == 1, form.num_rows};
  std::vector<int8_t> codes(values.size());
  std::vector<Tensor> tensors(2);
  tensors[1].bytes.resize(static_cast<size_t>(form.num_rows * form.num_blocks()) * sizeof(float));
  const std::span<float> scales = tensors[1].values<float>();
  pool.ParallelFor(static_cast<size_t>(form.num_rows), [&](size_t task) {
    const auto row = static_cast<int64_t>(task);
    for (int64_t block = 0; block < form.num_blocks(); ++block) {
      const int64_t begin = block * form.block_size;
      const int64_t end = std::min(begin + form.block_size, form.row_length);
      scales[static_cast<size_t>(row * form.num_blocks() + block)] = ToWholeNumbers(
          end - begin, [&](int64_t i) { return values[view.At(row, begin + i, form.row_length)]; },
          [&](int64_t i, int64_t number) {
            codes[view.At(row, begin + i, form.row_length)] = static_cast<int8_t>(number);
          });
    }
  });
  tensors[0].bytes = PackRows(form.bits, form.num_rows, form.row_length, form.code_stride(),
                              [&](int64_t row, int64_t i) {
                                return codes[view.At(row, i, form.row_length)] + form.middle();
                              });
  return tensors;
}

}  // namespace

NativeForm NativeWeight::Form(bool is_matmul) const {
  NativeForm form;
  form.is_matmul = is_matmul;
  form.bits = bits;
  form.is_widened = is_widened;
  form.num_rows = dims[static_cast<size_t>(1 - axis)];
  form.row_length = dims[static_cast<size_t>(axis)];
  form.block_size = block_size;
  form.has_zero_points = has_zero_points;
  return form;
}

NativeWeight NativeWeightOf(std::shared_ptr<const IntegerWeight> weight) {
  const IntegerLayout layout = weight->Layout();
  const auto bits = static_cast<int>(ElementBits(weight->code_type()));
  const int stored_bits = weight->element_bits();
  NativeWeight native;
  native.why_not = bits > 8                ? fmt::format("codes of {} bits", bits)
                   : !layout.is_per_column ? "it is no matrix in blocks"
                                           : WhyNot(weight->source(), layout.block_size);
  if (!native.why_not.empty()) return native;
  const std::vector<int64_t>& dims = weight->source().dims;
  const std::optional<int64_t> axis = MatrixAxis(dims, weight->axis());
  if (!axis) {
    native.why_not = "it is no matrix in blocks";
    return native;
  }
  native.dims = MatrixDims(dims);
  native.num_stacked = dims.size() == 3 ? dims[0] : 1;
  native.axis = *axis;
  native.block_size = layout.block_size;
  native.bits = bits;
  native.is_widened = stored_bits < bits;
  const int64_t middle = IsSigned(*weight) ? 0 : int64_t{1} << (stored_bits - 1);
  native.has_zero_points = layout.zero_point != middle;
  native.encode = [weight = std::move(weight)](const NativeForm& form, ThreadPool& pool,
                                               WeightStatistics& statistics) {
    return EncodeIntegers(*weight, form, pool, statistics);
  };
  return native;
}

NativeWeight NativeWeightOf(std::shared_ptr<const WeightJob> job) {
  const formats::FormatSpec& spec = job->spec();
  NativeWeight native;
  native.why_not = !spec.is_blocked()            ? "it has no blocks"
                   : !spec.has_exponent_scales() ? "the scales of its blocks are no powers of two"
                                                 : WhyNot(job->source(), spec.block_size);
  if (!native.why_not.empty()) return native;
  const int bits = WholeNumberBits(spec);
  if (bits > 8) {
    native.why_not = fmt::format("its blocks hold whole numbers of {} bits", bits);
    return native;
  }
  native.dims = MatrixDims(job->source().dims);
  native.num_stacked = job->source().dims.size() == 3 ? job->source().dims[0] : 1;
  // A matrix that is read as one row of blocks has none along the other axis.
  const BlockView& view = job->view();
  native.axis = view.inner == 1 && view.axis == native.dims[1] ? 1 : 0;
  const int64_t other = native.dims[static_cast<size_t>(1 - native.axis)];
  if (view.axis != native.dims[static_cast<size_t>(native.axis)] ||
      (native.axis == 1 ? view.outer : view.inner) != other) {
    native.why_not = "its blocks run over rows";
    return native;
  }
  native.block_size = spec.block_size;
  native.bits = bits <= 4 ? 4 : 8;
  native.encode = [job = std::move(job), axis = native.axis](
                      const NativeForm& form, ThreadPool& pool, WeightStatistics& statistics) {
    return EncodeBlocks(*job, axis, form, pool, statistics);
  };
  return native;
}

}  // namespace bitpress::weights
