#include "weights/standard_form.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include "base/check.h"
#include "formats/packed_tensor.h"
#include "weights/native_form.h"
#include "weights/whole_numbers.h"

namespace bitpress::weights {
namespace {

using formats::FormatSpec;

constexpr int64_t kFirstBlocks = 21;  // DequantizeLinear with block_size, INT4 and INT16
constexpr int64_t kFirstFloat4 = 23;
constexpr int64_t kFirstPowerOfTwoScales = 24;

bool HasFloat4Codes(const FormatSpec& spec) {
  return spec.element_type == formats::ElementType::kFloat4E2M1;
}

// Returns whether the codes are those of the format, and not whole numbers.
bool HasOwnCodes(const FormatSpec& spec) { return HasFloat8Codes(spec) || HasFloat4Codes(spec); }

DataType IntegerType(int bits) {
  return bits <= 4 ? DataType::kInt4 : bits <= 8 ? DataType::kInt8 : DataType::kInt16;
}

// Returns the reason why a weight has no standard form.
std::string WhyNot(const WeightJob& job, int64_t opset) {
  const FormatSpec& spec = job.spec();
  if (job.is_half()) return "it is FLOAT16, too coarse for scales";
  if (const int64_t first = StandardOpset(spec); opset < first) {
    return fmt::format("operator set {} is older than {}", opset, first);
  }
  if (!spec.is_blocked()) {
    const bool is_scaled_cast = job.is_scaled() && !HasFloat8Codes(spec);
    return is_scaled_cast ? fmt::format("{} has no scale in ONNX", spec.name) : "";
  }
  if (HasOwnCodes(spec)) return "";
  if (job.is_scaled()) return "it has a scale beside those of its blocks";
  if (!spec.has_exponent_scales()) return "the scales of its blocks are no powers of two";
  const int bits = WholeNumberBits(spec);
  return bits > 16 ? fmt::format("its blocks hold whole numbers of {} bits", bits) : "";
}

// Returns bytes of shared exponents as the floats they mean, times a scale.
Tensor ScalesOf(const FormatSpec& spec, std::span<const std::byte> bytes, float tensor_scale) {
  const auto table = formats::ScaleTable(spec);
  Tensor scales;
  scales.bytes.resize(bytes.size() * sizeof(float));
  std::ranges::transform(bytes, scales.values<float>().begin(), [&](std::byte code) {
    return table[std::to_integer<size_t>(code)] * tensor_scale;
  });
  return scales;
}

Tensor OneFloat(float value) {
  Tensor tensor;
  tensor.bytes.resize(sizeof(float));
  tensor.values<float>()[0] = value;
  return tensor;
}

std::vector<Tensor> EncodeOwnCodes(const WeightJob& job, const StandardForm& form, ThreadPool& pool,
                                   WeightStatistics& statistics) {
  const PackedStorage storage =
      StoragePacked(job.spec(), job.source().dims, job.view(), kFirstBlocks);
  std::vector<Tensor> tensors = job.Pack(storage.parts, pool, statistics);
  const float tensor_scale = job.is_scaled() ? tensors.back().values<float>()[0] : 1;
  if (job.is_scaled()) tensors.pop_back();
  if (form.is_cast) return tensors;
  if (form.block_size > 0 && form.scale_type == DataType::kFloat) {
    tensors[1] = ScalesOf(job.spec(), tensors[1].bytes, tensor_scale);
  } else if (form.block_size == 0 || form.has_tensor_scale) {
    tensors.push_back(OneFloat(tensor_scale));
  }
  return tensors;
}

template <typename Code>
std::vector<Tensor> EncodeWholeNumbers(const WeightJob& job, const StandardForm& form,
                                       ThreadPool& pool, WeightStatistics& statistics) {
  const Tensor simulated = job.Simulate(pool, statistics);
  const std::span<const float> values = simulated.values<float>();
  const auto [outer, axis, inner] = job.view();
  const int64_t num_blocks = (axis - 1) / form.block_size + 1;
  std::vector<Code> codes(values.size());
  std::vector<Tensor> tensors(2);
  tensors[1].bytes.resize(static_cast<size_t>(outer * num_blocks * inner) * sizeof(float));
  const std::span<float> scales = tensors[1].values<float>();
  // A task has the blocks that lie beside each other.
  pool.ParallelFor(static_cast<size_t>(outer * num_blocks), [&](size_t task) {
    const int64_t row = static_cast<int64_t>(task) / num_blocks;
    const int64_t begin = static_cast<int64_t>(task) % num_blocks * form.block_size;
    const int64_t count = std::min(form.block_size, axis - begin);
    for (int64_t column = 0; column < inner; ++column) {
      const auto at = [&, first = (row * axis + begin) * inner + column](int64_t i) {
        return static_cast<size_t>(first + i * inner);
      };
      scales[task * static_cast<size_t>(inner) + static_cast<size_t>(column)] = ToWholeNumbers(
          count, [&](int64_t i) { return values[at(i)]; },
          [&](int64_t i, int64_t number) { codes[at(i)] = static_cast<Code>(number); });
    }
  });
  const auto count = static_cast<int64_t>(codes.size());
  if (form.code_type == DataType::kInt4) {
    tensors[0].bytes = PackRows(4, 1, count, count, [&](int64_t /*row*/, int64_t i) {
      return int64_t{codes[static_cast<size_t>(i)]};
    });
  } else {
    const std::span<const std::byte> bytes = std::as_bytes(std::span(codes));
    tensors[0].bytes.assign(bytes.begin(), bytes.end());
  }
  return tensors;
}

}  // namespace

void StandardForm::FitBlocks(bool fills) {
  const int64_t length = code_dims[static_cast<size_t>(axis)];
  block_size = std::min(block_size, length);
  if (fills) num_filled = (block_size - length % block_size) % block_size;
}

void FillBlocks(const StandardForm& form, Tensor& codes) {
  if (form.num_filled == 0) return;
  const auto axis = static_cast<size_t>(form.axis);
  const size_t bits = ElementBits(form.code_type);
  const auto inner = static_cast<size_t>(NumElements(std::span(form.code_dims).subspan(axis + 1)));
  const size_t row = static_cast<size_t>(form.code_dims[axis]) * inner;
  const size_t filled_row = row + static_cast<size_t>(form.num_filled) * inner;
  const size_t num_rows = static_cast<size_t>(NumElements(form.code_dims)) / row;
  std::vector<std::byte> bytes((num_rows * filled_row * bits + 7) / 8);
  if (bits >= 8) {
    for (size_t i = 0; i < num_rows; ++i) {
      std::memcpy(bytes.data() + i * filled_row * bits / 8, codes.bytes.data() + i * row * bits / 8,
                  row * bits / 8);
    }
  } else {
    const std::byte mask{static_cast<uint8_t>((1U << bits) - 1)};
    for (size_t i = 0; i < num_rows * row; ++i) {
      const size_t from = i * bits;
      const size_t to = (i / row * filled_row + i % row) * bits;
      bytes[to / 8] |= (codes.bytes[from / 8] >> from % 8 & mask) << to % 8;
    }
  }
  codes.bytes = std::move(bytes);
}

int64_t StandardOpset(const FormatSpec& spec) {
  if (HasFloat4Codes(spec)) {
    return spec.has_exponent_scales() ? kFirstPowerOfTwoScales : kFirstFloat4;
  }
  if (spec.is_blocked()) return kFirstBlocks;
  return HasFloat8Codes(spec) ? kFirstFloat8Opset : kFirstPackedOpset;
}

StandardForm StandardFormOf(const WeightJob& job, int64_t opset, int64_t asked_opset,
                            bool fills_blocks) {
  const FormatSpec& spec = job.spec();
  StandardForm form;
  form.why_not = WhyNot(job, opset);
  if (!form.why_not.empty()) return form;
  form.code_type =
      HasOwnCodes(spec) || !spec.is_blocked() ? spec.onnx_type : IntegerType(WholeNumberBits(spec));
  form.is_cast = !spec.is_blocked() && !HasFloat8Codes(spec);
  form.code_dims = job.source().dims;
  if (!spec.is_blocked()) return form;
  const size_t axis = job.axis();
  form.axis = static_cast<int64_t>(axis);
  if (form.code_dims[axis] != job.view().axis) {  // a row of several dimensions
    form.code_dims.resize(axis + 1);
    form.code_dims[axis] = job.view().axis;
  }
  form.block_size = spec.block_size;
  form.scale_dims = form.code_dims;
  form.scale_dims[axis] = (form.code_dims[axis] - 1) / form.block_size + 1;
  form.FitBlocks(fills_blocks);
  if (!spec.has_exponent_scales()) {
    form.scale_type = DataType::kFloat8E4M3FN;
    form.has_tensor_scale = true;
    return form;
  }
  const bool is_microscaling =
      HasFloat4Codes(spec) || (HasFloat8Codes(spec) && asked_opset >= kFirstPowerOfTwoScales);
  if (is_microscaling && !job.is_scaled()) form.scale_type = DataType::kFloat8E8M0;
  return form;
}

std::vector<Tensor> EncodeStandard(const WeightJob& job, const StandardForm& form, ThreadPool& pool,
                                   WeightStatistics& statistics) {
  BITPRESS_DCHECK(form.why_not.empty());
  const auto encode = form.is_cast || HasOwnCodes(job.spec()) ? EncodeOwnCodes
                      : form.code_type == DataType::kInt16    ? EncodeWholeNumbers<int16_t>
                                                              : EncodeWholeNumbers<int8_t>;
  std::vector<Tensor> tensors = encode(job, form, pool, statistics);
  FillBlocks(form, tensors[0]);
  return tensors;
}

}  // namespace bitpress::weights
