// Convolutions in blocks without vector instructions, for processors that have none of the targets.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "kernels/byte_codes.h"
#include "kernels/convolution_task.h"
#include "kernels/tile_rows.h"
#include "kernels/whole_block.h"

namespace bitpress::kernels {
namespace {

// The sum of products of a piece of columns and one of a weight.
int32_t MultiplyPieces(ColumnForm form, const uint8_t* column, int32_t weight) {
  int32_t sum = 0;
  if (form == ColumnForm::kBytes) {
    int8_t factors[4];
    std::memcpy(factors, &weight, sizeof(factors));
    for (size_t i = 0; i < 4; ++i) sum += CodeOfByte(column[i]) * factors[i];
  } else {
    int16_t numbers[2], factors[2];
    std::memcpy(numbers, column, sizeof(numbers));
    std::memcpy(factors, &weight, sizeof(factors));
    for (size_t i = 0; i < 2; ++i) sum += numbers[i] * factors[i];
  }
  return sum;
}

float SumWhole(const ConvolutionTask& task, size_t output, size_t at) {
  const ConvolutionWeights& weights = *task.weights;
  const ConvolutionTile& tile = *task.tile;
  const int32_t* piece = weights.pieces(output);
  float sum = 0;
  for (size_t b = 0; b < task.blocks->size(); ++b) {
    const BlockColumns& block = (*task.blocks)[b];
    int32_t products = weights.starts(output)[b * kOutputGroup] - kWholeStartBits;
    for (size_t p = 0; p < block.pieces; ++p) {
      const uint8_t* const column = tile.codes + block.codes + 4 * (p * tile.stored + at);
      products += MultiplyPieces(weights.form(), column, *piece);
      piece += kOutputGroup;
    }
    const uint32_t unit = tile.units[block.units + at];
    sum = std::fma(static_cast<float>(products) * std::bit_cast<float>(unit << 23U),
                   weights.units(output)[b * kOutputGroup], sum);
  }
  return sum;
}

// Returns a value of a column in tiles: a half of the pieces of a block, at a position.
float TileValue(const ConvolutionTile& tile, const BlockColumns& block, size_t half, size_t at) {
  uint16_t value;
  std::memcpy(&value, tile.codes + block.codes + 4 * (half / 2 * tile.stored + at) + 2 * (half % 2),
              sizeof(value));
  return FloatOfBfloat16(value);
}

// The exact sum of a block, which tiles have as values, is turned into that of its elements again.
float SumTiles(const ConvolutionTask& task, size_t output, size_t at) {
  const ConvolutionWeights& weights = *task.weights;
  const ConvolutionTile& tile = *task.tile;
  const size_t depth = weights.tile_depth(), row = output % kTileRows;
  const size_t tile_depth = std::min(depth, kTileDepth);
  const uint16_t* factors = weights.tiles(output - row);
  float sum = 0;
  for (size_t b = 0; b < task.blocks->size(); ++b) {
    const BlockColumns& block = (*task.blocks)[b];
    double products = 0;
    for (size_t k = 0; k < 2 * block.pieces; ++k) {
      const size_t place = (k / tile_depth * kTileRows + row) * tile_depth + k % tile_depth;
      products += double{TileValue(tile, block, k, at)} * double{FloatOfBfloat16(factors[place])};
    }
    factors += kTileRows * depth;
    if (products == 0) continue;
    const float unit = std::bit_cast<float>(uint32_t{tile.units[block.units + at]} << 23U);
    const float row_unit = weights.units(output)[b * kOutputGroup];
    const auto whole = static_cast<float>(products / (double{unit} * double{row_unit}));
    sum = std::fma(whole * unit, row_unit, sum);
  }
  return sum;
}

float SumTileParts(const ConvolutionTask& task, size_t output, size_t at) {
  const size_t depth = task.weights->tile_depth(), row = output % kTileRows;
  const uint16_t* factors = task.weights->tiles(output - row) + row * depth;
  formats::PartedSum sum;
  for (const BlockColumns& block : *task.blocks) {
    for (size_t k = 0; k < 2 * block.pieces; ++k) {
      const size_t half = HalfOf(task.weights->form(), k);
      sum.Add(k, TileValue(*task.tile, block, half, at), FloatOfBfloat16(factors[half]));
    }
    sum.EndPart();
    factors += kTileRows * depth;
  }
  return sum.total;
}

float SumFloats(const ConvolutionTask& task, size_t output, size_t at) {
  const formats::ConvolutionShape& shape = task.weights->shape();
  const size_t group = output / static_cast<size_t>(shape.outputs_of_group());
  const size_t channel = group * static_cast<size_t>(shape.channels_of_group());
  const size_t within = task.position_floats > 1 ? at % task.channel_floats : 0;
  const float* const values = task.values(channel, at - within) + within;
  const ConvolutionWeights& weights = *task.weights;
  const size_t column = output % kWidePanel;
  const auto factor = [&](size_t k) {
    if (!weights.has_panels()) return weights.values(output)[k];
    const size_t first = output - column;
    return FloatOfBfloat16(weights.panel(first)[k * weights.panel_width(first) + column]);
  };
  formats::PartedSum sum;
  if (task.weights->sums() == formats::ProductSums::kChain) {
    for (size_t k = 0; k < task.weights->depth(); ++k) {
      sum.Add(0, values[task.offsets[k]], factor(k));
    }
    return sum.even;
  }
  size_t begin = 0;
  for (const size_t size : weights.part_sizes()) {
    for (size_t k = 0; k < size; ++k) {
      sum.Add(k, values[task.offsets[begin + k]], factor(begin + k));
    }
    sum.EndPart();
    begin += size;
  }
  return sum.total;
}

template <class Function>
void ForEachOutput(const ConvolutionTask& task, Function&& sum_of) {
  const ConvolutionOutput& end = *task.output;
  const auto outputs = static_cast<size_t>(task.weights->shape().outputs);
  for (size_t output = task.output_begin; output < task.output_end; ++output) {
    const size_t plane = (task.tile->image * outputs + output) * task.output_size;
    for (const PlaneGrid::Run& run : task.tile->runs) {
      for (size_t i = 0; i < run.count; ++i) {
        const size_t to = plane + run.index + i;
        float sum = sum_of(task, output, run.position + i - task.tile->begin);
        sum += end.bias[output];
        if (end.other != nullptr) sum += end.other[to];
        if (sum < 0) sum *= end.slope;
        sum = sum < end.least ? end.least : sum;
        end.data[to] = sum > end.largest ? end.largest : sum;
      }
    }
  }
}

}  // namespace

void ConvolveCodesPortably(const ConvolutionTask& task) {
  if (!IsInTiles(task.weights->form())) return ForEachOutput(task, SumWhole);
  const bool is_whole = task.weights->sums() == formats::ProductSums::kWhole;
  ForEachOutput(task, is_whole ? SumTiles : SumTileParts);
}
void ConvolveFloatsPortably(const ConvolutionTask& task) { ForEachOutput(task, SumFloats); }

}  // namespace bitpress::kernels
