// Makes a model that computes on this machine as it would on another kind of x86 processor. Use it
// to test an integer model for processors with and without VNNI on one machine. Each integer
// product that can saturate is replaced by several operators that give the other kind's results.
#pragma once

#include <array>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/words.h"

namespace bitpress::processors {

// The way in which a processor adds the products of uint8 activations and int8 weights.
enum class ProcessorKind {
  kExact,       // in 32 bits, as x86 with VNNI and all other processors do
  kSaturating,  // pairs of products in saturating 16 bits, as x86 without VNNI does
};

inline constexpr std::array<std::pair<std::string_view, ProcessorKind>, 2> kProcessorKindWords{
    {{"exact", ProcessorKind::kExact}, {"saturating", ProcessorKind::kSaturating}}};
constexpr Words<ProcessorKind> FieldWords(const ProcessorKind*) { return kProcessorKindWords; }

// Returns the kind of this machine. Runs a small product in ONNX Runtime to find out.
ProcessorKind ThisProcessor();
ProcessorKind OtherKind(ProcessorKind kind);
// Returns a phrase for people: "adds 8-bit products in 32 bits (as x86 with VNNI)".
std::string_view DescribeProcessor(ProcessorKind kind);

// The words of users for the kinds. Null stands for the kind of this machine.
inline constexpr std::array<std::pair<std::string_view, std::optional<ProcessorKind>>, 3>
    kProcessorWords{{{"here", std::nullopt},
                     {"vnni", ProcessorKind::kExact},
                     {"no_vnni", ProcessorKind::kSaturating}}};
// Returns the kind of a word. Throws Error(kInvalidArgument) that lists the words.
std::optional<ProcessorKind> ParseProcessor(std::string_view word);

// The result of SimulateProducts.
struct SimulatedModel {
  size_t num_nodes = 0;  // that were taken apart
  // Nodes that can saturate and are computed as on this machine all the same: recurrent operators
  // and attention, which cannot be taken apart here, and products whose scales are no FLOAT
  // constants.
  std::vector<std::string> left;

  // Returns whether a model was written. If not, this machine computes the same outputs.
  bool is_changed() const { return num_nodes > 0; }
};

// Writes to `out` a model that computes as `model` does on a processor of `kind`, up to the order
// in which floats are added. It is made from the graph that ONNX Runtime optimizes. It needs our
// operator library, and its run times mean nothing. Throws Error as runtime::OptimizeAs.
SimulatedModel SimulateProducts(const std::filesystem::path& model, ProcessorKind kind,
                                const std::filesystem::path& out);

}  // namespace bitpress::processors
