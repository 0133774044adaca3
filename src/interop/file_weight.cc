#include "interop/file_weight.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "formats/reference.h"

namespace bitpress::interop {
namespace {

// Returns whether all codes minus their zero points fit 8 bits.
bool FitsInt8(const FileWeight& weight) {
  for (int64_t i = 0; i < weight.num_rows * weight.row_length; ++i) {
    const int64_t block =
        i / weight.row_length * weight.num_blocks() + i % weight.row_length / weight.block_size;
    const int zero_point =
        weight.zero_points.empty() ? 0 : weight.zero_points[static_cast<size_t>(block)];
    const int code = weight.codes[static_cast<size_t>(i)] - zero_point;
    if (code < -128 || code > 127) return false;
  }
  return true;
}

// Makes codes around 0 of the integers and finer blocks of the same scales.
void MakeInt8(FileWeight& weight, int64_t block_size, bool has_offsets) {
  CutBlocks(weight, block_size);
  weight.format = "int8";
  if (has_offsets) weight.offsets.resize(weight.scales.size());
  if (weight.zero_points.empty()) return;
  for (size_t i = 0; i < weight.codes.size(); ++i) {
    const int64_t row = static_cast<int64_t>(i) / weight.row_length;
    const int64_t block = static_cast<int64_t>(i) % weight.row_length / weight.block_size;
    const auto at = static_cast<size_t>(row * weight.num_blocks() + block);
    weight.codes[i] = static_cast<int16_t>(weight.codes[i] - weight.zero_points[at]);
  }
  weight.zero_points.clear();
}

void MakeFloat(FileWeight& weight) {
  if (weight.is_float()) return;
  weight.floats.resize(weight.codes.size());
  for (int64_t row = 0; row < weight.num_rows; ++row) {
    const std::span<float> values(weight.floats.data() + row * weight.row_length,
                                  static_cast<size_t>(weight.row_length));
    std::vector<float> columns(values.size());
    weight.DecodeRow(row, columns);
    weight.AddOffsets(row, columns);
    for (size_t i = 0; i < columns.size(); ++i) {
      values[static_cast<size_t>(weight.InputOf(static_cast<int64_t>(i)))] = columns[i];
    }
  }
  weight.order.clear();
  weight.format = "none";
  weight.block_size = 0;
  weight.codes.clear();
  weight.scales.clear();
  weight.zero_points.clear();
  weight.offsets.clear();
}

template <typename T>
void Append(std::vector<T>& to, const std::vector<T>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

}  // namespace

void FileWeight::DecodeRow(int64_t row, std::span<float> values) const {
  BITPRESS_DCHECK(values.size() == static_cast<size_t>(row_length));
  const auto first = static_cast<size_t>(row * row_length);
  if (is_float()) {
    std::copy_n(floats.begin() + static_cast<std::ptrdiff_t>(first), row_length, values.begin());
    return;
  }
  for (size_t i = 0; i < values.size(); ++i) {
    const size_t block =
        static_cast<size_t>(row * num_blocks()) + i / static_cast<size_t>(block_size);
    const int zero_point = zero_points.empty() ? 0 : zero_points[block];
    values[i] = static_cast<float>(codes[first + i] - zero_point) * scales[block];
  }
}

void FileWeight::AddOffsets(int64_t row, std::span<float> values) const {
  if (offsets.empty()) return;
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] +=
        offsets[static_cast<size_t>(row * num_blocks()) + i / static_cast<size_t>(block_size)];
  }
}

formats::QParams FileWeight::Params(int64_t row, int64_t block) const {
  const auto at = static_cast<size_t>(row * num_blocks() + block);
  const float scale = scales[at];
  return {scale == 0 ? 1.0F : scale, zero_points.empty() ? 0 : zero_points[at]};
}

