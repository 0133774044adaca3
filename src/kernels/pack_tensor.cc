#include "kernels/pack_tensor.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "formats/float_bits.h"
#include "kernels/block_scale.h"
#include "kernels/block_walk.h"
#include "kernels/pack_loops.h"
#include "kernels/packed_plane.h"

namespace bitpress::kernels {
namespace {

using formats::FormatSpec;

// The places for the codes of a batch. The first of each belongs to the batch's first block.
struct BatchOut {
  size_t first_block = 0;
  uint8_t* codes = nullptr;
  uint8_t* low_codes = nullptr;
  uint8_t* shifts = nullptr;
};

class TensorPacker {
 public:
  TensorPacker(const FormatSpec& spec, const BlockWalk& walk, const float* y, uint8_t* scales)
      : spec_(spec),
        walk_(walk),
        y_(y),
        scales_(scales),
        element_(spec),
        codec_(spec),
        rule_(spec, element_),
        first_bad_(walk.num_elements) {}

  void Run(const BlockTask& task, const BatchOut& out) {
    if (walk_.inner == 1) {
      RunRows(task, out);
    } else {
      for (size_t q = task.begin; q < task.end; ++q) RunColumns(q, task.column, task.columns, out);
    }
  }

  size_t first_bad() const { return first_bad_; }

 private:
  // Returns the position of a block's first element in the batch.
  size_t InBatch(size_t q, const BatchOut& out) const {
    return walk_.FirstElement(q) - walk_.FirstElement(out.first_block);
  }
  uint8_t* ShiftsOf(size_t q, const BatchOut& out) const {
    if (walk_.sub_block == 0) return nullptr;
    return out.shifts + (walk_.FirstShift(q) - walk_.FirstShift(out.first_block));
  }

  // --- Contiguous blocks, a tile of equally long ones at a time ---

  void RunRows(const BlockTask& task, const BatchOut& out) {
    std::vector<uint32_t> inverse(std::max(BlockWalk::kTile, walk_.block), kOneBits);
    for (size_t q = task.begin; q < task.end;) {
      const size_t num_blocks = walk_.BlocksInTile(q, task.end);
      const size_t length = walk_.Length(q);
      const float* y = y_ + walk_.FirstElement(q);
      bool done = !spec_.is_blocked() ||
                  TileScales(y, num_blocks, length, scales_ + q, ShiftsOf(q, out), inverse.data());
      done = done && Encode(y, inverse.data(), out, InBatch(q, out), num_blocks * length);
      if (!done) {
        for (size_t b = q; b < q + num_blocks; ++b) AskReference(b, 0, 1, out);
      }
      q += num_blocks;
    }
  }

  // Writes scales, shifts and every element's inverse factor. Returns false if the reference must
  // do the tile.
  bool TileScales(const float* y, size_t num_blocks, size_t length, uint8_t* scales,
                  uint8_t* shifts, uint32_t* inverse) const {
    const auto call = [&]<size_t kBlock, bool kSub, bool kTwosComplement>() {
      return TileScalesOf<kBlock, kSub, kTwosComplement>(y, num_blocks, length, scales, shifts,
                                                         inverse);
    };
    if (element_.kind == ElementKind::kTwosComplement) {
      return length == 32 ? call.template operator()<32, false, true>()
                          : call.template operator()<0, false, true>();
    }
    if (walk_.sub_block > 0) {
      return length == 16 && walk_.sub_block == 2
                 ? TileScalesOfPairs(y, num_blocks, scales, shifts, inverse)
                 : call.template operator()<0, true, false>();
    }
    switch (length) {
      case 8:
        return call.template operator()<8, false, false>();
      case 16:
        return call.template operator()<16, false, false>();
      case 32:
        return call.template operator()<32, false, false>();
      default:
        return call.template operator()<0, false, false>();
    }
  }

