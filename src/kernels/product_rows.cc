#include "kernels/product_rows.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "kernels/fake_quantize.h"
#include "kernels/whole_block.h"

namespace bitpress::kernels {
namespace {

constexpr size_t kElementsPerTask = size_t{1} << 14;

}  // namespace

ProductRows::ProductRows(const ProductPanels& panels,
                         const std::optional<formats::FormatSpec>& format, RowForm form,
                         size_t num_rows)
    : format_(format),
      form_(form),
      summed_(panels.summed()),
      num_rows_(num_rows),
      block_(static_cast<size_t>(panels.spec().block_size)),
      padded_block_(panels.padded_block()),
      num_blocks_(panels.num_blocks()),
      blocks_per_segment_(panels.blocks_per_segment()),
      offset_(panels.offset()),
      elements_(num_rows * row_bytes()) {
  const auto depth = static_cast<size_t>(summed_.num_elements());
  rows_per_task_ = std::max<size_t>(1, kElementsPerTask / std::max<size_t>(1, depth));
  if (form == RowForm::kFloats) return;
  rule_ = *formats::BlockUnitsOf(*format);
  units_.resize(num_rows * num_blocks_);
  corrections_.resize(num_rows * num_blocks_);
}

void ProductRows::RunTask(size_t task, const float* a, size_t stride) {
  const auto depth = static_cast<size_t>(summed_.num_elements());
  const size_t first = task * rows_per_task_;
  const size_t last = std::min(first + rows_per_task_, num_rows_);
  std::vector<float> values(format_ ? depth : 0);
  for (size_t row = first; row < last; ++row) {
    const float* from = a + row * stride;
    if (format_) {
      FakeQuantizer(*format_, summed_.segments, summed_.length, 1).Run(from, values.data());
      from = values.data();
    }
    WriteRow(row, from);
  }
}

void ProductRows::WriteRow(size_t row, const float* values) {
  const auto length = static_cast<size_t>(summed_.length);
  uint8_t* const elements = elements_.data() + row * row_bytes();
  std::vector<int16_t> numbers(padded_block_);
  for (size_t block = 0; block < num_blocks_; ++block) {
    const size_t begin = block % blocks_per_segment_ * block_;
    const size_t count = std::min(block_, length - begin);
    const float* const from = values + block / blocks_per_segment_ * length + begin;
    uint8_t* const to = elements + block * padded_block_ * BytesOf(form_);
    if (form_ == RowForm::kFloats) {
      std::memcpy(to, from, count * sizeof(float));
      continue;
    }
    std::fill(numbers.begin() + static_cast<std::ptrdiff_t>(count), numbers.end(), int16_t{0});
    const uint8_t unit = TakeApart(rule_, from, 1, count, numbers.data());
    units_[row * num_blocks_ + block] =
        unit == formats::kNanUnit ? std::nanf("") : std::bit_cast<float>(uint32_t{unit} << 23U);
    int32_t sum = 0;
    for (size_t k = 0; k < count; ++k) sum += numbers[k];
    corrections_[row * num_blocks_ + block] = -offset_ * sum;
    if (form_ == RowForm::kBytes) {
      for (size_t k = 0; k < padded_block_; ++k) to[k] = static_cast<uint8_t>(numbers[k]);
      continue;
    }
    auto* const words = reinterpret_cast<int16_t*>(to);
    for (size_t k = 0; k < padded_block_; k += 4) {
      words[k] = numbers[k];
      words[k + 1] = numbers[k + 2];
      words[k + 2] = numbers[k + 1];
      words[k + 3] = numbers[k + 3];
    }
  }
}

}  // namespace bitpress::kernels
