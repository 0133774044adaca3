#include "kernels/convolution_weights.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/round_up.h"
#include "kernels/block_products.h"
#include "kernels/byte_codes.h"
#include "kernels/pack_tensor.h"
#include "kernels/product_panels.h"
#include "kernels/tile_convolution_units.h"
#include "kernels/tile_rows.h"
#include "kernels/whole_block.h"

namespace bitpress::kernels {
namespace {

// Returns whether tiles take all units, which are 0 where there is no output.
bool FitTiles(const std::vector<float>& units) {
  return std::ranges::all_of(units, [](float unit) {
    return unit == 0 || (unit >= kLeastTileWeight && unit <= kLargestTileWeight);
  });
}

}  // namespace

ConvolutionWeights::ConvolutionWeights(const formats::ConvolutionFormats& formats,
                                       const formats::ConvolutionShape& shape,
                                       formats::WeightBlocks blocks,
                                       const formats::PackedView& packed, ThreadPool& pool)
    : input_(formats.input),
      shape_(shape),
      sums_(formats::SumsOf(formats, shape, blocks)),
      are_for_amx_(HasTiles()),
      depth_(static_cast<size_t>(shape.channels_of_group() * shape.positions())) {
  const bool is_along_all = blocks == formats::WeightBlocks::kAlongAll;
  const int64_t axis = is_along_all ? static_cast<int64_t>(depth_) : shape.channels_of_group();
  const int64_t inner = is_along_all ? 1 : shape.positions();
  const auto outputs = static_cast<size_t>(shape.outputs);
  values_.resize(outputs * depth_);
  UnpackTensor(formats.weight, shape.outputs, axis, inner, packed, values_, pool);
  if (is_depthwise()) {
    ArrangeTaps();
    return;
  }
  if (sums_ != formats::ProductSums::kWhole && !ChooseTilesOfParts()) {
    OrderValues();
    if (FitsPanels()) ArrangePanels();
    return;
  }
  block_size_ = input_block();
  if (sums_ == formats::ProductSums::kWhole) ChooseForm(formats, /*may_be_tiles=*/true);
  Arrange(formats, pool);
  if (form_ == ColumnForm::kTiles && !FitTiles(units_)) {
    tiles_ = {};
    ChooseForm(formats, /*may_be_tiles=*/false);
    Arrange(formats, pool);
  }
  values_ = {};
}

bool ConvolutionWeights::ChooseTilesOfParts() {
  // Parts must be those of tiles, and blocks of the input.
  if (!HasQuickParts() || sums_ != formats::ProductSums::kParts ||
      input_block() != size_t{formats::kPartElements}) {
    return false;
  }
  const std::optional<uint8_t> least = LeastColumnOfFloats(values_);
  if (!least) return false;
  least_tile_column_ = *least;
  form_ = are_for_amx_ ? ColumnForm::kTiles : ColumnForm::kPairs;
  return true;
}

void ConvolutionWeights::OrderValues() {
  const auto channels = static_cast<size_t>(shape_.channels_of_group());
  const auto positions = static_cast<size_t>(shape_.positions());
  if (sums_ == formats::ProductSums::kChain) {
    for (size_t k = 0; k < depth_; ++k) factors_.push_back({k / positions, k % positions});
    return;
  }
  constexpr size_t kPart = formats::kPartElements;
  for (size_t position = 0; position < positions; ++position) {
    for (size_t c = 0; c < channels; ++c) factors_.push_back({c, position});
    for (size_t c = 0; c < channels; c += kPart) {
      part_sizes_.push_back(std::min(kPart, channels - c));
    }
  }
  std::vector<float> ordered(depth_);
  for (size_t output = 0; output < static_cast<size_t>(shape_.outputs); ++output) {
    float* const values = values_.data() + output * depth_;
    for (size_t k = 0; k < depth_; ++k) {
      ordered[k] = values[factors_[k].channel * positions + factors_[k].position];
    }
    std::ranges::copy(ordered, values);
  }
}

void ConvolutionWeights::Arrange(const formats::ConvolutionFormats& formats, ThreadPool& pool) {
  const auto outputs = static_cast<size_t>(shape_.outputs);
  const auto channels = static_cast<size_t>(shape_.channels);
  const auto segments = static_cast<size_t>(shape_.positions());
  blocks_per_segment_ = (channels + block_size_ - 1) / block_size_;
  num_blocks_ = segments * blocks_per_segment_;
  const bool has_tiles = IsInTiles(*form_);
  tile_depth_ = has_tiles ? DepthInTiles(RoundUp(channels_of(0), 4)) : 0;
  pieces_per_output_ = 0;
  for (size_t b = 0; b < blocks_per_segment_; ++b) pieces_per_output_ += segments * pieces_of(b);
  const size_t padded = RoundUp(outputs, kOutputGroup);
  units_.assign(padded * num_blocks_, 0);
  if (has_tiles) {
    tiles_.assign(RoundUp(outputs, kTileRows) * num_blocks_ * tile_depth_, 0);
  } else {
    pieces_.resize(padded * pieces_per_output_);
    starts_.resize(padded * num_blocks_);
  }
  const formats::BlockUnits rule = *formats::BlockUnitsOf(formats.weight);
  pool.ParallelFor(
      outputs, [&](size_t output) { TakeOutput(rule, output, values_.data() + output * depth_); });
}

bool ConvolutionWeights::is_depthwise() const {
  return sums_ == formats::ProductSums::kChain && shape_.channels_of_group() == 1 &&
         shape_.outputs_of_group() == 1;
}

void ConvolutionWeights::ArrangeTaps() {
  const auto outputs = static_cast<size_t>(shape_.outputs);
  taps_.resize((outputs + kPanelColumns - 1) / kPanelColumns * kPanelColumns * depth_);
  for (size_t output = 0; output < outputs; ++output) {
    const size_t first = output / kPanelColumns * kPanelColumns;
    for (size_t k = 0; k < depth_; ++k) {
      taps_[first * depth_ + k * kPanelColumns + output % kPanelColumns] =
          values_[output * depth_ + k];
    }
  }
  values_ = {};
}

bool ConvolutionWeights::FitsPanels() const {
  // Sums are turned into planes, and output channels fill up vectors.
  constexpr size_t kLeastDepth = 64;
  const auto outputs = static_cast<size_t>(shape_.outputs);
  if (sums_ != formats::ProductSums::kParts || depth_ < kLeastDepth ||
      10 * outputs < 9 * RoundUp(outputs, kPanelColumns)) {
    return false;
  }
  return std::ranges::all_of(values_, [](float value) {
    return FloatOfBfloat16(Bfloat16Of(value)) == value || std::isnan(value);
  });
}

size_t ConvolutionWeights::panel_width(size_t output) const {
  return std::min(kWidePanel, RoundUp(static_cast<size_t>(shape_.outputs), kPanelColumns) - output);
}

void ConvolutionWeights::ArrangePanels() {
  const auto outputs = static_cast<size_t>(shape_.outputs);
  panels_.resize(RoundUp(outputs, kPanelColumns) * depth_);
  for (size_t output = 0; output < outputs; ++output) {
    const size_t column = output % kWidePanel, first = output - column;
    const size_t width = panel_width(first);
    uint16_t* const to = panels_.data() + first * depth_ + column;
    const float* const from = values_.data() + output * depth_;
    for (size_t k = 0; k < depth_; ++k) {
      // The bits of NaN may all be in the lower half.
      to[k * width] = Bfloat16Of(std::isnan(from[k]) ? std::nanf("") : from[k]);
    }
  }
  values_ = {};
}

void ConvolutionWeights::ChooseForm(const formats::ConvolutionFormats& formats, bool may_be_tiles) {
  const formats::BlockUnits rule = *formats::BlockUnitsOf(formats.weight);
  const formats::BlockUnits input = *formats::BlockUnitsOf(formats.input);
  const bool are_bytes = input.largest <= INT8_MAX && rule.largest <= INT8_MAX;
  const ByteCodes codes = ByteCodesOf(input.least(), input.largest);
  // Columns are rounded with the offset added, where ties become even numbers only if it is even.
  offset_ = codes.offset + codes.offset % 2;
  pieces_in_words_ = StepsInWords(codes.largest + codes.offset % 2, -rule.least());
  form_ = are_bytes && (HasDotProducts() || pieces_in_words_ > 0) ? ColumnForm::kBytes
                                                                  : ColumnForm::kWords;
  if (may_be_tiles && FitsTiles(rule) && FitsTiles(input) && IsQuickInTiles()) {
    form_ = ColumnForm::kTiles;
  }
  if (form_ != ColumnForm::kBytes) offset_ = 0;
}

bool ConvolutionWeights::IsQuickInTiles() const {
  if (!are_for_amx_) return HasQuickParts() && form_ == ColumnForm::kWords;
  // With less to sum, tiles cost more than their products gain. They take the time of 16 outputs.
  constexpr size_t kLeastDepth = 96;
  constexpr int64_t kLeastOutputs = 64;
  return form_ == ColumnForm::kWords || (depth_ >= kLeastDepth && shape_.outputs >= kLeastOutputs);
}

size_t ConvolutionWeights::channels_of(size_t block) const {
  return std::min(block_size_, static_cast<size_t>(shape_.channels) - block * block_size_);
}

size_t ConvolutionWeights::pieces_of(size_t block) const {
  const size_t elements = ElementsOfPiece(*form_);
  // Tiles read all blocks alike, and pairs four elements at a time.
  if (IsInTiles(*form_)) {
    return (are_for_amx_ ? tile_depth_ : RoundUp(channels_of(block), 4)) / elements;
  }
  return (channels_of(block) + elements - 1) / elements;
}

void ConvolutionWeights::WriteTile(size_t output, size_t block, std::span<const float> values) {
  const size_t row = output % kTileRows, depth = std::min(tile_depth_, kTileDepth);
  uint16_t* const to =
      tiles_.data() + ((output - row) * num_blocks_ + block * kTileRows) * tile_depth_;
  for (size_t k = 0; k < values.size(); ++k) {
    to[(k / depth * kTileRows + row) * depth + HalfOf(*form_, k % depth)] = Bfloat16Of(values[k]);
  }
}

void ConvolutionWeights::TakeOutput(const formats::BlockUnits& rule, size_t output,
                                    const float* values) {
  const auto segments = static_cast<size_t>(shape_.positions());
  const bool has_tiles = IsInTiles(*form_);
  const bool is_whole = sums_ == formats::ProductSums::kWhole;
  int32_t* piece = has_tiles ? nullptr : pieces_.data() + Place(output, pieces_per_output_);
  float* unit = units_.data() + Place(output, num_blocks_);
  int32_t* start = has_tiles ? nullptr : starts_.data() + Place(output, num_blocks_);
  const size_t count = ElementsOfPiece(*form_);
  std::vector<int16_t> numbers(block_size_ + count);
  std::vector<float> floats(block_size_);
  for (size_t s = 0; s < segments; ++s) {
    for (size_t b = 0; b < blocks_per_segment_; ++b) {
      const float* const of_block = values + b * block_size_ * segments + s;
      const size_t length = channels_of(b), block = s * blocks_per_segment_ + b;
      if (!is_whole) {
        for (size_t k = 0; k < length; ++k) floats[k] = of_block[k * segments];
        WriteTile(output, block, {floats.data(), length});
        continue;
      }
      std::ranges::fill(numbers, int16_t{0});
      const uint8_t taken = TakeApart(rule, of_block, segments, length, numbers.data());
      *unit = std::bit_cast<float>(uint32_t{taken} << 23U);
      if (has_tiles) {
        // Numbers of a tiny block are zeros, unlike its values.
        for (size_t k = 0; k < length; ++k) floats[k] = static_cast<float>(numbers[k]) * *unit;
        WriteTile(output, block, {floats.data(), length});
        unit += kOutputGroup;
        continue;
      }
      unit += kOutputGroup;
      int32_t sum = 0;
      for (size_t k = 0; k < length; ++k) sum += numbers[k];
      *start = kWholeStartBits - offset_ * sum;
      start += kOutputGroup;
      for (size_t p = 0; p < pieces_of(b); ++p) {
        *piece = PieceOf(*form_, &numbers[p * count], 0);
        piece += kOutputGroup;
      }
    }
  }
}

}  // namespace bitpress::kernels
