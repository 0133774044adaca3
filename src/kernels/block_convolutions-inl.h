// The vector code of convolutions in blocks. It is compiled once a target, and for targets with dot
// products of bytes once more, as that of products (block_products-inl.h).
#if defined(BITPRESS_KERNELS_BLOCK_CONVOLUTIONS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BITPRESS_KERNELS_BLOCK_CONVOLUTIONS_INL_H_
#undef BITPRESS_KERNELS_BLOCK_CONVOLUTIONS_INL_H_
#else
#define BITPRESS_KERNELS_BLOCK_CONVOLUTIONS_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstring>

#include "kernels/convolution_task.h"
#include "kernels/product_codes-inl.h"

// Targets without such vectors only toggle the guard above.
#ifdef BITPRESS_PRODUCTS_WITH_DOT
BITPRESS_BEFORE_PRODUCTS
namespace bitpress::kernels::HWY_NAMESPACE {
BITPRESS_BEGIN_PRODUCTS

// The output channels and vectors of positions of a tile of sums, for which the registers have
// room.
constexpr size_t kSumOutputs = kParts == 1 ? 6 : 4;
constexpr size_t kSumVectors = kParts == 1 ? 4 : 2;
constexpr size_t kStripVectors = kStripPositions / kLanes;

// Adds the products of pieces [first, last) of a block: of vectors of columns from `codes` on with
// those of the output channels.
template <bool kIsBytes, size_t kOutputs, size_t kVectors>
HWY_INLINE void AddPieces(const uint8_t* codes, size_t code_stride,
                          const int32_t* const (&pieces)[kOutputs], size_t first, size_t last,
                          VI (&block)[kOutputs][kVectors]) {
  ByteSums<kOutputs, kVectors> words;
  HWY_UNROLL(8)
  for (size_t p = first; p < last; ++p) {
    V8 columns[kVectors];
    for (size_t v = 0; v < kVectors; ++v) {
      columns[v] = hn::LoadU(kD8, codes + p * code_stride + v * kVectorBytes);
    }
    for (size_t r = 0; r < kOutputs; ++r) {
      const VI factor = hn::Set(kDi, pieces[r][p]);
      for (size_t v = 0; v < kVectors; ++v) {
        if constexpr (kIsBytes) {
          block[r][v] = words.Add(r, v, columns[v], hn::BitCast(kD8i, factor), block[r][v]);
        } else {
          block[r][v] = hn::Add(
              block[r][v], SumOfPairs(hn::BitCast(kD16, columns[v]), hn::BitCast(kD16, factor)));
        }
      }
    }
  }
  if constexpr (kIsBytes) words.Finish(block);
}

// Writes the sums of output channels for positions [at, at + lanes * kVectors) of a tile to `sums`,
// a strip apart. kPieces is the usual number of pieces of a block, 0 if that is no constant.
template <bool kIsBytes, size_t kPieces, size_t kOutputs, size_t kVectors>
HWY_INLINE void SumWhole(const ConvolutionTask& task, size_t output, size_t at, float* sums) {
  const ConvolutionWeights& weights = *task.weights;
  const ConvolutionTile& tile = *task.tile;
  const size_t code_stride = 4 * tile.stored;
  const int32_t* pieces[kOutputs];
  const int32_t* corrections[kOutputs];
  const float* units[kOutputs];
  VF values[kOutputs][kVectors];
  for (size_t r = 0; r < kOutputs; ++r) {
    pieces[r] = weights.pieces(output + r);
    corrections[r] = weights.corrections(output + r);
    units[r] = weights.units(output + r);
    for (size_t v = 0; v < kVectors; ++v) values[r][v] = hn::Zero(kDf);
  }
  const std::vector<BlockColumns>& blocks = *task.blocks;
  for (size_t b = 0; b < blocks.size(); ++b) {
    VI block[kOutputs][kVectors];
    for (size_t r = 0; r < kOutputs; ++r) {
      for (size_t v = 0; v < kVectors; ++v) block[r][v] = hn::Set(kDi, corrections[r][b]);
    }
    const uint8_t* const codes = tile.codes.data() + blocks[b].codes + 4 * at;
    const size_t count = blocks[b].pieces;
    if (kPieces > 0 && count == kPieces &&
        (BITPRESS_PRODUCTS_WITH_DOT || !kIsBytes || kPieces <= weights.pieces_in_words())) {
      AddPieces<kIsBytes, kOutputs, kVectors>(codes, code_stride, pieces, 0, kPieces, block);
    } else {
      const size_t step =
          BITPRESS_PRODUCTS_WITH_DOT || !kIsBytes ? count : weights.pieces_in_words();
      for (size_t p = 0; p < count; p += step) {
        AddPieces<kIsBytes, kOutputs, kVectors>(codes, code_stride, pieces, p,
                                                std::min(p + step, count), block);
      }
    }
    for (size_t r = 0; r < kOutputs; ++r) pieces[r] += count;
    const uint8_t* const column_units = tile.units.data() + blocks[b].units + at;
    for (size_t v = 0; v < kVectors; ++v) {
      const auto exponents =
          hn::PromoteTo(kDi, hn::LoadU(kBytesOfLanes, column_units + v * kLanes));
      const VF unit = hn::BitCast(kDf, hn::ShiftLeft<23>(exponents));
      for (size_t r = 0; r < kOutputs; ++r) {
        const VF scaled = hn::Mul(hn::ConvertTo(kDf, block[r][v]), unit);
        values[r][v] = FusedMulAdd(scaled, hn::Set(kDf, units[r][b]), values[r][v]);
      }
    }
  }
  for (size_t r = 0; r < kOutputs; ++r) {
    for (size_t v = 0; v < kVectors; ++v) {
      hn::StoreU(values[r][v], kDf, sums + r * kStripPositions + v * kLanes);
    }
  }
}

// Does the same for products of floats. The channels of the outputs' group begin at `values`.
template <size_t kOutputs, size_t kVectors>
HWY_INLINE void SumFloats(const ConvolutionTask& task, const float* values, size_t output,
                          float* sums) {
  const ConvolutionWeights& weights = *task.weights;
  const float* factors[kOutputs];
  VF sum[kOutputs][kVectors];
  for (size_t r = 0; r < kOutputs; ++r) {
    factors[r] = weights.values(output + r);
    for (size_t v = 0; v < kVectors; ++v) sum[r][v] = hn::Zero(kDf);
  }
  for (size_t k = 0; k < weights.depth(); ++k) {
    VF columns[kVectors];
    for (size_t v = 0; v < kVectors; ++v) {
      columns[v] = hn::LoadU(kDf, values + task.offsets[k] + v * kLanes);
    }
    for (size_t r = 0; r < kOutputs; ++r) {
      const VF factor = hn::Set(kDf, factors[r][k]);
      for (size_t v = 0; v < kVectors; ++v) {
        sum[r][v] = FusedMulAdd(columns[v], factor, sum[r][v]);
      }
    }
  }
  for (size_t r = 0; r < kOutputs; ++r) {
    for (size_t v = 0; v < kVectors; ++v) {
      hn::StoreU(sum[r][v], kDf, sums + r * kStripPositions + v * kLanes);
    }
  }
}

// Adds what comes behind the sums of one output channel, and writes the outputs of a run. There are
// numbers behind the run's sums to the end of a vector.
HWY_INLINE void FinishRun(const ConvolutionOutput& end, float bias, const float* sums,
                          const float* other, float* to, size_t count) {
  const VF add = hn::Set(kDf, bias);
  const VF least = hn::Set(kDf, end.least), largest = hn::Set(kDf, end.largest);
  const auto finish = [&](VF sum, VF more) {
    if (end.bias != nullptr) sum = hn::Add(sum, add);
    if (other != nullptr) sum = hn::Add(sum, more);
    // NaN stays: comparisons with it are false.
    sum = hn::IfThenElse(hn::Lt(sum, least), least, sum);
    return hn::IfThenElse(hn::Gt(sum, largest), largest, sum);
  };
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const VF more = other != nullptr ? hn::LoadU(kDf, other + i) : hn::Zero(kDf);
    hn::StoreU(finish(hn::LoadU(kDf, sums + i), more), kDf, to + i);
  }
  if (i == count) return;
  // Sums behind the run are there, the other tensor's may not be.
  const size_t left = (count - i) * sizeof(float);
  HWY_ALIGN float buffer[kLanes] = {};
  if (other != nullptr) std::memcpy(buffer, other + i, left);
  hn::Store(finish(hn::LoadU(kDf, sums + i), hn::Load(kDf, buffer)), kDf, buffer);
  std::memcpy(to + i, buffer, left);
}

