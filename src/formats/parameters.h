// The formats that take parameters, in brackets those that a name may lack:
//   bfp(bits=13, block=32[, exponent_bits=8])
//   mx(bits=12, block=32[, sub_block=2, shift_bits=1])   MX4, MX6 and MX9 in other sizes
//   mxfp8_e4m3(block=16)                                 a Microscaling format in other blocks
// Such a format has a base name ("bfp", "mx", "mxfp8_e4m3"). Operators are called after the base
// and have the parameters as attributes. Everything that spells a format in a model asks here.
// Pure.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "formats/format_spec.h"

namespace bitpress::formats {

// A parameter with its spellings.
struct FormatParameter {
  std::string_view key;        // in names of formats: "block"
  std::string_view attribute;  // of operators: "block_size"
  std::string_view word;       // in names of functions: "block"
  int64_t fallback = 0;        // the value of an operator without the attribute
  bool is_required = false;    // a name of a format must have it
  int FormatSpec::*field = nullptr;
};

// Returns the format's name without parameters.
std::string_view BaseName(const FormatSpec& spec);
inline bool HasParameters(const FormatSpec& spec) { return BaseName(spec) != spec.name; }

// Returns the parameters of the formats with this base name. Empty: there are none.
std::span<const FormatParameter> ParametersOf(std::string_view base);

// Returns a parameter of a format in the unit of its spellings: `bits` counts the shared exponent.
int64_t ValueOf(const FormatSpec& spec, const FormatParameter& parameter);

// Returns the format with this base name and these values. A format that has a name without
// parameters gets that name. Throws Error(kInvalidArgument) naming the value that is out of range.
// REQUIRES: ParametersOf(base) is not empty.
FormatSpec MakeFormat(std::string_view base,
                      const std::function<int64_t(const FormatParameter&)>& value);

// Reads a name with parameters. Throws Error(kInvalidArgument) naming the word that is wrong.
// REQUIRES: the name ends with a parenthesis, and ParametersOf its beginning is not empty.
FormatSpec ParseParameters(std::string_view name);

// Returns the names of the bases.
std::span<const std::string_view> ParametricBases();

}  // namespace bitpress::formats
