#include "kernels/product_panels.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "base/check.h"
#include "base/error.h"
#include "base/round_up.h"
#include "kernels/byte_codes.h"
#include "kernels/half.h"
#include "kernels/pack_tensor.h"
#include "kernels/tile_rows.h"
#include "kernels/whole_block.h"

namespace bitpress::kernels {
namespace {

using formats::BlockUnits;
using formats::FormatSpec;

constexpr int kMostTableCodes = 16;
constexpr size_t kTableGroup = 8, kSixGroup = 16, kByteGroup = 4;

// Returns the whole elements that a format has, in order.
std::vector<int> WholeElements(const FormatSpec& spec, const BlockUnits& rule) {
  std::vector<int> numbers;
  for (const float element : formats::ElementTable(spec)) {
    const bool is_float = spec.has_float_elements();
    const formats::FloatLayout layout =
        is_float ? formats::LayoutOf(spec.element_type) : formats::FloatLayout{};
    const int unit = is_float ? layout.bias - 1 + layout.mantissa_bits : 0;
    const int number = static_cast<int>(element * static_cast<float>(1 << unit));
    const int most_shift = spec.sub_block_size > 0 ? (1 << spec.sub_block_shift_bits) - 1 : 0;
    for (int shift = 0; shift <= most_shift; ++shift) numbers.push_back(number * (1 << shift));
  }
  std::ranges::sort(numbers);
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  BITPRESS_DCHECK(numbers.front() >= rule.least() && numbers.back() <= rule.largest);
  return numbers;
}

void CheckSizes(const FormatSpec& spec, const ColumnsView& view,
                const formats::PackedView& packed) {
  formats::SizesOf(spec, view.outer, view.axis, view.inner);  // or it throws: the product fits
  const auto count = static_cast<size_t>(view.outer * view.axis * view.inner);
  formats::CheckPackedSizes(spec, view.outer, view.axis, view.inner, count, packed.sizes());
}

// Returns whether all numbers of bfloat16 are zeros, or multiples of 2^-46 and below 2^46.
bool AreClose(std::span<const uint8_t> codes) {
  constexpr unsigned kLeast = formats::kUnitBias - 39, kEnd = formats::kUnitBias + 46;
  bool are_close = true;
  for (size_t i = 0; i < codes.size(); i += 2) {
    const unsigned magnitude = codes[i] | (codes[i + 1] & 0x7FU) << 8U;
    are_close &= magnitude == 0 || (magnitude >> 7U >= kLeast && magnitude >> 7U < kEnd);
  }
  return are_close;
}

// A part of a packed tensor: `outer` rows from the first, and blocks of a row from the first.
class Slicer {
 public:
  Slicer(const FormatSpec& spec, const ColumnsView& view, const formats::PackedView& packed)
      : spec_(spec), view_(view), packed_(packed) {}

  // Writes the values of columns [first, first + count) of a tensor with outer columns. REQUIRES:
  // first is a multiple of kPanelColumns.
  void Columns(int64_t first, int64_t count, std::vector<float>& values) const {
    const auto before = formats::SizesOf(spec_, first, view_.axis, view_.inner);
    Unpack(before, count, view_.axis, view_.inner, values);
  }

  // Writes the values of elements [begin, end) of all columns of a tensor with inner columns.
  // REQUIRES: begin is a multiple of blocks_per_slice() blocks.
  void Blocks(int64_t begin, int64_t end, std::vector<float>& values) const {
    Unpack(formats::SizesOf(spec_, 1, begin, view_.inner), 1, end - begin, view_.inner, values);
  }

  // Returns after how many blocks of such a tensor no byte holds parts of two slices.
  int64_t blocks_per_slice() const {
    constexpr int64_t kMostInGroup = 16;
    const int64_t shifts = spec_.sub_block_size > 0 ? spec_.block_size / spec_.sub_block_size : 0;
    int64_t blocks = 1;
    while (blocks * formats::BlockOf(spec_) * view_.inner % kMostInGroup != 0 ||
           blocks * shifts * view_.inner % kMostInGroup != 0) {
      blocks *= 2;
    }
    return blocks;
  }

 private:
  void Unpack(const formats::PackedSizes& before, int64_t outer, int64_t axis, int64_t inner,
              std::vector<float>& values) const {
    const auto sizes = formats::SizesOf(spec_, outer, axis, inner);
    const formats::PackedView part{packed_.codes.subspan(before.codes, sizes.codes),
                                   packed_.low_codes.subspan(before.low_codes, sizes.low_codes),
                                   packed_.scales.subspan(before.scales, sizes.scales),
                                   packed_.shifts.subspan(before.shifts, sizes.shifts)};
    values.resize(static_cast<size_t>(outer * axis * inner));
    ThreadPool alone(1);
    UnpackTensor(spec_, outer, axis, inner, part, values, alone);
  }

