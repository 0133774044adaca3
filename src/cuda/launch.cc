#include "cuda/launch.h"

#include <algorithm>

#include "base/check.h"
#include "formats/float_bits.h"

namespace bitpress::cuda {
namespace {

using formats::FormatSpec;

constexpr uint32_t kRowThreads = 256;
constexpr uint32_t kColumnThreads = 128;
constexpr int64_t kVectors = 2;  // of four values, a thread of bitpress_rows
constexpr int64_t kValuesPerThread = 4;
constexpr int64_t kSharedRows = 32;

int64_t PiecesOf(int64_t count, int64_t size) { return (count + size - 1) / size; }
uint32_t Field(int exponent) { return static_cast<uint32_t>(exponent) << 23; }
// The float32 arithmetic of blocks has room for these exponents (cuda/block_math.h).
uint32_t ClampedField(int exponent) { return Field(std::clamp(exponent, 63, 240)); }

Way WayOf(const FormatSpec& spec) {
  const bool is_even = spec.rounding == formats::RoundingMode::kHalfToEven;
  const bool is_positive = spec.zero_rule == formats::ZeroRule::kPositive;
  const bool keeps_sign = spec.zero_rule == formats::ZeroRule::kKeepSign;
  if (!spec.has_exponent_scales()) return kFloatScale;
  if (spec.has_float_elements()) {
    return keeps_sign ? kFloats : is_positive ? kFloatsPositive : kOther;
  }
  if (spec.is_block_float()) {
    return is_even && keeps_sign ? kMagnitudes : kOther;
  }
  return is_even && is_positive ? kQuickIntegers : kOther;
}

Element ElementOf(const FormatSpec& spec) {
  if (spec.has_float_elements()) return kFloatElement;
  const bool has_sign = spec.is_block_float();
  return has_sign ? kSignMagnitude : kTwosComplement;
}

// Mantissas above it raise the exponent of a block by one.
uint32_t ExponentThreshold(const FormatSpec& spec, const BlockFormat& f) {
  if (spec.scale_choice == formats::ScaleChoice::kCeil) return f.limit_mantissa;
  if (spec.scale_choice == formats::ScaleChoice::kEven) {
    return formats::kFloatMantissaMask - (1u << (22 - f.fraction_bits));
  }
  return formats::kFloatMantissaMask;
}

bool IsAligned(const void* memory, size_t bytes) {
  return reinterpret_cast<uintptr_t>(memory) % bytes == 0;
}

// Returns whether lanes may take four neighbours each (the kernel bitpress_rows).
bool FitsRows(const FormatSpec& spec, const Shape& shape) {
  const int block = spec.block_size, sub = spec.sub_block_size;
  return shape.inner == 1 && block >= 4 && block <= 128 && (block & (block - 1)) == 0 &&
         spec.scale_choice != formats::ScaleChoice::kMse &&
         (sub == 0 || sub == 1 || sub == 2 || sub == 4);
}

Launch PlanRows(const FormatSpec& spec, const Shape& shape, BlockArgs args) {
  const size_t bytes = static_cast<size_t>(kValuesPerThread) * (args.is_half ? 2 : 4);
  args.group_lanes = spec.block_size / static_cast<int32_t>(kValuesPerThread);
  args.has_short_blocks = shape.length % spec.block_size != 0;
  args.is_aligned =
      shape.length % kValuesPerThread == 0 && IsAligned(args.x, bytes) && IsAligned(args.y, bytes);
  const int64_t threads = shape.outer * args.blocks * args.group_lanes;
  return {"bitpress_rows", PiecesOf(threads, kRowThreads * kVectors), kRowThreads, args};
}

Launch PlanBlocks(const FormatSpec& spec, const Shape& shape, BlockArgs args) {
  if (FitsRows(spec, shape)) return PlanRows(spec, shape, args);
  const int64_t longest = std::min<int64_t>(spec.block_size, shape.length);
  const int64_t blocks = shape.outer * args.blocks * shape.inner;
  const bool has_simple_scale =
      spec.scale_choice != formats::ScaleChoice::kMse && spec.sub_block_size == 0;
  if (shape.inner == 1 && has_simple_scale) {
    args.group_lanes = 1;
    while (args.group_lanes < 32 && args.group_lanes * kValuesPerThread < longest) {
      args.group_lanes *= 2;
    }
    return {"bitpress_any_rows", PiecesOf(blocks * args.group_lanes, kRowThreads), kRowThreads,
            args};
  }
  args.is_kept = longest <= kSharedRows;
  return {"bitpress_columns", PiecesOf(blocks, kColumnThreads), kColumnThreads, args};
}

Launch PlanElements(const FormatSpec& spec, int64_t count, bool is_half, const void* x, void* y) {
  const formats::FloatLayout layout = formats::LayoutOf(spec.element_type);
  ElementArgs args = {};
  args.x = x;
  args.y = y;
  args.count = count;
  args.is_bfloat16 = spec.element_type == formats::ElementType::kBFloat16;
  args.passes_infinity = spec.special_rule == formats::SpecialRule::kPass;
  args.limit = formats::FloatBits(static_cast<float>(layout.max_value));
  args.least_exponent = Field(1 - layout.bias + formats::kFloatBias);
  args.magic_offset = Field(formats::kFloatMantissaBits - layout.mantissa_bits);
  return {is_half ? "bitpress_elements_f16" : "bitpress_elements_f32",
          PiecesOf(count, kRowThreads * kValuesPerThread), kRowThreads, args};
}

LinearArgs LinearArgsOf(const LinearTensors& tensors) {
  return {tensors.x,           tensors.y,     tensors.scales,
          tensors.zero_points, tensors.count, tensors.inner,
          tensors.num_scales,  tensors.code,  0};
}

}  // namespace

const void* Launch::parameters() const {
  return std::visit([](const auto& of) -> const void* { return &of; }, args);
}

BlockFormat DeviceFormat(const FormatSpec& spec) {
  BITPRESS_DCHECK(spec.is_blocked());
  const formats::BlockRange range = formats::RangeOf(spec);
  BlockFormat f = {};
  f.way = WayOf(spec);
  f.element = ElementOf(spec);
  f.rounding = static_cast<int32_t>(spec.rounding);
  f.choice = static_cast<int32_t>(spec.scale_choice);
  f.zero = static_cast<int32_t>(spec.zero_rule);
  f.block_size = spec.block_size;
  f.sub_block_size = spec.sub_block_size;
  f.nan_block = spec.special_rule == formats::SpecialRule::kNanBlock;
  f.flush_subnormals = spec.flush_subnormals;
  // Blocks with float scales need no more than finite values.
  f.least_amax = spec.has_exponent_scales() ? Field(64) : 0;
  f.amax_range = Field(spec.has_exponent_scales() ? 225 : 255) - f.least_amax;
  f.max_value = static_cast<float>(range.max_value);
  f.max_exponent = range.max_exponent;
  f.fraction_bits = range.fraction_bits;
  f.least_shared = range.min_shared_exponent;
  f.most_shared = range.max_shared_exponent;
  f.limits_shared = spec.limit_shared_exponent;
  f.reads_exponent_field = spec.is_block_float();
  f.max_shift = (1 << spec.sub_block_shift_bits) - 1;
  f.max_shift_field = Field(f.max_shift);
  f.limit_mantissa = formats::FloatBits(f.max_value) & formats::kFloatMantissaMask;
  f.exponent_threshold = ExponentThreshold(spec, f);
  f.emax_offset = Field(range.max_exponent);
  const int offset = range.max_exponent + formats::kFloatBias;
  f.least_exponent = spec.limit_shared_exponent ? ClampedField(f.least_shared + offset) : Field(63);
  f.largest_exponent =
      spec.limit_shared_exponent ? ClampedField(f.most_shared + offset) : Field(240);
  f.magic_offset = Field(formats::kFloatMantissaBits - f.fraction_bits);
  if (f.element == kFloatElement) {
    f.min_exponent = 1 - formats::LayoutOf(spec.element_type).bias;
    f.subnormal_offset = Field(f.max_exponent - f.min_exponent);
  }
  return f;
}

Launch PlanFakeQuantize(const FormatSpec& spec, const Shape& shape, bool is_half, const void* x,
                        void* y) {
  BITPRESS_DCHECK(!spec.is_integer());
  const int64_t count = shape.outer * shape.length * shape.inner;
  if (count == 0) return {};
  if (!spec.is_blocked()) return PlanElements(spec, count, is_half, x, y);
  BlockArgs args = {};
  args.x = x;
  args.y = y;
  args.outer = shape.outer;
  args.length = shape.length;
  args.inner = shape.inner;
  args.blocks = PiecesOf(shape.length, spec.block_size);
  args.group_lanes = 1;
  args.is_half = is_half;
  args.format = DeviceFormat(spec);
  return PlanBlocks(spec, shape, args);
}

Launch PlanQuantize(const LinearTensors& tensors, bool is_half) {
  return {is_half ? "bitpress_quantize_f16" : "bitpress_quantize_f32",
          PiecesOf(tensors.count, kRowThreads * kValuesPerThread), kRowThreads,
          LinearArgsOf(tensors)};
}

Launch PlanDequantize(const LinearTensors& tensors) {
  return {"bitpress_dequantize", PiecesOf(tensors.count, kRowThreads * kValuesPerThread),
          kRowThreads, LinearArgsOf(tensors)};
}

}  // namespace bitpress::cuda
