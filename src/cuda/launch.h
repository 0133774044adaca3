// Which kernel does a piece of work, on how many threads and with which numbers. Pure: the driver
// (cuda/driver.h) runs a launch on a device, tests run it on the processor. For example:
//
//   const Launch launch = PlanFakeQuantize(spec, {outer, length, inner}, false, x, y);
//   if (!launch.is_empty()) Driver::Get().Run(launch, stream);
#pragma once

#include <cstdint>
#include <string_view>
#include <variant>

#include "cuda/kernel_args.h"
#include "formats/format_spec.h"

namespace bitpress::cuda {

// A tensor seen as [outer, length, inner] with blocks along the middle dimension.
struct Shape {
  int64_t outer = 1;
  int64_t length = 1;
  int64_t inner = 1;
};

struct Launch {
  const char* kernel = nullptr;
  int64_t num_blocks = 0;
  uint32_t block_size = 0;
  std::variant<BlockArgs, ElementArgs, LinearArgs> args;

  bool is_empty() const { return num_blocks == 0; }
  // Returns the struct that the kernel takes.
  const void* parameters() const;
};

// Quantizes and dequantizes a tensor. x and y may be the same memory. REQUIRES: Validate(spec)
// passes, spec is not an integer format; dimensions are not negative.
Launch PlanFakeQuantize(const formats::FormatSpec& spec, const Shape& shape, bool is_half,
                        const void* x, void* y);

// Codes with scale and zero point. Element i has the parameters i / inner % num_scales.
struct LinearTensors {
  const void* x = nullptr;
  void* y = nullptr;
  const float* scales = nullptr;
  const void* zero_points = nullptr;
  int64_t count = 0;
  int64_t inner = 1;
  int64_t num_scales = 1;
  Code code = kInt8;
};
Launch PlanQuantize(const LinearTensors& tensors, bool is_half);
Launch PlanDequantize(const LinearTensors& tensors);

// Returns a format as kernels take it.
BlockFormat DeviceFormat(const formats::FormatSpec& spec);

// Returns the compiled kernels: PTX, which the driver compiles for its device. Ends with a zero.
const char* KernelText();

}  // namespace bitpress::cuda
