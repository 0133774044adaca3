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
#ifndef BITPRESS_PRODUCTS_WITH_DOT
namespace bitpress::kernels::HWY_NAMESPACE {
void ConvolveWhole(const ConvolutionTask& task) { ConvolveWholePortably(task); }
void ConvolveFloats(const ConvolutionTask& task) { ConvolveFloatsPortably(task); }
}  // namespace bitpress::kernels::HWY_NAMESPACE
#endif
#include "kernels/products_end.inc"
// clang-format on

#if HWY_ONCE
namespace bitpress::kernels {
namespace {

constexpr ConvolutionKernel kWholeTable[] = BITPRESS_DISPATCH_TABLE(ConvolveWhole);
constexpr ConvolutionKernel kFloatsTable[] = BITPRESS_DISPATCH_TABLE(ConvolveFloats);

// Columns that are quantized at a time: their floats stay in the first-level cache.
constexpr size_t kColumns = 128;
// The bytes of a tile, which stay in the second-level cache.
constexpr size_t kTileBytes = size_t{1} << 17;
constexpr size_t kMostPositions = size_t{1} << 12;
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
      quantizer_(weights.input_format(), 1, weights.input_format().block_size, kColumns) {
  if (grid_.num_positions() == 0 || images == 0) return;
  if (weights.is_depthwise()) {
    depthwise_.emplace(weights, shape_, x, output);
    return;
  }
  weights.is_whole() ? PlanWhole() : PlanFloats();
  // There is room for vectors of outputs, whole rows, and what reading writes behind. (Strides of
  // powers of two would also put many pieces into one set of the cache.)
  const size_t positions = tile_positions_ + grid_.reach();
  const size_t rows = CeilDivide(positions, grid_.pitch()) * grid_.pitch();
  stored_ = RoundUp(std::max(rows, RoundUp(positions, kPanelColumns)), kStripPositions) +
            2 * kPanelColumns;
  tiles_per_image_ = CeilDivide(grid_.num_positions(), tile_positions_);
  num_tiles_ = static_cast<size_t>(images) * tiles_per_image_;
  if (!weights.is_whole()) {
    const size_t taps = grid_.taps().size();
    for (size_t k = 0; k < weights.depth(); ++k) {
      const PlaneGrid::Tap& tap = grid_.taps()[k % taps];
      offsets_.push_back((k / taps * grid_.num_phases() + tap.phase) * stored_ + tap.offset);
    }
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
  if (num_tiles_ >= kManyTiles) return;
  outputs_per_chunk_ = std::max<size_t>(
      kManyTiles, RoundUp(CeilDivide(static_cast<size_t>(shape_.outputs), kManyTiles),
                          weights.form() == ColumnForm::kTiles ? kTileRows : kOutputGroup));
  chunks_ = CeilDivide(static_cast<size_t>(shape_.outputs), outputs_per_chunk_);
  for (size_t i = 0; i < num_tiles_; ++i) {
    shared_.push_back(TileOf(i));
    shared_scratch_.push_back(AllocateCodes(shared_.back()));
  }
}

void BlockConvolution::PlanWhole() {
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
  const auto block = static_cast<size_t>(weights_.input_format().block_size);
  const auto of_group = static_cast<size_t>(shape_.channels_of_group());
  const size_t channels = std::min(std::lcm(block, of_group), static_cast<size_t>(shape_.channels));
  groups_per_chunk_ = channels / of_group;
  chunks_ = CeilDivide(static_cast<size_t>(shape_.groups), groups_per_chunk_);
  // Tiles are whole rows. One reads rows twice that are in reach of the one before it.
  const size_t bytes = channels * grid_.num_phases() * sizeof(float);
  const size_t wanted = std::max(4 * kTileBytes / bytes, 4 * grid_.reach());
  const size_t rows = std::max<size_t>(1, wanted / grid_.pitch());
  const size_t all_rows = CeilDivide(grid_.num_positions(), grid_.pitch());
  tile_positions_ = std::min(rows, all_rows) * grid_.pitch();
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
  const size_t step = weights_.is_whole() ? kStripPositions : tile_positions_;
  for (size_t strip = tile.begin; strip < tile.end; strip += step) {
    grid_.ForEachRun(strip, std::min(strip + step, tile.end),
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

void BlockConvolution::QuantizeCodes(ConvolutionTile& tile, size_t phase, size_t block) const {
  const size_t first = block * weights_.block_size(), count = weights_.channels_of(block);
  ColumnCodes out{
      weights_.pieces_of(block), weights_.form(), weights_.offset(), nullptr, 4 * stored_, nullptr,
      &has_large_unit_};
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
  BITPRESS_DCHECK(tile.begin % grid_.pitch() == 0);
  const size_t rows = CeilDivide(tile.end - tile.begin + grid_.reach(), grid_.pitch());
  // Padding is what no row writes.
  std::fill_n(values, count * grid_.num_phases() * stored_, 0.0F);
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

size_t BlockConvolution::num_column_tasks() const {
  return shared_.size() * grid_.num_phases() * weights_.blocks_per_segment();
}

void BlockConvolution::RunColumnTask(size_t task) {
  const size_t per_phase = weights_.blocks_per_segment();
  const size_t per_tile = grid_.num_phases() * per_phase;
  const size_t index = task % per_tile;
  QuantizeCodes(shared_[task / per_tile], index / per_phase, index % per_phase);
}

void BlockConvolution::RunTask(size_t task) const {
  if (depthwise_) return depthwise_->RunTask(task);
  const size_t index = task / chunks_, chunk = task % chunks_;
  if (!weights_.is_whole()) return RunFloats(index, chunk);
  const auto outputs = static_cast<size_t>(shape_.outputs);
  const size_t begin = chunk * outputs_per_chunk_;
  const size_t end = std::min(begin + outputs_per_chunk_, outputs);
  if (!shared_.empty()) return RunWhole(shared_[index], begin, end);
  ConvolutionTile tile = TileOf(index);
  const Scratch scratch = AllocateCodes(tile);
  for (size_t phase = 0; phase < grid_.num_phases(); ++phase) {
    for (size_t b = 0; b < weights_.blocks_per_segment(); ++b) QuantizeCodes(tile, phase, b);
  }
  RunWhole(tile, begin, end);
}

void BlockConvolution::RunWhole(const ConvolutionTile& tile, size_t begin, size_t end) const {
  ConvolutionTask task;
  task.weights = &weights_;
  task.tile = &tile;
  task.blocks = &blocks_;
  task.output = &output_;
  task.output_size = grid_.output_size();
  task.output_begin = begin;
  task.output_end = end;
  if (has_large_unit_) return ConvolveWholePortably(task);
  if (weights_.form() == ColumnForm::kTiles) return TileConvolutionKernel()(task);
  const size_t target = ChosenTargetIndex();
  const bool has_dot = weights_.form() == ColumnForm::kBytes && HasDotProducts();
  (has_dot ? DotConvolutionKernel(target) : kWholeTable[target])(task);
}

void BlockConvolution::RunFloats(size_t index, size_t chunk) const {
  ConvolutionTile tile = TileOf(index);
  const size_t first_group = chunk * groups_per_chunk_;
  const size_t last_group =
      std::min(first_group + groups_per_chunk_, static_cast<size_t>(shape_.groups));
  const auto channels = static_cast<size_t>(shape_.channels_of_group());
  const auto outputs = static_cast<size_t>(shape_.outputs_of_group());
  const auto block = static_cast<size_t>(weights_.input_format().block_size);
  ConvolutionTask task;
  task.weights = &weights_;
  task.tile = &tile;
  task.output = &output_;
  task.output_size = grid_.output_size();
  task.output_begin = first_group * outputs;
  task.output_end = last_group * outputs;
  task.offsets = offsets_.data();
  task.first_channel = first_group * channels;
  task.channel_floats = grid_.num_phases() * stored_;
  const size_t end = last_group * channels;
  const Scratch scratch((end - task.first_channel) * task.channel_floats * sizeof(float));
  tile.values = scratch.data<float>();
  for (size_t c = task.first_channel; c < end; c += block) {
    QuantizeFloats(tile, c, std::min(block, end - c),
                   tile.values + (c - task.first_channel) * task.channel_floats);
  }
  kFloatsTable[ChosenTargetIndex()](task);
}

void BlockConvolution::Run() {
  for (size_t task = 0; task < num_column_tasks(); ++task) RunColumnTask(task);
  for (size_t task = 0; task < num_tasks(); ++task) RunTask(task);
}

}  // namespace bitpress::kernels
#endif