// Writes the outputs of a strip, the sums of `count` output channels from `output` on.
HWY_INLINE void FinishStrip(const ConvolutionTask& task, size_t output, size_t count, size_t strip,
                            const PlaneGrid::Run* run, const PlaneGrid::Run* runs_end,
                            const float* sums) {
  const ConvolutionOutput& end = *task.output;
  const auto outputs = static_cast<size_t>(task.weights->shape().outputs);
  for (size_t r = 0; r < count; ++r) {
    const size_t plane = (task.tile->image * outputs + output + r) * task.output_size;
    const float bias = end.bias != nullptr ? end.bias[output + r] : 0.0F;
    for (const PlaneGrid::Run* at = run; at != runs_end; ++at) {
      const size_t to = plane + at->index;
      FinishRun(end, bias, sums + r * kStripPositions + at->position - strip,
                end.other != nullptr ? end.other + to : nullptr, end.data + to, at->count);
    }
  }
}

// Sums and writes all strips of a tile for kOutputs output channels. sum(at, vectors, sums) writes
// the sums of some vectors.
template <size_t kOutputs, class Function>
HWY_INLINE void ForEachStrip(const ConvolutionTask& task, size_t output, Function&& sum) {
  const ConvolutionTile& tile = *task.tile;
  HWY_ALIGN float sums[kOutputs * kStripPositions + kLanes];
  const PlaneGrid::Run* run = tile.runs.data();
  const PlaneGrid::Run* const last = run + tile.runs.size();
  for (size_t strip = tile.begin; strip < tile.end; strip += kStripPositions) {
    const size_t positions = std::min(kStripPositions, tile.end - strip);
    sum(strip - tile.begin, (positions + kLanes - 1) / kLanes, sums);
    const PlaneGrid::Run* next = run;
    while (next != last && next->position < strip + kStripPositions) ++next;
    FinishStrip(task, output, kOutputs, strip, run, next, sums);
    run = next;
  }
}

