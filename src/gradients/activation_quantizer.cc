#include "gradients/activation_quantizer.h"

#include <algorithm>
#include <cmath>

#include "gradients/rules.h"
#include "kernels/fake_quantize.h"

namespace bitpress::gradients {
namespace {

// The largest magnitude that rounds to the largest value: half a step above it.
double LargestRounded(const formats::FormatSpec& spec) {
  const formats::FloatLayout layout = formats::LayoutOf(spec.element_type);
  return layout.max_value + std::ldexp(0.5, layout.max_exponent - layout.mantissa_bits);
}

class FloatQuantizer : public ActivationQuantizer {
 public:
  FloatQuantizer(const formats::FormatSpec& spec, int64_t axis, std::optional<float> scale)
      : spec_(spec), axis_(axis), scale_(scale) {}

  void Run(const Array<float>& x, Array<float>& y, std::vector<uint8_t>& passes,
           ThreadPool& pool) const override {
    y.Reshape(x.dims);
    const size_t axis = spec_.is_blocked() ? AxisOf(axis_, x.dims.size()) : 0;
    const bool has_axis = spec_.is_blocked();
    const int64_t outer = has_axis ? Extent(x.dims, 0, axis) : 1;
    const int64_t length = has_axis ? x.dims[axis] : static_cast<int64_t>(x.size());
    const int64_t inner = has_axis ? Extent(x.dims, axis + 1, x.dims.size()) : 1;
    const float* from = x.data();
    if (scale_) {
      ForParts(pool, x.size(), [&](size_t begin, size_t end) {
        for (size_t i = begin; i < end; ++i) y.values[i] = x.values[i] / *scale_;
      });
      from = y.data();
    }
    passes.clear();
    if (spec_.has_float_elements()) {
      if (!spec_.is_blocked()) MaskElements(from, x.size(), passes, pool);
      // Only the scales of these choices let the top of a block saturate.
      const bool may_saturate =
          spec_.has_exponent_scales() && (spec_.scale_choice == formats::ScaleChoice::kFloor ||
                                          spec_.scale_choice == formats::ScaleChoice::kMse);
      if (may_saturate) MaskBlocks(from, {outer, length, inner}, passes, pool);
    }
    const kernels::FakeQuantizer quantizer(spec_, outer, length, inner);
    pool.ParallelFor(quantizer.num_tasks(),
                     [&](size_t task) { quantizer.RunTask(task, from, y.data()); });
    if (!scale_) return;
    ForParts(pool, x.size(), [&](size_t begin, size_t end) {
      for (size_t i = begin; i < end; ++i) y.values[i] *= *scale_;
    });
  }

 private:
  struct Extents {
    int64_t outer, length, inner;
  };

  void MaskElements(const float* x, size_t count, std::vector<uint8_t>& passes,
                    ThreadPool& pool) const {
    const auto limit = static_cast<float>(LargestRounded(spec_));
    passes.resize(count);
    ForParts(pool, count, [&](size_t begin, size_t end) {
      for (size_t i = begin; i < end; ++i) passes[i] = std::abs(x[i]) <= limit ? 1 : 0;
    });
  }

  // The shared exponent is that of the largest magnitude, less that of the largest element.
  void MaskBlocks(const float* x, const Extents& extents, std::vector<uint8_t>& passes,
                  ThreadPool& pool) const {
    const int64_t blocks = (extents.length + spec_.block_size - 1) / spec_.block_size;
    const auto columns = static_cast<size_t>(extents.inner);
    const double limit_of_unit =
        std::ldexp(LargestRounded(spec_), -formats::LayoutOf(spec_.element_type).max_exponent);
    passes.resize(static_cast<size_t>(extents.outer * extents.length) * columns);
    pool.ParallelFor(static_cast<size_t>(extents.outer * blocks), [&](size_t task) {
      const int64_t first = static_cast<int64_t>(task) % blocks * spec_.block_size;
      const int64_t row = static_cast<int64_t>(task) / blocks * extents.length + first;
      const size_t at = static_cast<size_t>(row) * columns;
      const auto length =
          static_cast<size_t>(std::min<int64_t>(spec_.block_size, extents.length - first));
      // In parts of columns, whose largest magnitudes stay in the cache.
      constexpr size_t kColumns = 256;
      float limits[kColumns];
      for (size_t begin = 0; begin < columns; begin += kColumns) {
        const size_t count = std::min(kColumns, columns - begin);
        std::fill_n(limits, count, 0.0F);
        for (size_t k = 0; k < length; ++k) {
          const float* const values = x + at + k * columns + begin;
          for (size_t i = 0; i < count; ++i) limits[i] = std::max(limits[i], std::abs(values[i]));
        }
        for (size_t i = 0; i < count; ++i) {
          const int exponent = limits[i] > 0 ? std::ilogb(limits[i]) : 0;
          limits[i] = static_cast<float>(std::ldexp(limit_of_unit, exponent));
        }
        for (size_t k = 0; k < length; ++k) {
          const float* const values = x + at + k * columns + begin;
          uint8_t* const out = passes.data() + at + k * columns + begin;
          for (size_t i = 0; i < count; ++i) out[i] = std::abs(values[i]) <= limits[i] ? 1 : 0;
        }
      }
    });
  }

  formats::FormatSpec spec_;
  int64_t axis_;
  std::optional<float> scale_;
};

class IntegerQuantizer : public ActivationQuantizer {
 public:
  IntegerQuantizer(formats::ElementType type, const formats::QParams& params)
      : scale_(params.scale) {
    const formats::CodeRange range = formats::IntegerRange(type);
    least_ = static_cast<float>(range.quant_min - params.zero_point);
    largest_ = static_cast<float>(range.quant_max - params.zero_point);
  }
  void Run(const Array<float>& x, Array<float>& y, std::vector<uint8_t>& passes,
           ThreadPool& pool) const override {
    y.Reshape(x.dims);
    passes.resize(x.size());
    // Sums with kMagic have no digits left behind the point, and need no call.
    constexpr float kMagic = 0x1.8p23F, kMostForMagic = 0x1p22F;
    if (std::max(-least_, largest_) <= kMostForMagic) {
      RunWith([](float code) { return (code + kMagic) - kMagic; }, x, y, passes, pool);
    } else {
      RunWith([](float code) { return std::nearbyint(code); }, x, y, passes, pool);
    }
  }

 private:
  template <typename Round>
  void RunWith(const Round& round, const Array<float>& x, Array<float>& y,
               std::vector<uint8_t>& passes, ThreadPool& pool) const {
    const float* const from = x.data();
    float* const to = y.data();
    uint8_t* const pass = passes.data();
    ForParts(pool, x.size(),
             [&, scale = scale_, least = least_, largest = largest_](size_t begin, size_t end) {
               for (size_t i = begin; i < end; ++i) {
                 const float units = from[i] / scale;
                 to[i] = round(std::min(std::max(units, least), largest)) * scale;
                 pass[i] =
                     static_cast<uint8_t>((units >= least - 0.5F) & (units <= largest + 0.5F));
               }
             });
  }

  float scale_, least_, largest_;
};

}  // namespace

std::unique_ptr<ActivationQuantizer> MakeFloatQuantizer(const formats::FormatSpec& spec,
                                                        int64_t axis, std::optional<float> scale) {
  return std::make_unique<FloatQuantizer>(spec, axis, scale);
}

std::unique_ptr<ActivationQuantizer> MakeIntegerQuantizer(formats::ElementType type,
                                                          const formats::QParams& params) {
  return std::make_unique<IntegerQuantizer>(type, params);
}

}  // namespace bitpress::gradients
