#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "formats/float_bits.h"
#include "kernels/block_walk.h"
#include "kernels/half.h"
#include "kernels/pack_loops.h"
#include "kernels/pack_tensor.h"
#include "kernels/packed_plane.h"

namespace bitpress::kernels {
namespace {

using formats::FormatSpec;

// The range of shifted scales that give normal products with every element that is not zero. Other
// blocks that are not zeros are left to the reference.
constexpr uint32_t kLeastFactor = 27u << kExponentShift;
constexpr uint32_t kLargestFactor = 227u << kExponentShift;

// The planes of a batch. The first code of each belongs to the batch's first block.
struct BatchIn {
  size_t first_block = 0;
  const uint8_t* codes = nullptr;
  const uint8_t* low_codes = nullptr;
  const uint8_t* shifts = nullptr;
};

class TensorUnpacker {
 public:
  TensorUnpacker(const FormatSpec& spec, const BlockWalk& walk, const uint8_t* scales, float* y)
      : spec_(spec),
        walk_(walk),
        scales_(scales),
        y_(y),
        is_wide_(formats::CodePlaneBits(spec) > 8),
        low_bits_(formats::LowCodePlaneBits(spec)),
        codec_(spec) {
    if (!is_wide_) elements_ = formats::ElementTable(spec);
    if (!spec.is_blocked()) return;
    scale_table_ = formats::ScaleTable(spec);
    const uint32_t max_shift = (1u << spec.sub_block_shift_bits) - 1;
    for (size_t code = 0; code < is_easy_.size(); ++code) {
      const uint32_t factor = formats::FloatBits(scale_table_[code]);  // NaN is above the largest
      is_easy_[code] =
          factor >= kLeastFactor + (max_shift << kExponentShift) && factor <= kLargestFactor;
    }
  }

  void Run(const BlockTask& task, const BatchIn& in) const {
    if (is_wide_) {
      for (size_t q = task.begin; q < task.end; ++q) RunWide(q, in);
    } else if (walk_.inner == 1) {
      RunRows(task, in);
    } else {
      for (size_t q = task.begin; q < task.end; ++q) RunColumns(q, task.column, task.columns, in);
    }
  }

 private:
  size_t InBatch(size_t q, const BatchIn& in) const {
    return walk_.FirstElement(q) - walk_.FirstElement(in.first_block);
  }
  const uint8_t* ShiftsOf(size_t q, const BatchIn& in) const {
    if (walk_.sub_block == 0) return nullptr;
    return in.shifts + (walk_.FirstShift(q) - walk_.FirstShift(in.first_block));
  }

  void RunWide(size_t q, const BatchIn& in) const {
    std::array<uint16_t, BlockWalk::kTile> codes;
    const size_t count = walk_.Length(q);
    BITPRESS_DCHECK(count <= BlockWalk::kTile);
    std::memcpy(codes.data(), in.codes + 2 * InBatch(q, in), count * sizeof(uint16_t));
    float* const y = y_ + walk_.FirstElement(q);
    if (spec_.element_type == formats::ElementType::kFloat16) {
      HalfToFloat({codes.data(), count}, y);
    } else {
      for (size_t i = 0; i < count; ++i) {
        y[i] = formats::FloatFromBits(static_cast<uint32_t>(codes[i]) << 16);
      }
    }
  }

  void RunRows(const BlockTask& task, const BatchIn& in) const {
    std::vector<float> factors(std::max(BlockWalk::kTile, walk_.block), 1.0f);
    for (size_t q = task.begin; q < task.end;) {
      const size_t num_blocks = walk_.BlocksInTile(q, task.end);
      const size_t length = walk_.Length(q);
      if (spec_.is_blocked()) {
        const uint8_t* shifts = ShiftsOf(q, in);
        for (size_t b = 0; b < num_blocks; ++b) {
          RowFactors(scales_[q + b], shifts, length, factors.data() + b * length);
          if (shifts != nullptr) shifts += NumSubBlocks(length);
        }
      }
      Decode(in, InBatch(q, in), factors.data(), y_ + walk_.FirstElement(q), num_blocks * length);
      for (size_t b = q; spec_.is_blocked() && b < q + num_blocks; ++b) {
        if (!is_easy_[scales_[b]]) AskReference(b, 0, in);
      }
      q += num_blocks;
    }
  }

  size_t NumSubBlocks(size_t length) const {
    return walk_.sub_block > 0 ? (length + walk_.sub_block - 1) / walk_.sub_block : 0;
  }

  void RowFactors(uint8_t scale, const uint8_t* shifts, size_t length, float* factors) const {
    const float factor = scale_table_[scale];
    if (shifts == nullptr) {
      std::fill_n(factors, length, factor);
      return;
    }
    if (walk_.sub_block == 2) {
      for (size_t k = 0; k < length / 2; ++k) {
        factors[2 * k] = factors[2 * k + 1] = Shifted(factor, shifts[k]);
      }
      if (length % 2 != 0) factors[length - 1] = Shifted(factor, shifts[length / 2]);
      return;
    }
    for (size_t begin = 0; begin < length; begin += walk_.sub_block) {
      const size_t end = std::min(begin + walk_.sub_block, length);
      std::fill(factors + begin, factors + end, Shifted(factor, *shifts++));
    }
  }