  const FormatSpec& spec_;
  const ColumnsView& view_;
  const formats::PackedView& packed_;
};

}  // namespace

ProductPanels::ProductPanels(const FormatSpec& spec, const ColumnsView& view,
                             const formats::PackedView& packed, ThreadPool& pool)
    : spec_(spec),
      rule_(*formats::BlockUnitsOf(spec)),
      summed_(view.summed()),
      num_columns_(static_cast<size_t>(view.num_columns())) {
  BITPRESS_DCHECK(!view.are_inner || view.outer == 1);
  CheckSizes(spec, view, packed);
  ChooseCodes();
  num_blocks_ = static_cast<size_t>(summed_.segments) * blocks_per_segment();
  const size_t blocks = num_panels() * num_blocks_;
  codes_.resize(blocks * block_bytes_);
  doubled_.resize(blocks * doubled_block_bytes());
  units_.resize(blocks * kPanelColumns, formats::kUnitBias);
  const Slicer slicer(spec_, view, packed);
  const auto axis = static_cast<size_t>(view.axis), inner = static_cast<size_t>(view.inner);
  const size_t block_size = block();
  if (view.are_inner) {
    const auto per_slice = static_cast<size_t>(slicer.blocks_per_slice());
    pool.ParallelFor((num_blocks_ + per_slice - 1) / per_slice, [&](size_t slice) {
      const size_t first = slice * per_slice, begin = first * block_size;
      std::vector<float> values;
      slicer.Blocks(static_cast<int64_t>(begin),
                    static_cast<int64_t>(std::min(begin + per_slice * block_size, axis)), values);
      for (size_t block = first; block < std::min(first + per_slice, num_blocks_); ++block) {
        const float* const of_block = values.data() + (block - first) * block_size * inner;
        for (size_t panel = 0; panel < num_panels(); ++panel) {
          WriteColumns(panel, block, of_block + panel * kPanelColumns, 1, inner,
                       std::min(block_size, axis - block * block_size));
        }
      }
    });
    ClassifyUnits();
    return;
  }
  pool.ParallelFor(num_panels(), [&](size_t panel) {
    std::vector<float> values;
    const size_t first = panel * kPanelColumns;
    slicer.Columns(static_cast<int64_t>(first),
                   static_cast<int64_t>(std::min(kPanelColumns, num_columns_ - first)), values);
    for (size_t block = 0; block < num_blocks_; ++block) {
      const size_t segment = block / blocks_per_segment();
      const size_t begin = block % blocks_per_segment() * block_size;
      WriteColumns(panel, block, values.data() + begin * inner + segment, axis * inner, inner,
                   std::min(block_size, axis - begin));
    }
  });
  ClassifyUnits();
}

void ProductPanels::ClassifyUnits() {
  if (rule_.is_one) {
    has_close_units_ = AreClose(codes_);
    return;
  }
  has_large_unit_ = std::ranges::any_of(
      units_, [](uint8_t unit) { return unit > kLargestQuickUnit && unit != formats::kNanUnit; });
  if (units_.empty()) return;
  const auto [least, largest] = std::ranges::minmax_element(units_);
  constexpr int kClose = 30;
  has_close_units_ = *least >= formats::kUnitBias - kClose &&
                     *largest <= formats::kUnitBias + kClose && *largest - *least <= kClose;
}

size_t ProductPanels::blocks_per_segment() const {
  return CeilDivide(static_cast<size_t>(summed_.length), block());
}

void ProductPanels::ChooseCodes() {
  // Blocks may be far longer than the sums.
  const size_t block =
      std::min(this->block(), RoundUp(static_cast<size_t>(summed_.length), kSixGroup));
  if (rule_.is_one) {
    kind_ = PanelCodes::kBfloat16;
    padded_block_ = RoundUp(block, kTableGroup);
    block_bytes_ = padded_block_ * kPanelColumns * sizeof(uint16_t);
    return;
  }
  if (!rule_.is_whole()) {
    kind_ = rule_.top == 0 ? PanelCodes::kE4M3 : PanelCodes::kE5M2;
    padded_block_ = RoundUp(block, kTableGroup);
    block_bytes_ = padded_block_ * kPanelColumns;
    return;
  }
  const std::vector<int> numbers = WholeElements(spec_, rule_);
  constexpr int kLargestOfSix = 31, kLargestOfEight = 127;
  const ByteCodes bytes = ByteCodesOf(rule_.least(), rule_.largest);
  offset_ = bytes.offset;
  largest_code_ = bytes.largest;
  if (numbers.size() <= kMostTableCodes) {
    kind_ = PanelCodes::kFour;
    padded_block_ = RoundUp(block, kTableGroup);
    block_bytes_ = padded_block_ * kPanelColumns / 2;
    for (size_t i = 0; i < numbers.size(); ++i) {
      table_[i] = static_cast<uint8_t>(numbers[i] + offset_);
      index_[table_[i]] = static_cast<uint8_t>(i);
    }
  } else if (rule_.largest <= kLargestOfSix && block % kSixGroup == 0) {
    kind_ = PanelCodes::kSix;
    padded_block_ = block;
    block_bytes_ = padded_block_ * kPanelColumns * 3 / 4;
  } else if (rule_.largest <= kLargestOfEight) {
    kind_ = PanelCodes::kEight;
    padded_block_ = RoundUp(block, kTableGroup);
    block_bytes_ = padded_block_ * kPanelColumns;
  } else {
    kind_ = PanelCodes::kNine;
    padded_block_ = RoundUp(block, kTableGroup);
    block_bytes_ = padded_block_ * kPanelColumns;
    offset_ = largest_code_ = 0;
  }
}

void ProductPanels::WriteColumns(size_t panel, size_t block, const float* values,
                                 size_t column_stride, size_t element_stride, size_t length) {
  std::vector<int16_t> numbers(padded_block_);
  std::vector<float> floats(padded_block_);
  std::vector<uint16_t> halves(padded_block_);
  uint8_t* const units = units_.data() + (panel * num_blocks_ + block) * kPanelColumns;
  for (size_t column = 0; column < kPanelColumns; ++column) {
    std::ranges::fill(numbers, int16_t{0});
    if (panel * kPanelColumns + column >= num_columns_) {
      if (rule_.is_whole()) WriteCodes(panel, block, column, numbers.data());
      continue;  // bytes of floats are zeros already
    }
    const float* const first = values + column * column_stride;
    if (rule_.is_one) {
      uint8_t* const codes = codes_.data() + (panel * num_blocks_ + block) * block_bytes_;
      for (size_t k = 0; k < length; ++k) {
        const uint16_t code = Bfloat16Of(first[k * element_stride]);
        std::memcpy(codes + (k / 2 * kPanelColumns + column) * 4 + k % 2 * 2, &code, sizeof(code));
      }
      continue;
    }
    if (rule_.is_whole()) {
      units[column] = TakeApart(rule_, first, element_stride, length, numbers.data());
      WriteCodes(panel, block, column, numbers.data());
      continue;
    }
    units[column] = TakeApart(rule_, first, element_stride, length, floats.data());
    uint8_t* const codes = codes_.data() + (panel * num_blocks_ + block) * block_bytes_ + column;
    FloatToHalf({floats.data(), length}, halves.data());  // exact
    for (size_t k = 0; k < length; ++k) {
      const uint32_t half = halves[k];
      const uint32_t byte =
          kind_ == PanelCodes::kE5M2 ? half >> 8U : (half >> 8U & 0x80U) | (half >> 7U & 0x7FU);
      codes[k * kPanelColumns] = static_cast<uint8_t>(byte);
    }
  }
}

void ProductPanels::WriteCodes(size_t panel, size_t block, size_t column, const int16_t* numbers) {
  constexpr size_t kPiece = 4 * kPanelColumns;  // four bytes of each column
  const size_t at = panel * num_blocks_ + block;
  uint8_t* const codes = codes_.data() + at * block_bytes_ + 4 * column;
  const auto code = [&](size_t k) { return static_cast<uint8_t>(numbers[k] + offset_); };
  switch (kind_) {
    case PanelCodes::kFour:
      for (size_t k = 0; k < padded_block_; k += kTableGroup) {
        for (size_t i = 0; i < 4; ++i) {
          const unsigned low = index_[code(k + i)], high = index_[code(k + i + 4)];
          codes[k / kTableGroup * kPiece + i] = static_cast<uint8_t>(low | high << 4U);
        }
      }
      break;
    case PanelCodes::kSix:
      for (size_t k = 0; k < padded_block_; k += kSixGroup) {
        uint8_t* const group = codes + k / kSixGroup * 3 * kPiece;
        for (size_t i = 0; i < 4; ++i) {
          const unsigned first = code(k + i), second = code(k + i + 4), third = code(k + i + 8),
                         fourth = code(k + i + 12);
          group[i] = static_cast<uint8_t>((first & 15U) | (second & 15U) << 4U);
          group[kPiece + i] = static_cast<uint8_t>((third & 15U) | (fourth & 15U) << 4U);
          group[2 * kPiece + i] = static_cast<uint8_t>(first >> 4U | second >> 4U << 2U |
                                                       third >> 4U << 4U | fourth >> 4U << 6U);
        }
      }
      break;
    case PanelCodes::kNine:
      for (size_t k = 0; k < padded_block_; k += 2) {
        const bool is_doubled = std::max(std::abs(numbers[k]), std::abs(numbers[k + 1])) > 127;
        uint8_t* const to = codes + k / kByteGroup * kPiece + k % 4;
        to[0] = static_cast<uint8_t>(is_doubled ? numbers[k] / 2 : numbers[k]);
        to[1] = static_cast<uint8_t>(is_doubled ? numbers[k + 1] / 2 : numbers[k + 1]);
        if (!is_doubled) continue;
        const size_t bit = k / kByteGroup * 2 * kPanelColumns + 2 * column + k % 4 / 2;
        doubled_[at * padded_block_ + bit / 8] |= static_cast<uint8_t>(1U << bit % 8);
      }
      break;
    default:
      for (size_t k = 0; k < padded_block_; ++k) {
        codes[k / kByteGroup * kPiece + k % 4] = code(k);
      }
  }
}

}  // namespace bitpress::kernels
