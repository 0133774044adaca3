// The weight of a convolution in blocks, arranged for the kernels of block_convolutions.h. It is
// made once from the codes of a packed tensor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/thread_pool.h"
#include "formats/block_convolutions.h"
#include "formats/block_units.h"
#include "formats/packed_tensor.h"
#include "kernels/aligned_vector.h"
#include "kernels/column_codes.h"
#include "kernels/tile_convolution_units.h"

namespace bitpress::kernels {

// The output channels whose numbers lie next to each other: whole tiles of all kernels.
inline constexpr size_t kOutputGroup = 12;

// The output channels of a panel, but for the last one, which may be half as wide.
inline constexpr size_t kWidePanel = 32;

// The parts of a convolution that its node knows: channels, outputs, groups, kernel, strides,
// dilations and pads. Its images and sizes of the input follow with each run.
class ConvolutionWeights {
 public:
  // Takes the parts of a packed tensor. Throws Error(kInvalidArgument) if a part has another size
  // than formats::SizesOf says. REQUIRES: formats::WhyNoConvolution(formats) is empty.
  ConvolutionWeights(const formats::ConvolutionFormats& formats,
                     const formats::ConvolutionShape& shape, formats::WeightBlocks blocks,
                     const formats::PackedView& packed, ThreadPool& pool);

  const formats::FormatSpec& input_format() const { return input_; }
  // Returns the channels that the input's quantizer takes together.
  size_t input_block() const { return static_cast<size_t>(formats::BlockOf(input_)); }
  const formats::ConvolutionShape& shape() const { return shape_; }
  formats::ProductSums sums() const { return sums_; }
  // Returns whether columns are taken as codes: those of whole products, and of parts in tiles.
  bool has_codes() const { return form_.has_value(); }
  // Returns whether every channel has a kernel and an output of its own, and products are those of
  // floats.
  bool is_depthwise() const;

  // --- Columns as codes ---

  ColumnForm form() const { return *form_; }
  // Returns the values of kTileRows output channels from `output` on, a multiple of it, as
  // bfloat16 in the order of form(): for each block a tile, or one of each kTileDepth elements.
  // tile_depth() elements are in a block, which zeros fill up. REQUIRES: IsInTiles(form()).
  const uint16_t* tiles(size_t output) const {
    return tiles_.data() + output * num_blocks_ * tile_depth_;
  }
  size_t tile_depth() const { return tile_depth_; }
  // Returns whether tiles(output) are those of AMX, not for the vectors in their place.
  bool are_for_amx() const { return are_for_amx_; }
  // The least unit of the input that tiles take.
  uint8_t least_tile_column() const { return least_tile_column_; }
  // Zero point of the packed byte columns.
  int offset() const { return offset_; }
  // The most pieces of four bytes whose products, added in pairs, stay within 16 bits.
  size_t pieces_in_words() const { return pieces_in_words_; }
  // The channels of a block, and the blocks of a segment.
  size_t block_size() const { return block_size_; }
  size_t blocks_per_segment() const { return blocks_per_segment_; }
  // The channels and the pieces of block b of a segment, and those of a whole block.
  size_t channels_of(size_t block) const;
  size_t pieces_of(size_t block) const;
  size_t pieces_per_block() const { return pieces_of(0); }
  size_t pieces_per_output() const { return pieces_per_output_; }
  // Return what an output channel multiplies with, block after block, each kOutputGroup numbers
  // behind the one before: pieces of four signed bytes or two words; the units of its blocks; and
  // the bits from which each block's sum is counted: those of kWholeStart less what the offset
  // adds. The numbers of the next output channels of its group lie next to its own.
  const int32_t* pieces(size_t output) const {
    return pieces_.data() + Place(output, pieces_per_output_);
  }
  const float* units(size_t output) const { return units_.data() + Place(output, num_blocks_); }
  const int32_t* starts(size_t output) const { return starts_.data() + Place(output, num_blocks_); }

  // --- Columns of floats ---

  // Returns the values of an output channel in the order in which they are summed. REQUIRES:
  // has_panels() is false.
  const float* values(size_t output) const { return values_.data() + output * depth_; }
  size_t depth() const { return depth_; }
  // A value multiplies this channel of the group, at this position of the kernel.
  struct Factor {
    size_t channel, position;
  };
  const std::vector<Factor>& factors() const { return factors_; }
  // The sizes of the parts, where there are any.
  const std::vector<size_t>& part_sizes() const { return part_sizes_; }
  // Returns the values of kPanelColumns output channels from `output` on, a multiple of it,
  // position after position. Channels that fill up have zeros. REQUIRES: is_depthwise().
  const float* taps(size_t output) const { return taps_.data() + output * depth_; }
  // Returns whether vectors hold output channels: those of large sums in parts.
  bool has_panels() const { return !panels_.empty(); }
  // Returns the values of panel_width(output) output channels from `output` on, a multiple of
  // kWidePanel, as bfloat16, in the order in which they are summed: those of all these channels are
  // neighbours. Channels that fill up have zeros. REQUIRES: has_panels().
  const uint16_t* panel(size_t output) const { return panels_.data() + output * depth_; }
  size_t panel_width(size_t output) const;

 private:
  // Lets tiles multiply parts, if they can.
  bool ChooseTilesOfParts();
  // Sets the order in which floats are summed, and brings the values into it.
  void OrderValues();
  // Returns where the first of an output's `count` numbers lies.
  static size_t Place(size_t output, size_t count) {
    return output / kOutputGroup * count * kOutputGroup + output % kOutputGroup;
  }
  void ChooseForm(const formats::ConvolutionFormats& formats, bool may_be_tiles);
  // Returns whether tiles multiply the weight faster than vectors would.
  bool IsQuickInTiles() const;
  void Arrange(const formats::ConvolutionFormats& formats, ThreadPool& pool);
  void ArrangeTaps();
  // Returns whether sums in parts are faster with vectors of output channels, and panels hold them.
  bool FitsPanels() const;
  void ArrangePanels();
  // Takes an output channel apart, whose values lie channel after channel.
  void TakeOutput(const formats::BlockUnits& rule, size_t output, const float* values);
  void WriteTile(size_t output, size_t block, std::span<const float> values);

  formats::FormatSpec input_;
  formats::ConvolutionShape shape_;
  formats::ProductSums sums_;
  bool are_for_amx_;
  std::optional<ColumnForm> form_;
  int offset_ = 0;
  size_t pieces_in_words_ = 0;
  size_t block_size_ = 0, blocks_per_segment_ = 0, num_blocks_ = 0, pieces_per_output_ = 0;
  size_t depth_ = 0;
  std::vector<int32_t> pieces_, starts_;
  std::vector<float> units_, values_;
  std::vector<Factor> factors_;
  std::vector<size_t> part_sizes_;
  AlignedVector<float> taps_;
  AlignedVector<uint16_t> panels_;
  size_t tile_depth_ = 0;
  uint8_t least_tile_column_ = kLeastTileColumn;
  AlignedVector<uint16_t> tiles_;
};

}  // namespace bitpress::kernels