  // Does the same for MX4/6/9. Loops over pairs are vectorized, one over the pairs of a block is
  // not.
  bool TileScalesOfPairs(const float* __restrict y, size_t num_blocks, uint8_t* __restrict scales,
                         uint8_t* __restrict shifts, uint32_t* __restrict inverse) const {
    constexpr size_t kPairs = 8;  // in a block
    std::array<int32_t, BlockWalk::kTile / 2> amax;
    for (size_t k = 0; k < num_blocks * kPairs; ++k) {
      const int32_t first = CountedMagnitude<false>(y[2 * k], 0);
      const int32_t second = CountedMagnitude<false>(y[2 * k + 1], 0);
      amax[k] = first > second ? first : second;
    }
    const ScaleRule rule = rule_;
    int32_t fits = 1;
    for (size_t b = 0; b < num_blocks; ++b, shifts += kPairs, inverse += 2 * kPairs) {
      const int32_t* const pair = amax.data() + b * kPairs;
      const ScaleRule::Chosen chosen = rule.Choose(*std::max_element(pair, pair + kPairs));
      scales[b] = static_cast<uint8_t>(chosen.scale);
      fits &= chosen.fits;
      for (size_t k = 0; k < kPairs; ++k) {
        const int32_t shift = rule.Shift(pair[k], chosen.limit);
        shifts[k] = static_cast<uint8_t>(shift);
        inverse[2 * k] = inverse[2 * k + 1] =
            chosen.inverse + (static_cast<uint32_t>(shift) << kExponentShift);
      }
    }
    return fits != 0;
  }

  // Does the same for lengths that the compiler knows; kBlock 0 is any. kSub says whether there are
  // sub-blocks.
  template <size_t kBlock, bool kSub, bool kTwosComplement>
  bool TileScalesOf(const float* y, size_t num_blocks, size_t length, uint8_t* scales,
                    uint8_t* shifts, uint32_t* inverse) const {
    const size_t block = kBlock > 0 ? kBlock : length;
    const ScaleRule rule = rule_;
    bool fits = true;
    for (size_t b = 0; b < num_blocks; ++b, y += block, inverse += block) {
      int32_t amax = 0;
      for (size_t i = 0; i < block; ++i) {
        amax = std::max(amax, CountedMagnitude<kTwosComplement>(y[i], rule.reach_down));
      }
      const ScaleRule::Chosen chosen = rule.Choose(amax);
      scales[b] = static_cast<uint8_t>(chosen.scale);
      fits = fits && chosen.fits != 0;
      if constexpr (!kSub) {
        for (size_t i = 0; i < block; ++i) inverse[i] = chosen.inverse;
      } else {
        for (size_t begin = 0; begin < block; begin += walk_.sub_block) {
          const size_t end = std::min(begin + walk_.sub_block, block);
          int32_t sub_amax = 0;
          for (size_t i = begin; i < end; ++i) {
            sub_amax = std::max(sub_amax, CountedMagnitude<false>(y[i], 0));
          }
          const int32_t shift = rule.Shift(sub_amax, chosen.limit);
          *shifts++ = static_cast<uint8_t>(shift);
          const uint32_t sub_factor =
              chosen.inverse + (static_cast<uint32_t>(shift) << kExponentShift);
          for (size_t i = begin; i < end; ++i) inverse[i] = sub_factor;
        }
      }
    }
    return fits;
  }

  // --- Blocks along a strided axis ---

  void RunColumns(size_t q, size_t column, size_t columns, const BatchOut& out) {
    constexpr size_t kMost = BlockWalk::kColumnsPerTask;
    std::array<int32_t, kMost> amax;
    std::array<uint32_t, kMost> inverse;
    std::array<int32_t, kMost> limit;
    const size_t length = walk_.Length(q), stride = walk_.inner;
    const float* y = y_ + walk_.FirstElement(q) + column;
    const size_t position = InBatch(q, out) + column;
    LargestOfColumns(y, length, columns, amax.data());
    uint8_t* const scales = scales_ + walk_.FirstScale(q) + column;
    const ScaleRule rule = rule_;
    int32_t fits = 1;
    for (size_t c = 0; c < columns; ++c) {
      const ScaleRule::Chosen chosen = rule.Choose(amax[c]);
      scales[c] = static_cast<uint8_t>(chosen.scale);
      inverse[c] = chosen.inverse;
      limit[c] = chosen.limit;
      fits &= chosen.fits;
    }
    bool done = fits != 0;
    if (done && walk_.sub_block == 0) {
      for (size_t r = 0; done && r < length; ++r) {
        done = Encode(y + r * stride, inverse.data(), out, position + r * stride, columns);
      }
    } else if (done) {
      uint8_t* shifts = ShiftsOf(q, out) + column;
      std::array<uint32_t, kMost> sub_inverse;
      for (size_t begin = 0; done && begin < length; begin += walk_.sub_block, shifts += stride) {
        const size_t end = std::min(begin + walk_.sub_block, length);
        LargestOfColumns(y + begin * stride, end - begin, columns, amax.data());
        for (size_t c = 0; c < columns; ++c) {
          const int32_t shift = rule.Shift(amax[c], limit[c]);
          shifts[c] = static_cast<uint8_t>(shift);
          sub_inverse[c] = inverse[c] + (static_cast<uint32_t>(shift) << kExponentShift);
        }
        for (size_t r = begin; done && r < end; ++r) {
          done = Encode(y + r * stride, sub_inverse.data(), out, position + r * stride, columns);
        }
      }
    }
    if (!done) AskReference(q, column, columns, out);
  }