void CutBlocks(FileWeight& weight, int64_t block_size) {
  BITPRESS_DCHECK(weight.block_size % block_size == 0);
  const int64_t old_blocks = weight.num_blocks(), old_size = weight.block_size;
  weight.block_size = block_size;
  const auto cut = [&](auto& of_blocks) {
    if (of_blocks.empty()) return;
    const auto given = of_blocks;
    of_blocks.clear();
    for (int64_t row = 0; row < weight.num_rows; ++row) {
      for (int64_t block = 0; block < weight.num_blocks(); ++block) {
        const int64_t old = row * old_blocks + block * block_size / old_size;
        of_blocks.push_back(given[static_cast<size_t>(old)]);
      }
    }
  };
  cut(weight.scales);
  cut(weight.zero_points);
  cut(weight.offsets);
}

FileWeight WithRows(const FileWeight& weight, std::span<const int64_t> order) {
  FileWeight result = weight;
  result.num_rows = static_cast<int64_t>(order.size());
  const auto take = [&](auto& to, const auto& from) {
    if (from.empty()) return;
    const size_t length = from.size() / static_cast<size_t>(weight.num_rows);
    to.resize(order.size() * length);
    for (size_t row = 0; row < order.size(); ++row) {
      std::copy_n(from.begin() + order[row] * static_cast<std::ptrdiff_t>(length), length,
                  to.begin() + static_cast<std::ptrdiff_t>(row * length));
    }
  };
  take(result.codes, weight.codes);
  take(result.scales, weight.scales);
  take(result.zero_points, weight.zero_points);
  take(result.offsets, weight.offsets);
  take(result.floats, weight.floats);
  return result;
}

FileWeight JoinRows(std::vector<FileWeight> parts) {
  BITPRESS_DCHECK(!parts.empty());
  if (parts.size() == 1) return std::move(parts.front());
  const FileWeight& first = parts.front();
  const auto is_like = [&](const FileWeight& part) {
    return part.format == first.format && part.block_size == first.block_size &&
           part.zero_points.empty() == first.zero_points.empty() &&
           part.offsets.empty() == first.offsets.empty() && part.order == first.order;
  };
  if (!std::ranges::all_of(parts, is_like)) {
    int64_t block_size = 0;
    bool fits = true;
    for (const FileWeight& part : parts) {
      block_size = std::gcd(block_size, part.block_size);
      fits = fits && !part.is_float() && FitsInt8(part) && part.order == first.order;
    }
    const bool has_offsets =
        std::ranges::any_of(parts, [](const FileWeight& part) { return !part.offsets.empty(); });
    for (FileWeight& part : parts) {
      if (fits) {
        MakeInt8(part, block_size, has_offsets);
      } else {
        MakeFloat(part);
      }
    }
  }
  FileWeight joined = std::move(parts.front());
  for (size_t i = 1; i < parts.size(); ++i) {
    const FileWeight& part = parts[i];
    if (joined.type.find(part.type) == std::string::npos) joined.type += "+" + part.type;
    joined.num_rows += part.num_rows;
    Append(joined.codes, part.codes);
    Append(joined.scales, part.scales);
    Append(joined.zero_points, part.zero_points);
    Append(joined.offsets, part.offsets);
    Append(joined.floats, part.floats);
    if (joined.why_rounded.empty()) joined.why_rounded = part.why_rounded;
  }
  return joined;
}

float FloatOfHalf(uint16_t half) {
  return static_cast<float>(formats::ref::DecodeFloat(half, formats::ElementType::kFloat16));
}

float FloatOfBfloat16(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16U); }

std::vector<float> FloatsOf(std::string_view type, std::span<const std::byte> bytes) {
  if (type == "F32") {
    std::vector<float> values(bytes.size() / sizeof(float));
    std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
    return values;
  }
  std::vector<uint16_t> words(bytes.size() / sizeof(uint16_t));
  std::memcpy(words.data(), bytes.data(), words.size() * sizeof(uint16_t));
  std::vector<float> values(words.size());
  std::ranges::transform(words, values.begin(), type == "F16" ? FloatOfHalf : FloatOfBfloat16);
  return values;
}

}  // namespace bitpress::interop
