// The question whether sums of 8-bit products saturate in ONNX Runtime on this machine
// (formats/pair_sums.h).
#pragma once

namespace bitpress::runtime {

// Returns whether ONNX Runtime adds pairs of uint8 x int8 products in saturating 16 bits, as on x86
// without VNNI. It opens ONNX Runtime and computes one such pair, once in a process. Throws Error
// as Session.
bool SaturatesPairSums();

}  // namespace bitpress::runtime