  void LargestOfColumns(const float* y, size_t length, size_t columns, int32_t* amax) const {
    std::fill_n(amax, columns, 0);
    const int32_t reach_down = rule_.reach_down;
    for (size_t r = 0; r < length; ++r, y += walk_.inner) {
      if (element_.kind == ElementKind::kTwosComplement) {
        for (size_t c = 0; c < columns; ++c) {
          amax[c] = std::max(amax[c], CountedMagnitude<true>(y[c], reach_down));
        }
      } else {
        for (size_t c = 0; c < columns; ++c) {
          amax[c] = std::max(amax[c], CountedMagnitude<false>(y[c], 0));
        }
      }
    }
  }

  // --- Both ---

  // Encodes elements. Returns false if some value may have no exact code.
  bool Encode(const float* y, const uint32_t* inverse, const BatchOut& out, size_t position,
              size_t count) const {
    uint8_t* const codes = out.codes + position;
    switch (element_.kind) {
      case ElementKind::kFloat:
        if (spec_.is_blocked()) return EncodeFloats<false>(element_, y, inverse, codes, count) == 0;
        if (element_.bits == 8) return EncodeFloats<true>(element_, y, inverse, codes, count) == 0;
        return EncodeWide(y, inverse, out.codes + 2 * position, count);
      case ElementKind::kBFloat16:
        return EncodeWide(y, inverse, out.codes + 2 * position, count);
      case ElementKind::kSignMagnitude:
        if (element_.low_bits == 0)
          return EncodeSignMagnitude(element_, y, inverse, codes, count) == 0;
        return EncodeTwoPlanes(element_, y, inverse, codes, out.low_codes + position, count) == 0;
      case ElementKind::kTwosComplement:
        return EncodeTwosComplement(y, inverse, codes, count) == 0;
    }
    return false;
  }

  // Encodes 16-bit codes, through a buffer because their bytes need not be aligned. REQUIRES: count
  // <= BlockWalk::kTile.
  bool EncodeWide(const float* y, const uint32_t* inverse, uint8_t* bytes, size_t count) const {
    BITPRESS_DCHECK(count <= BlockWalk::kTile);
    std::array<uint16_t, BlockWalk::kTile> codes;
    const uint32_t bad = element_.kind == ElementKind::kBFloat16
                             ? EncodeBFloat16(y, codes.data(), count)
                             : EncodeFloats<true>(element_, y, inverse, codes.data(), count);
    std::memcpy(bytes, codes.data(), count * sizeof(uint16_t));
    return bad == 0;
  }

  // Encodes the columns of a block by the reference, one by one.
  void AskReference(size_t q, size_t column, size_t columns, const BatchOut& out) {
    const size_t length = walk_.Length(q), stride = walk_.inner;
    const size_t sub = walk_.sub_block;
    std::vector<float> values(length);
    std::vector<uint16_t> codes(length);
    std::vector<uint8_t> shifts(sub > 0 ? (length + sub - 1) / sub : 0);
    for (size_t c = column; c < column + columns; ++c) {
      const size_t first = walk_.FirstElement(q) + c;
      for (size_t r = 0; r < length; ++r) values[r] = y_[first + r * stride];
      uint8_t scale = 0;
      const size_t bad = codec_.Encode(values, codes, scale, shifts);
      if (bad < length) NoteBad(first + bad * stride);
      if (spec_.is_blocked()) scales_[walk_.FirstScale(q) + c] = scale;
      for (size_t k = 0; k < shifts.size(); ++k) ShiftsOf(q, out)[k * stride + c] = shifts[k];
      for (size_t r = 0; r < length; ++r) {
        const size_t position = InBatch(q, out) + c + r * stride;
        if (!spec_.is_blocked() && element_.bits == 16) {
          std::memcpy(out.codes + 2 * position, &codes[r], sizeof(uint16_t));
          continue;
        }
        out.codes[position] = static_cast<uint8_t>(codes[r] >> element_.low_bits);
        if (element_.low_bits > 0) {
          out.low_codes[position] = static_cast<uint8_t>(codes[r] & ((1 << element_.low_bits) - 1));
        }
      }
    }
  }

