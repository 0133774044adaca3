#include "tasks/compared_runs.h"

#include <algorithm>
#include <optional>
#include <string>

#include "deploy/closeness.h"
#include "formats/format_spec.h"
#include "ops/multiply_adds.h"

namespace bitpress::tasks {
namespace {

// Returns the bits of an element that count: a sign, and the digits of the mantissa.
int SignificantBits(const formats::FormatSpec& spec) {
  if (!spec.has_float_elements()) return spec.element_bits;
  return formats::LayoutOf(spec.element_type).mantissa_bits + 2;
}

}  // namespace

double ProductsOfRun(const graph::Model& model, double num_products,
                     const std::vector<Tensor>& first) {
  std::vector<double> num_elements;
  for (const Tensor& input : first)
    num_elements.push_back(static_cast<double>(input.num_elements()));
  return std::max(1.0, num_products * ops::UnknownDimensions(model, num_elements));
}

size_t SamplesToCompare(const graph::Model& model, double num_products,
                        const std::vector<Tensor>& first) {
  // Both models compute about so many in a second, and so many bytes of samples are read.
  constexpr double kProducts = 1e10;
  constexpr double kBytes = 1 << 26;
  double num_bytes = 1;
  for (const Tensor& tensor : first) num_bytes += static_cast<double>(tensor.bytes.size());
  const double fitting =
      std::min(kProducts / ProductsOfRun(model, num_products, first), kBytes / num_bytes);
  return static_cast<size_t>(std::clamp(fitting, static_cast<double>(kLeastToCompare),
                                        static_cast<double>(kMostToCompare)));
}

double WantedDb(const plan::QuantPlan& plan) {
  // A bit is worth 6 dB. Rounding numbers of 8 bits takes about 40 dB, and the layers of a network
  // add up to 20 dB of error. Beyond 40 dB nobody looks.
  constexpr double kDbOfBit = 6;
  constexpr double kLayersDb = 28;
  constexpr double kMostDb = 40;
  std::optional<int> bits;
  for (const plan::TensorPlan& row : plan.tensors) {
    if (!row.is_quantized() || row.role == plan::Role::kBias) continue;
    const int found = SignificantBits(row.Spec());
    bits = std::min(bits.value_or(found), found);
  }
  return bits ? std::clamp(kDbOfBit * *bits - kLayersDb, deploy::kLeastDb, kMostDb)
              : deploy::kLeastDb;
}

}  // namespace bitpress::tasks