template <bool kIsBytes, size_t kPieces, size_t kOutputs>
void WholeOutputs(const ConvolutionTask& task, size_t output) {
  ForEachStrip<kOutputs>(task, output, [&](size_t at, size_t vectors, float* sums) {
    size_t v = 0;
    for (; v + kSumVectors <= vectors; v += kSumVectors) {
      SumWhole<kIsBytes, kPieces, kOutputs, kSumVectors>(task, output, at + v * kLanes,
                                                         sums + v * kLanes);
    }
    if constexpr (kSumVectors > 2) {
      for (; v + 2 <= vectors; v += 2) {
        SumWhole<kIsBytes, kPieces, kOutputs, 2>(task, output, at + v * kLanes, sums + v * kLanes);
      }
    }
    for (; v < vectors; ++v) {
      SumWhole<kIsBytes, kPieces, kOutputs, 1>(task, output, at + v * kLanes, sums + v * kLanes);
    }
  });
}

template <bool kIsBytes, size_t kPieces>
void WholeTask(const ConvolutionTask& task) {
  size_t output = task.output_begin;
  for (; output + kSumOutputs <= task.output_end; output += kSumOutputs) {
    WholeOutputs<kIsBytes, kPieces, kSumOutputs>(task, output);
  }
  if constexpr (kSumOutputs > 4) {
    for (; output + 4 <= task.output_end; output += 4) {
      WholeOutputs<kIsBytes, kPieces, 4>(task, output);
    }
  }
  for (; output + 2 <= task.output_end; output += 2) WholeOutputs<kIsBytes, 0, 2>(task, output);
  if (output < task.output_end) WholeOutputs<kIsBytes, 0, 1>(task, output);
}

void ConvolveWhole(const ConvolutionTask& task) {
  if (task.weights->form() == ColumnForm::kWords) {
#if !BITPRESS_PRODUCTS_WITH_DOT
    WholeTask<false, 0>(task);
#endif
    return;
  }
  switch (task.weights->pieces_per_block()) {
    case 8:
      return WholeTask<true, 8>(task);
    case 4:
      return WholeTask<true, 4>(task);
    case 2:
      return WholeTask<true, 2>(task);
    default:
      return WholeTask<true, 0>(task);
  }
}

#if !BITPRESS_PRODUCTS_WITH_DOT
template <size_t kOutputs>
void FloatOutputs(const ConvolutionTask& task, size_t output) {
  const formats::ConvolutionShape& shape = task.weights->shape();
  const size_t group = output / static_cast<size_t>(shape.outputs_of_group());
  const size_t channel = group * static_cast<size_t>(shape.channels_of_group());
  const float* const values =
      task.tile->values.data() + (channel - task.first_channel) * task.channel_floats;
  ForEachStrip<kOutputs>(task, output, [&](size_t at, size_t vectors, float* sums) {
    size_t v = 0;
    for (; v + kSumVectors <= vectors; v += kSumVectors) {
      SumFloats<kOutputs, kSumVectors>(task, values + at + v * kLanes, output, sums + v * kLanes);
    }
    for (; v < vectors; ++v) {
      SumFloats<kOutputs, 1>(task, values + at + v * kLanes, output, sums + v * kLanes);
    }
  });
}

void ConvolveFloats(const ConvolutionTask& task) {
  const auto in_group = static_cast<size_t>(task.weights->shape().outputs_of_group());
  for (size_t output = task.output_begin; output < task.output_end;) {
    // Outputs of one group read the same values.
    const size_t left = std::min(task.output_end, (output / in_group + 1) * in_group) - output;
    if (left >= 4) {
      FloatOutputs<4>(task, output);
      output += 4;
    } else {
      FloatOutputs<1>(task, output);
      output += 1;
    }
  }
}
#endif

BITPRESS_END_PRODUCTS
}  // namespace bitpress::kernels::HWY_NAMESPACE
BITPRESS_AFTER_PRODUCTS
#endif  // BITPRESS_PRODUCTS_WITH_DOT

#endif  // BITPRESS_KERNELS_BLOCK_CONVOLUTIONS_INL_H_