  // Returns factor * 2^-shift if the scale is easy, else anything.
  static float Shifted(float factor, uint8_t shift) {
    return formats::FloatFromBits(formats::FloatBits(factor) -
                                  (static_cast<uint32_t>(shift) << kExponentShift));
  }

  void RunColumns(size_t q, size_t column, size_t columns, const BatchIn& in) const {
    std::array<float, BlockWalk::kColumnsPerTask> factors, shifted;
    const size_t length = walk_.Length(q), stride = walk_.inner;
    const uint8_t* const scales = scales_ + walk_.FirstScale(q) + column;
    const size_t position = InBatch(q, in) + column;
    float* const y = y_ + walk_.FirstElement(q) + column;
    const uint8_t* const shifts = walk_.sub_block > 0 ? ShiftsOf(q, in) + column : nullptr;
    for (size_t c = 0; c < columns; ++c) factors[c] = scale_table_[scales[c]];
    for (size_t r = 0; r < length; ++r) {
      if (shifts != nullptr && r % walk_.sub_block == 0) {
        const uint8_t* const row = shifts + r / walk_.sub_block * stride;
        for (size_t c = 0; c < columns; ++c) shifted[c] = Shifted(factors[c], row[c]);
      }
      Decode(in, position + r * stride, shifts != nullptr ? shifted.data() : factors.data(),
             y + r * stride, columns);
    }
    for (size_t c = 0; c < columns; ++c) {
      if (!is_easy_[scales[c]]) AskReference(q, column + c, in);
    }
  }

  void Decode(const BatchIn& in, size_t position, const float* factors, float* y,
              size_t count) const {
    if (low_bits_ == 0) {
      DecodeTable(elements_.data(), in.codes + position, factors, y, count);
    } else {
      DecodeTwoPlanes(low_bits_, in.codes + position, in.low_codes + position, factors, y, count);
    }
  }

  // Decodes one column of a block by the reference.
  void AskReference(size_t q, size_t column, const BatchIn& in) const {
    const size_t length = walk_.Length(q), stride = walk_.inner;
    const uint8_t scale = scales_[walk_.FirstScale(q) + column];
    const size_t position = InBatch(q, in) + column;
    float* const y = y_ + walk_.FirstElement(q) + column;
    std::vector<uint16_t> codes(length);
    bool is_zero = !std::isnan(scale_table_[scale]);
    for (size_t r = 0; r < length; ++r) {
      const uint8_t high = in.codes[position + r * stride];
      const uint8_t low = low_bits_ > 0 ? in.low_codes[position + r * stride] : uint8_t{0};
      codes[r] = static_cast<uint16_t>(high << low_bits_ | low);
      is_zero = is_zero && elements_[high] == 0 && low == 0;
    }
    if (is_zero) {  // the common case of a scale that is not easy
      for (size_t r = 0; r < length; ++r)
        y[r * stride] = elements_[in.codes[position + r * stride]];
      return;
    }
    std::vector<uint8_t> shifts(NumSubBlocks(length));
    for (size_t k = 0; k < shifts.size(); ++k) shifts[k] = ShiftsOf(q, in)[k * stride + column];
    std::vector<float> values(length);
    codec_.Decode(codes, scale, shifts, values);
    for (size_t r = 0; r < length; ++r) y[r * stride] = values[r];
  }

  const FormatSpec& spec_;
  const BlockWalk& walk_;
  const uint8_t* scales_;
  float* y_;
  bool is_wide_;
  int low_bits_;
  formats::ref::BlockCodec codec_;
  std::vector<float> elements_;
  std::array<float, 256> scale_table_{};
  std::array<bool, 256> is_easy_{};  // scale codes that are easy with any shift
};

}  // namespace

void UnpackTensor(const FormatSpec& spec, int64_t outer, int64_t axis, int64_t inner,
                  const formats::PackedView& packed, std::span<float> y, ThreadPool& pool) {
  formats::CheckPackedSizes(spec, outer, axis, inner, y.size(), packed.sizes());
  const BlockWalk walk(spec, outer, axis, inner);
  const TensorUnpacker unpacker(spec, walk, packed.scales.data(), y.data());
  PlaneReader codes(formats::CodePlaneBits(spec), packed.codes);
  PlaneReader low_codes(formats::LowCodePlaneBits(spec), packed.low_codes);
  PlaneReader shifts(walk.sub_block > 0 ? spec.sub_block_shift_bits : 0, packed.shifts);
  ForEachBatch(walk, pool.num_threads(), [&](size_t begin, size_t end) {
    const size_t first = walk.FirstElement(begin), count = walk.FirstElement(end) - first;
    const size_t first_shift = walk.FirstShift(begin);
    BatchIn batch;
    batch.first_block = begin;
    batch.codes = codes.Read(first, count, pool);
    batch.low_codes = low_codes.Read(first, count, pool);
    batch.shifts = shifts.Read(first_shift, walk.FirstShift(end) - first_shift, pool);
    pool.ParallelFor(NumTasks(walk, begin, end),
                     [&](size_t task) { unpacker.Run(TaskOf(walk, begin, end, task), batch); });
  });
}

}  // namespace bitpress::kernels
