// Products in blocks without vector instructions, for processors that have none of the targets.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "kernels/byte_codes.h"
#include "kernels/product_task.h"
#include "kernels/tile_rows.h"

namespace bitpress::kernels {
namespace {

// Decodes a block of a panel: element k of a column at out[k * kPanelColumns + column].
class PortableReader {
 public:
  explicit PortableReader(const ProductPanels& panels) : panels_(panels) {}

  void Decode(size_t panel, size_t block, float* out) const {
    const uint8_t* const codes = panels_.codes(panel) + block * panels_.block_bytes();
    const uint8_t* const doubled = panels_.doubled(panel) + block * panels_.doubled_block_bytes();
    for (size_t k = 0; k < panels_.padded_block(); ++k) {
      for (size_t column = 0; column < kPanelColumns; ++column) {
        out[k * kPanelColumns + column] = Element(codes, doubled, k, column);
      }
    }
  }

 private:
  static constexpr size_t kPiece = 4 * kPanelColumns;

  static unsigned HalfByte(const uint8_t* pieces, size_t k, size_t column) {
    const unsigned byte = pieces[k / 8 * kPiece + 4 * column + k % 4];
    return k % 8 < 4 ? byte & 15U : byte >> 4U;
  }

  float Element(const uint8_t* codes, const uint8_t* doubled, size_t k, size_t column) const {
    const auto byte = [&] { return codes[k / 4 * kPiece + 4 * column + k % 4]; };
    const auto whole = [&](unsigned code) {
      return static_cast<float>(CodeOfByte(static_cast<uint8_t>(code)) - panels_.offset());
    };
    switch (panels_.codes_kind()) {
      case PanelCodes::kFour:
        return whole(panels_.table()[HalfByte(codes, k, column)]);
      case PanelCodes::kSix: {
        const uint8_t* const group = codes + k / 16 * 3 * kPiece;
        const unsigned upper = group[2 * kPiece + 4 * column + k % 4];
        return whole(HalfByte(group, k % 16, column) | (upper >> 2 * (k % 16 / 4) & 3U) << 4U);
      }
      case PanelCodes::kEight:
        return whole(byte());
      case PanelCodes::kNine: {
        const size_t bit = k / 4 * 2 * kPanelColumns + 2 * column + k % 4 / 2;
        const bool is_doubled = (doubled[bit / 8] >> bit % 8 & 1U) != 0;
        return static_cast<float>(static_cast<int8_t>(byte()) * (is_doubled ? 2 : 1));
      }
      case PanelCodes::kE4M3:
        return SmallFloat(codes[k * kPanelColumns + column], 3, 15);
      case PanelCodes::kE5M2:
        return SmallFloat(codes[k * kPanelColumns + column], 2, 15);
      case PanelCodes::kBfloat16: {
        uint16_t code;
        std::memcpy(&code, codes + k / 2 * kPiece + 4 * column + k % 2 * 2, sizeof(code));
        return FloatOfBfloat16(code);
      }
    }
    return 0;
  }

  static float SmallFloat(unsigned byte, int mantissa_bits, int bias) {
    const unsigned magnitude = byte & 0x7FU;
    const unsigned exponent = magnitude >> static_cast<unsigned>(mantissa_bits);
    const unsigned one = 1U << static_cast<unsigned>(mantissa_bits);
    const unsigned mantissa = (magnitude & (one - 1)) | (exponent > 0 ? one : 0);
    const int power = static_cast<int>(exponent > 0 ? exponent : 1) - bias - mantissa_bits;
    const float value = std::ldexp(static_cast<float>(mantissa), power);
    return (byte & 0x80U) != 0 ? -value : value;
  }

