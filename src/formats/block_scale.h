// The scales that the elements of blocks share. All that depends on the kind of a scale
// (FormatSpec::scale_type) in the reference and in packing is here; encoders, packers and decoders
// take scales as numbers. Pure functions, thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "formats/format_spec.h"

namespace bitpress::formats {

// Returns why blocks have no such scales, as a clause; "" if they have. REQUIRES:
// spec.is_blocked().
std::string WhyNoScales(const FormatSpec& spec);

// Returns the number that a stored scale is: a power of two for the codes of exponents. NaN for the
// code of NaN and for those above it. REQUIRES: spec.is_blocked().
double DecodeScale(const FormatSpec& spec, uint32_t code);
// Returns the code of a scale. REQUIRES: a code of the format stands for it.
uint32_t EncodeScale(const FormatSpec& spec, double scale);
// Returns the code of a block that is NaN, all ones.
uint32_t NanScaleCode(const FormatSpec& spec);
// Returns the smallest positive scale, which blocks of zeros have.
double LeastScale(const FormatSpec& spec);

namespace ref {

// The scales among which that of a block lies, the ones that win ties first. There are several if
// the choice is kMse.
struct ScaleCandidates {
  std::vector<double> scales;
  double error_unit = 1;  // errors are compared in this unit
};
// Returns the candidates for a block with this largest magnitude. REQUIRES: amax > 0.
ScaleCandidates CandidateScales(const FormatSpec& spec, double amax);

// Returns the scales that may hold the quantized values y exactly, the smallest first. The first
// one that does is stored.
std::vector<double> ScalesToPack(const FormatSpec& spec, std::span<const float> y);

// --- Scales that are powers of two

// Returns the exponent that a largest magnitude asks for before it is limited. For kMse it is that
// of the floor choice. REQUIRES: amax is not zero.
int WantedExponent(const FormatSpec& spec, double amax);
// Returns the smallest exponent with which no finite value of `part` saturates; `least` for zeros.
int LeastExponent(const FormatSpec& spec, std::span<const float> part, int least);

}  // namespace ref
}  // namespace bitpress::formats
