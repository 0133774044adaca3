#include "kernels/column_codes.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/column_codes.cc"
#include <hwy/foreach_target.h>
// Behind foreach_target.h, as it includes this file once a target.
#include <hwy/highway.h>

#include "kernels/dispatch.h"

HWY_BEFORE_NAMESPACE();
namespace bitpress::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

constexpr hn::CappedTag<float, 16> kDf;
constexpr hn::RebindToSigned<decltype(kDf)> kDi;
constexpr hn::Rebind<uint8_t, decltype(kDf)> kD8;
using VF = hn::VFromD<decltype(kDf)>;
using VI = hn::VFromD<decltype(kDi)>;

// Takes a vector of columns apart.
template <bool kIsBytes>
HWY_INLINE void TakeVector(const formats::BlockUnits& rule, const float* values, size_t stride,
                           size_t column, const ColumnCodes& out) {
  constexpr size_t kElements = kIsBytes ? 4 : 2;
  values += column;
  const VI infinity = hn::Set(kDi, 0x7F800000), zero = hn::Zero(kDi);
  VI most = zero;
  for (size_t k = 0; k < out.pieces * kElements; ++k) {
    const VI bits = hn::BitCast(kDi, hn::LoadU(kDf, values + k * stride));
    VI magnitude = hn::And(bits, hn::Set(kDi, 0x7FFFFFFF));
    if (rule.is_twos_complement) {
      // A negative number counts one less, if it is neither -0 nor infinite.
      const auto is_number = hn::And(hn::Gt(magnitude, zero), hn::Lt(magnitude, infinity));
      const VI less = hn::And(hn::VecFromMask(kDi, is_number), hn::BroadcastSignBit(bits));
      magnitude = hn::Add(magnitude, less);
    }
    most = hn::Max(most, magnitude);
  }
  // The rule is that of BlockScale in whole_out.h.
  const VI exponent = hn::ShiftRight<23>(most);
  const VI above = hn::Sub(exponent, hn::Set(kDi, rule.top));
  const auto is_nan = hn::Eq(exponent, hn::Set(kDi, 255));
  const auto is_used = hn::AndNot(is_nan, hn::Gt(above, zero));
  VI unit = hn::IfThenElse(is_used, above, hn::Set(kDi, formats::kUnitBias));
  unit = hn::IfThenElse(is_nan, hn::Set(kDi, formats::kNanUnit), unit);
  const VI field = hn::Sub(hn::Set(kDi, 2 * formats::kUnitBias), unit);
  VI inverse_bits = hn::IfThenElse(hn::Gt(field, zero), hn::ShiftLeft<23>(field),
                                   hn::Set(kDi, 0x00400000));  // 2^-127
  inverse_bits = hn::IfThenElseZero(is_used, inverse_bits);
  const VF inverse = hn::BitCast(kDf, inverse_bits);
  const auto number = [&](size_t k) {
    const VF value =
        hn::IfThenElseZero(hn::RebindMask(kDf, is_used), hn::LoadU(kDf, values + k * stride));
    return hn::NearestInt(hn::Mul(value, inverse));
  };
  const VI offset = hn::Set(kDi, out.offset);
  for (size_t p = 0; p < out.pieces; ++p) {
    VI piece;
    if constexpr (kIsBytes) {
      const VI low = hn::Or(hn::Add(number(4 * p), offset),
                            hn::ShiftLeft<8>(hn::Add(number(4 * p + 1), offset)));
      const VI high = hn::Or(hn::ShiftLeft<16>(hn::Add(number(4 * p + 2), offset)),
                             hn::ShiftLeft<24>(hn::Add(number(4 * p + 3), offset)));
      piece = hn::Or(low, high);
    } else {
      piece = hn::Or(hn::And(number(2 * p), hn::Set(kDi, 0xFFFF)),
                     hn::ShiftLeft<16>(number(2 * p + 1)));
    }
    hn::StoreU(piece, kDi,
               reinterpret_cast<int32_t*>(out.codes + p * out.code_stride + 4 * column));
  }
  hn::StoreU(hn::DemoteTo(kD8, unit), kD8, out.units + column);
}

void Take(const formats::BlockUnits& rule, const float* values, size_t stride, size_t columns,
          const ColumnCodes& out) {
  for (size_t column = 0; column < columns; column += hn::Lanes(kDf)) {
    if (out.form == ColumnForm::kBytes) {
      TakeVector<true>(rule, values, stride, column, out);
    } else {
      TakeVector<false>(rule, values, stride, column, out);
    }
  }
}

}  // namespace bitpress::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace bitpress::kernels {

using TakeKernel = void (*)(const formats::BlockUnits&, const float*, size_t, size_t,
                            const ColumnCodes&);
constexpr TakeKernel kTakeTable[] = BITPRESS_DISPATCH_TABLE(Take);

void TakeColumns(const formats::BlockUnits& rule, const float* values, size_t stride,
                 size_t columns, const ColumnCodes& out) {
  kTakeTable[ChosenTargetIndex()](rule, values, stride, columns, out);
}

}  // namespace bitpress::kernels
#endif
