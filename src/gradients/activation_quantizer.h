// Quantizers of activations that let gradients pass: rounding counts as the identity, except where
// a value saturates, whose gradient is 0.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/thread_pool.h"
#include "formats/format_spec.h"
#include "formats/qparams.h"
#include "gradients/array.h"

namespace bitpress::gradients {

class ActivationQuantizer {
 public:
  virtual ~ActivationQuantizer() = default;
  // Writes the quantized values, and for each whether its gradient passes. `passes` is empty if all
  // of them do. Throws Error(kInvalidArgument) if the array has no such axis.
  virtual void Run(const Array<float>& x, Array<float>& y, std::vector<uint8_t>& passes,
                   ThreadPool& pool) const = 0;
};

// Returns a quantizer to a float or block format. Blocks run along `axis`, which counts from the
// end if negative. Values are divided by `scale` first and multiplied by it afterwards. REQUIRES:
// the format is not an integer one.
std::unique_ptr<ActivationQuantizer> MakeFloatQuantizer(const formats::FormatSpec& spec,
                                                        int64_t axis, std::optional<float> scale);
// Returns a quantizer to the codes of an integer type.
std::unique_ptr<ActivationQuantizer> MakeIntegerQuantizer(formats::ElementType type,
                                                          const formats::QParams& params);

}  // namespace bitpress::gradients
