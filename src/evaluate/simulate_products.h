// Models as another kind of x86 processor computes them: the integer products that can saturate
// without VNNI are taken apart into operators that give what that kind gives, on every machine.
#pragma once

#include <array>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace bitpress::evaluate {

// How a processor adds the products of uint8 activations and int8 weights.
enum class ProcessorKind {
  kExact,       // in 32 bits: x86 with VNNI, other processors than x86
  kSaturating,  // pairs in saturating 16 bits: x86 without VNNI
};

// Returns the kind of this machine, as ONNX Runtime computes on it: asked by a product of two.
ProcessorKind ThisProcessor();
ProcessorKind OtherKind(ProcessorKind kind);
// For people: "adds 8-bit products in 32 bits (as x86 with VNNI)".
std::string_view DescribeProcessor(ProcessorKind kind);

// What users call the kinds; nothing: the kind of this machine.
inline constexpr std::array<std::pair<std::string_view, std::optional<ProcessorKind>>, 3>
    kProcessorWords{{{"here", std::nullopt},
                     {"vnni", ProcessorKind::kExact},
                     {"no_vnni", ProcessorKind::kSaturating}}};
// Throws Error(kInvalidArgument) with the words.
std::optional<ProcessorKind> ParseProcessor(std::string_view word);

struct SimulatedModel {
  size_t num_nodes = 0;  // that were taken apart
  // Nodes that can saturate and are computed as on this machine all the same: recurrent operators
  // and attention, which cannot be taken apart here, and products whose scales are no FLOAT
  // constants.
  std::vector<std::string> left;

  // Otherwise this machine computes the same, and nothing was written.
  bool is_changed() const { return num_nodes > 0; }
};

// Writes to `out` what ONNX Runtime makes of `model`, with the sums of `kind`. It needs our
// operator library, and its times say nothing. Outputs are those of that kind of processor, up to
// the order of additions of floats. Throws Error as runtime::OptimizeAs.
SimulatedModel SimulateProducts(const std::filesystem::path& model, ProcessorKind kind,
                                const std::filesystem::path& out);

}  // namespace bitpress::evaluate