  const ProductPanels& panels_;
};

// Adds a block of a row of floats to the sums of a panel.
void AddFloatBlock(const ProductTask& task, size_t row, size_t block, const float* elements,
                   const float* units, formats::PartedSum* sums) {
  const ProductPanels& panels = *task.panels;
  const size_t depth = panels.padded_block();
  const bool is_chain = task.sums == formats::ProductSums::kChain;
  const auto* const floats =
      reinterpret_cast<const float*>(task.rows->elements(row)) + block * depth;
  for (size_t column = 0; column < kPanelColumns; ++column) {
    const float unit = std::isinf(units[column]) ? std::nanf("") : units[column];
    if (!is_chain && block % panels.blocks_of_part() == 0) sums[column].EndPart();
    for (size_t k = 0; k < depth; ++k) {
      if (!is_chain && k > 0 && k % panels.part_depth() == 0) sums[column].EndPart();
      sums[column].Add(is_chain ? 0 : k, floats[k], elements[k * kPanelColumns + column] * unit);
    }
  }
}

// Adds a block of a row of whole numbers to the sums of a panel.
void AddWholeBlock(const ProductTask& task, size_t row, size_t block, const float* elements,
                   const float* units, formats::PartedSum* sums) {
  const size_t depth = task.panels->padded_block();
  constexpr size_t kPlaceOfWord[] = {0, 2, 1, 3};
  const uint8_t* const row_elements =
      task.rows->elements(row) + block * depth * BytesOf(task.rows->form());
  int32_t whole[kPanelColumns] = {};
  for (size_t k = 0; k < depth; ++k) {
    int32_t factor = static_cast<int8_t>(row_elements[k]);
    if (task.rows->form() == RowForm::kWords) {
      int16_t word;
      std::memcpy(&word, row_elements + 2 * (k / 4 * 4 + kPlaceOfWord[k % 4]), sizeof(word));
      factor = word;
    }
    for (size_t column = 0; column < kPanelColumns; ++column) {
      whole[column] += factor * static_cast<int32_t>(elements[k * kPanelColumns + column]);
    }
  }
  const float row_unit = task.rows->units(row)[block];
  for (size_t column = 0; column < kPanelColumns; ++column) {
    float& sum = sums[column].total;
    sum = std::fma(static_cast<float>(whole[column]) * units[column], row_unit, sum);
  }
}

}  // namespace

void MultiplyPortably(const ProductTask& task) {
  const ProductPanels& panels = *task.panels;
  const ProductOutput& output = *task.output;
  const PortableReader reader(panels);
  const size_t num_rows = task.row_end - task.row_begin;
  std::vector<float> elements(panels.padded_block() * kPanelColumns);
  const auto add = task.rows->form() == RowForm::kFloats ? AddFloatBlock : AddWholeBlock;
  std::vector<formats::PartedSum> sums(num_rows * kPanelColumns);
  for (size_t panel = task.panel_begin; panel < task.panel_end; ++panel) {
    std::ranges::fill(sums, formats::PartedSum{});
    for (size_t block = 0; block < panels.num_blocks(); ++block) {
      reader.Decode(panel, block, elements.data());
      float units[kPanelColumns];
      for (size_t column = 0; column < kPanelColumns; ++column) {
        const uint32_t unit = panels.units(panel)[block * kPanelColumns + column];
        units[column] = std::bit_cast<float>(unit << 23U);
      }
      for (size_t i = 0; i < num_rows; ++i) {
        add(task, task.row_begin + i, block, elements.data(), units, &sums[i * kPanelColumns]);
      }
    }
    const size_t first = panel * kPanelColumns;
    for (size_t i = 0; i < num_rows; ++i) {
      float* const to = output.data + (task.row_begin + i) * output.stride + first;
      for (size_t c = 0; c < kPanelColumns && first + c < panels.num_columns(); ++c) {
        sums[i * kPanelColumns + c].EndPart();
        float sum = sums[i * kPanelColumns + c].total;
        if (output.bias != nullptr) sum += output.bias[first + c];
        sum = sum < output.least ? output.least : sum;
        to[c] = sum > output.largest ? output.largest : sum;
      }
    }
  }
}

}  // namespace bitpress::kernels
