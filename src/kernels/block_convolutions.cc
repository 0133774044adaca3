#include "kernels/block_convolutions.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/block_convolutions.cc"
#include <hwy/foreach_target.h>
// Behind foreach_target.h, as it includes this file once a target.
#include <hwy/highway.h>

#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "base/round_up.h"
#include "kernels/block_products.h"
#include "kernels/dispatch.h"
#include "kernels/tile_rows.h"

// The order matters: these stand around the code.
// clang-format off
#include "kernels/products_without_dot.inc"
#include "kernels/block_convolutions-inl.h"
#include "kernels/convolution_floats-inl.h"
#include "kernels/convolution_panels-inl.h"
#ifndef BITPRESS_PRODUCTS_WITH_DOT
namespace bitpress::kernels::HWY_NAMESPACE {
void ConvolveWhole(const ConvolutionTask& task) { ConvolveCodesPortably(task); }
void ConvolveFloats(const ConvolutionTask& task) { ConvolveFloatsPortably(task); }
void ConvolvePanels(const ConvolutionTask& task) { ConvolveFloatsPortably(task); }
}  // namespace bitpress::kernels::HWY_NAMESPACE
#endif
#include "kernels/products_end.inc"
// clang-format on

#if HWY_ONCE
namespace bitpress::kernels {
namespace {

constexpr ConvolutionKernel kWholeTable[] = BITPRESS_DISPATCH_TABLE(ConvolveWhole);
constexpr ConvolutionKernel kFloatsTable[] = BITPRESS_DISPATCH_TABLE(ConvolveFloats);
constexpr ConvolutionKernel kPanelsTable[] = BITPRESS_DISPATCH_TABLE(ConvolvePanels);

// Columns that are quantized at a time: their floats stay in the first-level cache.
constexpr size_t kColumns = 128;
// The bytes of a tile, which stay in the second-level cache.
constexpr size_t kTileBytes = size_t{1} << 17;
constexpr size_t kMostPositions = size_t{1} << 12;
// x86 has dot products of words where it has those of bytes.
constexpr bool kHasDotOfWords = !BITPRESS_IS_ARM64;
// With fewer tiles several tasks share one.
constexpr size_t kManyTiles = 8;

formats::ConvolutionShape WithInput(formats::ConvolutionShape shape, int64_t images,
                                    std::array<int64_t, 2> input_size) {
  shape.images = images;
  shape.input = input_size;
  return shape;
}

}  // namespace

BlockConvolution::BlockConvolution(const ConvolutionWeights& weights, int64_t images,
                                   std::array<int64_t, 2> input_size, const float* x,
                                   const ConvolutionOutput& output)
    : weights_(weights),
      shape_(WithInput(weights.shape(), images, input_size)),
      grid_(shape_),
      x_(x),
      output_(output),
      quantizer_(weights.input_format(), 1, formats::BlockOf(weights.input_format()), kColumns) {
  if (grid_.num_positions() == 0 || images == 0) return;
  if (weights.is_depthwise()) {
    depthwise_.emplace(weights, shape_, x, output);
    return;
  }
  weights.has_codes() ? PlanCodes() : PlanFloats();
  // There is room for vectors of outputs, whole rows, and what reading writes behind. (Strides of
  // powers of two would also put many pieces into one set of the cache.)
  const size_t positions = tile_positions_ + grid_.reach();
  const size_t rows = CeilDivide(positions, grid_.pitch()) * grid_.pitch();
  stored_ = RoundUp(std::max(rows, RoundUp(positions, kPanelColumns)), kStripPositions) +
            2 * kPanelColumns;
  tiles_per_image_ = CeilDivide(grid_.num_positions(), tile_positions_);
  num_tiles_ = static_cast<size_t>(images) * tiles_per_image_;
  if (!weights.has_codes()) {
    for (const ConvolutionWeights::Factor& factor : weights.factors()) {
      const PlaneGrid::Tap& tap = grid_.taps()[factor.position];
      offsets_.push_back(factor.channel * channel_floats() + tap.phase * stored_ + tap.offset);
    }
    ShareTiles();
    return;
  }
  size_t end = 0;
  for (size_t b = 0; b < weights.blocks_per_segment(); ++b) {
    block_codes_.push_back(end);
    end += 4 * stored_ * weights.pieces_of(b);
  }
  block_codes_.push_back(end);
  for (const PlaneGrid::Tap& tap : grid_.taps()) {
    for (size_t b = 0; b < weights.blocks_per_segment(); ++b) {
      const size_t units = (tap.phase * weights.blocks_per_segment() + b) * stored_ + tap.offset;
      blocks_.push_back(
          {tap.phase * end + block_codes_[b] + 4 * tap.offset, units, weights.pieces_of(b)});
    }
  }
  ShareTiles();
}

void BlockConvolution::PlanCodes() {
  // A tile reads positions twice that are in reach of the one before it.
  const size_t bytes = 4 * grid_.num_phases() * weights_.pieces_per_output() / grid_.taps().size();
  const size_t in_cache =
      std::clamp(kTileBytes / std::max<size_t>(1, bytes), kStripPositions, kMostPositions);
  const size_t wanted = std::min(std::max(in_cache, 4 * grid_.reach()), grid_.num_positions());
  tile_positions_ = RoundUp(wanted, kStripPositions);
  outputs_per_chunk_ = static_cast<size_t>(shape_.outputs);
}

void BlockConvolution::PlanFloats() {
  // Chunks have whole blocks and whole groups.
  const size_t block = weights_.input_block();
  const auto of_group = static_cast<size_t>(shape_.channels_of_group());
  const size_t channels = std::min(std::lcm(block, of_group), static_cast<size_t>(shape_.channels));
  groups_per_chunk_ = channels / of_group;
  chunk_channels_ = channels;
  chunks_ = CeilDivide(static_cast<size_t>(shape_.groups), groups_per_chunk_);
  // Tiles are whole rows. One reads rows twice that are in reach of the one before it.
  const size_t bytes = channels * grid_.num_phases() * sizeof(float);
  const size_t wanted = std::max(4 * kTileBytes / bytes, 4 * grid_.reach());
  outputs_per_chunk_ = groups_per_chunk_ * static_cast<size_t>(shape_.outputs_of_group());
  if (grid_.has_the_input()) {
    strip_ = weights_.has_panels() ? kPanelPositions : kStripPositions;
    tile_positions_ =
        std::min(RoundUp(std::min(wanted, kMostPositions), strip_), grid_.num_positions());
    return;
  }
  const size_t rows = std::max<size_t>(1, wanted / grid_.pitch());
  const size_t all_rows = CeilDivide(grid_.num_positions(), grid_.pitch());
  tile_positions_ = std::min(rows, all_rows) * grid_.pitch();
}

void BlockConvolution::ShareTiles() {
  if (num_tiles_ >= kManyTiles || shape_.groups > 1) return;
  const bool is_in_tiles = weights_.has_codes() && IsInTiles(weights_.form());
  const auto outputs = static_cast<size_t>(shape_.outputs);
  const size_t group = is_in_tiles ? kTileRows : weights_.has_panels() ? kWidePanel : kOutputGroup;
  outputs_per_chunk_ = std::max(kManyTiles, RoundUp(CeilDivide(outputs, kManyTiles), group));
  chunks_ = CeilDivide(outputs, outputs_per_chunk_);
  for (size_t i = 0; i < num_tiles_; ++i) {
    ConvolutionTile& tile = shared_.emplace_back(TileOf(i));
    shared_scratch_.push_back(weights_.has_codes() ? AllocateCodes(tile) : AllocateFloats(tile));
  }
}

const float* BlockConvolution::Plane(size_t image, size_t channel) const {
  return x_ + (image * static_cast<size_t>(shape_.channels) + channel) * grid_.input_size();
}

ConvolutionTile BlockConvolution::TileOf(size_t index) const {
  ConvolutionTile tile;
  tile.image = index / tiles_per_image_;
  tile.begin = index % tiles_per_image_ * tile_positions_;
  tile.end = std::min(tile.begin + tile_positions_, grid_.num_positions());
  tile.stored = stored_;
  for (size_t strip = tile.begin; strip < tile.end; strip += kStripPositions) {
    grid_.ForEachRun(strip, std::min(strip + kStripPositions, tile.end),
                     [&](const PlaneGrid::Run& run) { tile.runs.push_back(run); });
  }
  return tile;
}

Scratch BlockConvolution::AllocateCodes(ConvolutionTile& tile) const {
  const size_t codes = grid_.num_phases() * block_codes_.back();
  const size_t units = grid_.num_phases() * weights_.blocks_per_segment() * stored_;
  Scratch scratch(codes + units);
  tile.codes = scratch.data<uint8_t>();
  tile.units = tile.codes + codes;
  return scratch;
}

Scratch BlockConvolution::AllocateFloats(ConvolutionTile& tile) const {
  const size_t positions = strip_ > 0 ? RoundUp(tile.end - tile.begin, strip_) : channel_floats();
  Scratch scratch(chunk_channels_ * positions * sizeof(float));
  tile.values = scratch.data<float>();
  return scratch;
}

void BlockConvolution::QuantizeCodes(ConvolutionTile& tile, size_t phase, size_t block) const {
  const size_t first = block * weights_.block_size(), count = weights_.channels_of(block);
  ColumnCodes out{weights_.pieces_of(block),
                  weights_.form(),
                  weights_.offset(),
                  nullptr,
                  4 * stored_,
                  nullptr,
                  &has_large_unit_,
                  weights_.least_tile_column()};
  const auto quantize = [&](const float* values, size_t at, size_t columns, size_t stride) {
    out.codes = tile.codes + phase * block_codes_.back() + block_codes_[block] + 4 * at;
    out.units = tile.units + (phase * weights_.blocks_per_segment() + block) * stored_ + at;
    quantizer_.RunColumnCodes(values, count, columns, stride, out);
  };
  if (grid_.has_the_input()) {
    quantize(Plane(tile.image, first) + tile.begin, 0, tile.end - tile.begin, grid_.input_size());
    return;
  }
  const size_t needed = RoundUp(tile.end - tile.begin, kPanelColumns) + grid_.reach();
  const Scratch scratch((count * kColumns + kMostBehind) * sizeof(float));
  float* const values = scratch.data<float>();
  for (size_t at = 0; at < needed; at += kColumns) {
    const size_t columns = std::min(kColumns, needed - at);
    for (size_t c = 0; c < count; ++c) {
      grid_.Read(Plane(tile.image, first + c), phase, tile.begin + at, columns,
                 values + c * kColumns);
    }
    quantize(values, at, columns, kColumns);
  }
}

void BlockConvolution::QuantizeFloats(const ConvolutionTile& tile, size_t channel, size_t count,
                                      float* values) const {
  if (grid_.has_the_input()) {
    for (size_t at = tile.begin; at < tile.end; at += strip_) {
      const size_t columns = std::min(strip_, tile.end - at);
      // Vectors read columns behind the last, and would be slow if these were tiny.
      const size_t read = std::min(RoundUp(columns, kPanelColumns), strip_);
      for (size_t c = 0; c < count; ++c) {
        std::fill(values + c * strip_ + columns, values + c * strip_ + read, 0.0F);
      }
      quantizer_.RunColumns(Plane(tile.image, channel) + at, grid_.input_size(), values, strip_,
                            count, columns);
      values += chunk_channels_ * strip_;
    }
    return;
  }
  BITPRESS_DCHECK(tile.begin % grid_.pitch() == 0);
  const size_t rows = CeilDivide(tile.end - tile.begin + grid_.reach(), grid_.pitch());
  // Padding is what no row writes.
  std::fill_n(values, count * channel_floats(), 0.0F);
  const size_t first = tile.begin / grid_.pitch() * grid_.stride_y();
  const Scratch scratch((count * grid_.width() + kMostBehind) * sizeof(float));
  for (size_t row = 0; row < rows * grid_.stride_y(); ++row) {
    const size_t y = first + row;  // with the padding
    if (y < grid_.pad_y() || y - grid_.pad_y() >= grid_.height()) continue;
    const float* const from = Plane(tile.image, channel) + (y - grid_.pad_y()) * grid_.width();
    QuantizeRow(from, count, row, scratch.data<float>(), values);
  }
}

void BlockConvolution::QuantizeRow(const float* from, size_t count, size_t row, float* quantized,
                                   float* values) const {
  const size_t pitch = grid_.pitch(), pad = grid_.pad_x(), stride = grid_.stride_x();
  const size_t channel_floats = grid_.num_phases() * stored_;
  float* const to = values + row / grid_.stride_y() * pitch;
  if (stride == 1) {
    if (pad >= pitch) return;
    for (size_t phase = 0; phase < grid_.num_phases(); ++phase) {
      if (grid_.phases()[phase].row != row % grid_.stride_y()) continue;
      quantizer_.RunColumns(from, grid_.input_size(), to + phase * stored_ + pad, channel_floats,
                            count, std::min(grid_.width(), pitch - pad));
    }
    return;
  }
  quantizer_.RunColumns(from, grid_.input_size(), quantized, grid_.width(), count, grid_.width());
  for (size_t phase = 0; phase < grid_.num_phases(); ++phase) {
    if (grid_.phases()[phase].row != row % grid_.stride_y()) continue;
    const auto first = static_cast<ptrdiff_t>(grid_.phases()[phase].column);
    ReadSplitRow({quantized, grid_.width(), count, grid_.width(), stride,
                  first - static_cast<ptrdiff_t>(pad), pitch},
                 to + phase * stored_, channel_floats);
  }
}

size_t BlockConvolution::column_tasks_per_tile() const {
  if (weights_.has_codes()) return grid_.num_phases() * weights_.blocks_per_segment();
  return CeilDivide(static_cast<size_t>(shape_.channels), weights_.input_block());
}

void BlockConvolution::RunColumnTask(size_t task) {
  const size_t index = task % column_tasks_per_tile();
  ConvolutionTile& tile = shared_[task / column_tasks_per_tile()];
  if (weights_.has_codes()) {
    const size_t per_phase = weights_.blocks_per_segment();
    QuantizeCodes(tile, index / per_phase, index % per_phase);
    return;
  }
  const size_t block = weights_.input_block();
  const size_t channel = index * block;
  QuantizeFloats(tile, channel, std::min(block, static_cast<size_t>(shape_.channels) - channel),
                 tile.values + channel * channel_floats());
}

void BlockConvolution::RunTask(size_t task) const {
  if (depthwise_) return depthwise_->RunTask(task);
  const size_t index = task / chunks_, chunk = task % chunks_;
  if (!weights_.has_codes()) return RunFloats(index, chunk);
  const auto outputs = static_cast<size_t>(shape_.outputs);
  const size_t begin = chunk * outputs_per_chunk_;
  const size_t end = std::min(begin + outputs_per_chunk_, outputs);
  if (!shared_.empty()) return RunCodes(shared_[index], begin, end);
  ConvolutionTile tile = TileOf(index);
  const Scratch scratch = AllocateCodes(tile);
  for (size_t phase = 0; phase < grid_.num_phases(); ++phase) {
    for (size_t b = 0; b < weights_.blocks_per_segment(); ++b) QuantizeCodes(tile, phase, b);
  }
  RunCodes(tile, begin, end);
}

void BlockConvolution::RunCodes(const ConvolutionTile& tile, size_t begin, size_t end) const {
  ConvolutionTask task;
  task.weights = &weights_;
  task.tile = &tile;
  task.blocks = &blocks_;
  task.output = &output_;
  task.output_size = grid_.output_size();
  task.output_begin = begin;
  task.output_end = end;
  if (has_large_unit_) return ConvolveCodesPortably(task);
  if (IsInTiles(weights_.form())) {
    return (weights_.are_for_amx() ? TileConvolutionKernel() : PairConvolutionKernel())(task);
  }
  const size_t target = ChosenTargetIndex();
  // Arm's dot products are of bytes alone, and code for them has more sums than words leave room
  // for.
  const bool has_dot =
      HasDotProducts() && (weights_.form() == ColumnForm::kBytes || kHasDotOfWords);
  (has_dot ? DotConvolutionKernel(target) : kWholeTable[target])(task);
}

void BlockConvolution::RunFloats(size_t index, size_t chunk) const {
  const auto channels = static_cast<size_t>(shape_.channels_of_group());
  const auto of_group = static_cast<size_t>(shape_.outputs_of_group());
  ConvolutionTask task;
  task.weights = &weights_;
  task.output = &output_;
  task.output_size = grid_.output_size();
  task.output_begin = chunk * outputs_per_chunk_;
  task.output_end =
      std::min(task.output_begin + outputs_per_chunk_, static_cast<size_t>(shape_.outputs));
  task.offsets = offsets_.data();
  task.channel_floats = channel_floats();
  task.position_floats = strip_ > 0 ? chunk_channels_ : 1;
  const ConvolutionKernel kernel =
      (weights_.has_panels() ? kPanelsTable : kFloatsTable)[ChosenTargetIndex()];
  if (!shared_.empty()) {
    task.tile = &shared_[index];
    return kernel(task);
  }
  // Chunks have whole groups.
  task.first_channel = task.output_begin / of_group * channels;
  const size_t end = task.output_end / of_group * channels;
  const size_t block = weights_.input_block();
  ConvolutionTile tile = TileOf(index);
  const Scratch scratch = AllocateFloats(tile);
  for (size_t c = task.first_channel; c < end; c += block) {
    QuantizeFloats(tile, c, std::min(block, end - c),
                   tile.values + (c - task.first_channel) * channel_floats());
  }
  task.tile = &tile;
  kernel(task);
}

void BlockConvolution::Run() {
  for (size_t task = 0; task < num_column_tasks(); ++task) RunColumnTask(task);
  for (size_t task = 0; task < num_tasks(); ++task) RunTask(task);
}

}  // namespace bitpress::kernels
#endif
