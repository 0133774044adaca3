// How ONNX Runtime adds products of 8-bit integers on this machine (formats/pair_sums.h).
#pragma once

namespace bitpress::runtime {

// Returns whether it adds pairs of uint8 x int8 products in saturating 16 bits, as on x86 without
// VNNI: computes one such pair and looks. Opens ONNX Runtime; asked once in a process. Throws Error
// as Session.
bool SaturatesPairSums();

}  // namespace bitpress::runtime
