// The facts about FLOAT16 that making a network FLOAT (widen_half.h) and making it FLOAT16
// (narrow_to_half.h) share: numbers, constants, and the attributes that name a type.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "graph/model.h"

namespace bitpress::graph {

// The largest finite magnitude of FLOAT16.
inline constexpr float kLargestHalf = 65504;

// Returns the exact value of a FLOAT16 number.
float WidenedHalf(uint16_t half);

// Returns the nearest FLOAT16 number, ties to even. Finite values beyond the range become the
// largest finite one. Infinities and NaN stay.
uint16_t NarrowedFloat(float value);

// Returns whether an attribute of this name says the type of an operator's output.
bool IsTypeAttribute(std::string_view name);

// Returns a node that gives `to`, which is `from` in another type.
NodeSpec CastSpec(const Model& model, const std::string& from, const std::string& to,
                  DataType type);

// A function that writes the converted elements of `source` to `target`.
using ConvertBytes = std::function<void(std::span<const std::byte> source, std::byte* target)>;

// Sets the initializer `to`, which may be `from`, to the elements of `from` in another type. Large
// ones go to a temporary file, because all of them together may be larger than memory.
void ConvertInitializer(Model& model, const std::string& from, const std::string& to, DataType type,
                        const ConvertBytes& convert);

}  // namespace bitpress::graph