  void NoteBad(size_t index) {
    size_t known = first_bad_;
    while (index < known && !first_bad_.compare_exchange_weak(known, index)) {
    }
  }

  const FormatSpec& spec_;
  const BlockWalk& walk_;
  const float* y_;
  uint8_t* scales_;
  ElementParams element_;
  formats::ref::BlockCodec codec_;
  ScaleRule rule_;
  std::atomic<size_t> first_bad_;
};

}  // namespace

ElementParams::ElementParams(const FormatSpec& spec)
    : bits(spec.element_bits), low_bits(formats::LowCodePlaneBits(spec)) {
  if (!spec.has_float_elements()) {
    kind = spec.is_block_float() ? ElementKind::kSignMagnitude : ElementKind::kTwosComplement;
    const formats::BlockRange range = formats::RangeOf(spec);
    max_bits = formats::FloatBits(static_cast<float>(range.max_value));
    unit_exponent = -range.fraction_bits;
    return;
  }
  const formats::FloatLayout layout = formats::LayoutOf(spec.element_type);
  max_bits = formats::FloatBits(static_cast<float>(layout.max_value));
  if (spec.element_type == formats::ElementType::kBFloat16) {
    kind = ElementKind::kBFloat16;
    return;
  }
  mantissa_shift = kExponentShift - layout.mantissa_bits;
  normal_offset = static_cast<uint32_t>(127 - layout.bias) << layout.mantissa_bits;
  least_normal = static_cast<uint32_t>(127 + 1 - layout.bias) << kExponentShift;
  magic_bits = static_cast<uint32_t>(127 + 1 - layout.bias + mantissa_shift) << kExponentShift;
  kept_mantissa = ~((1u << mantissa_shift) - 1) & ~kSignBit;
}

void PackTensor(const FormatSpec& spec, int64_t outer, int64_t axis, int64_t inner,
                std::span<const float> y, const formats::PackedSpans& out, ThreadPool& pool) {
  formats::CheckPackedSizes(spec, outer, axis, inner, y.size(), out.sizes());
  const BlockWalk walk(spec, outer, axis, inner);
  TensorPacker packer(spec, walk, y.data(), out.scales.data());
  PlaneWriter codes(formats::CodePlaneBits(spec), out.codes);
  PlaneWriter low_codes(formats::LowCodePlaneBits(spec), out.low_codes);
  PlaneWriter shifts(walk.sub_block > 0 ? spec.sub_block_shift_bits : 0, out.shifts);
  ForEachBatch(walk, pool.num_threads(), [&](size_t begin, size_t end) {
    const size_t num_elements = walk.FirstElement(end) - walk.FirstElement(begin);
    BatchOut batch;
    batch.first_block = begin;
    batch.codes = codes.Begin(num_elements);
    batch.low_codes = low_codes.Begin(num_elements);
    batch.shifts = shifts.Begin(walk.FirstShift(end) - walk.FirstShift(begin));
    pool.ParallelFor(NumTasks(walk, begin, end),
                     [&](size_t task) { packer.Run(TaskOf(walk, begin, end, task), batch); });
    if (const size_t bad = packer.first_bad(); bad < y.size()) {
      formats::FailNotRepresentable(spec, bad, y[bad]);
    }
    const bool is_last = end == walk.num_blocks;
    codes.Finish(is_last, pool);
    low_codes.Finish(is_last, pool);
    shifts.Finish(is_last, pool);
  });
}

}  // namespace bitpress::kernels
