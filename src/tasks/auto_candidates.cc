#include "tasks/auto_candidates.h"

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "plan/target_profile.h"

namespace bitpress::tasks {
namespace {

using ops::NetworkKind;

// Kinds of networks as bits.
constexpr unsigned Bit(NetworkKind kind) { return 1U << static_cast<unsigned>(kind); }
constexpr unsigned kAllKinds = 0xff;
constexpr unsigned kDecoder = Bit(NetworkKind::kDecoder);

// A preset, the networks that it suits, and what it needs.
struct Row {
  std::string_view preset;
  unsigned kinds = kAllKinds;
  bool needs_samples = false;
  bool needs_our_operators = false;  // its products are fast in our library only
  bool is_reserve = false;
  bool is_small = false;  // a little smaller than another one, and rarely faster
};

constexpr unsigned kConvolutional = Bit(NetworkKind::kConvolutional);

// Activations of 8 bits come first: these files are a quarter as large and usually faster. Weights
// alone follow, then floats of 16 bits, and last what takes long.
constexpr Row kRows[] = {
    {.preset = "INT8", .kinds = kAllKinds & ~kDecoder, .needs_samples = true},
    {.preset = "INT8_DYNAMIC", .kinds = kAllKinds & ~kConvolutional},
    {.preset = "LM_4BIT", .kinds = kDecoder, .needs_samples = true},
    {.preset = "INT4_WEIGHTS", .needs_samples = true},
    // Blocks of 128 have fewer scales than those of 32.
    {.preset = "MATMUL_NBITS", .needs_samples = true, .is_small = true},
    {.preset = "INT8_WEIGHTS"},
    {.preset = "FP16"},
    {.preset = "BF16", .needs_our_operators = true},
    {.preset = "MXINT8", .needs_our_operators = true},
    {.preset = "MX6", .needs_samples = true, .needs_our_operators = true},
    {.preset = "INT8_ADAROUND",
     .kinds = kAllKinds & ~kDecoder,
     .needs_samples = true,
     .is_reserve = true},
    {.preset = "MX6_ADAQUANT",
     .needs_samples = true,
     .needs_our_operators = true,
     .is_reserve = true},
};

AutoCandidate Named(std::string_view preset) {
  plan::QuantConfig config = plan::ConfigByName(preset);
  return {config.name, std::move(config)};
}

AutoCandidate WideInt8() {
  AutoCandidate wide = Named("INT8");
  wide.name = "INT8, activations of 16 bits";
  wide.config.activations = "uint16";
  return wide;
}

}  // namespace

std::vector<AutoCandidate> SuitableCandidates(NetworkKind kind, bool has_samples,
                                              const Target& target, Want want) {
  const bool uses_our_products = plan::ProfileOf(target).products == plan::CodeReaders::kAll;
  std::vector<AutoCandidate> candidates;
  for (const Row& row : kRows) {
    const bool fits = (row.kinds & Bit(kind)) != 0 && (has_samples || !row.needs_samples) &&
                      (uses_our_products || !row.needs_our_operators) &&
                      (want == Want::kSmaller || !row.is_small);
    if (!fits) continue;
    candidates.push_back(Named(row.preset));
    candidates.back().is_reserve = row.is_reserve;
  }
  if (has_samples && kind != NetworkKind::kDecoder) {
    candidates.push_back(WideInt8());
    candidates.back().is_reserve = true;
  }
  // Half of the bytes in float's time, whatever the network is.
  candidates.push_back(Named("FP16_WEIGHTS"));
  candidates.back().is_reserve = true;
  return candidates;
}

AutoCandidate WithFastestSums(AutoCandidate candidate) {
  candidate.name += ", fastest sums";
  candidate.has_fastest_sums = true;
  return candidate;
}

std::vector<AutoCandidate> LadderCandidates() {
  return {Named("INT8"), Named("INT8_ADAROUND"), Named("INT8_ADAQUANT"), WideInt8(), Named("BF16")};
}

}  // namespace bitpress::tasks
