// The form that the ONNX standard itself has for a weight in a block or float format: codes of an
// ONNX type behind a DequantizeLinear, with a scale for each block, or behind a Cast. Runtimes that
// know nothing of Bitpress read it. Integers have it, too (integer_weight.h).
//
// | format                      | codes                       | scales |
// |-----------------------------|-----------------------------|------------------------------------|
// | fp16, bf16                  | FLOAT16, BFLOAT16 (a Cast)  | | | fp8                         |
// FLOAT8...                   | one FLOAT                          | | MXFP8 | FLOAT8... | FLOAT;
// FLOAT8E8M0 from set 24 on   | | MXFP4                       | FLOAT4E2M1                  |
// FLOAT8E8M0                         | | NVFP4                       | FLOAT4E2M1 | FLOAT8E4M3FN
// behind one of its own | | other powers of two         | INT4, INT8 or INT16         | FLOAT |
//
// The last row holds MX4, MX6, MX9, BFP, MXINT8 and MXFP6: their elements are whole numbers in
// units of the finest step of a block (whole_numbers.h). All values are those of the format, but
// for the sign of zeros there, and for the last bit of NVFP4, whose scales are rounded before the
// elements.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/tensor.h"
#include "base/thread_pool.h"
#include "formats/format_spec.h"
#include "weights/weight_job.h"

namespace bitpress::weights {

struct StandardForm {
  // The reason why the standard has no form for the weight; "" if it has one. Then nothing below
  // means anything.
  std::string why_not = {};
  DataType code_type = DataType::kInt8;
  // The dimensions of the codes: those of the weight, with dimensions that a block runs over as
  // one.
  std::vector<int64_t> code_dims = {};
  bool is_cast = false;  // no scales
  DataType scale_type = DataType::kFloat;
  std::vector<int64_t> scale_dims = {};  // empty: one scale
  int64_t axis = 0;
  int64_t block_size = 0;         // 0: no blocks
  int64_t num_filled = 0;         // codes of 0 behind the axis, which fill up the last block
  bool has_tensor_scale = false;  // a FLOAT that the scales of the blocks are multiplied by
  // The axis of scales that has such a FLOAT for each of its indices (LPBQ); nothing: one for all.
  std::optional<int64_t> channel_axis = {};
  bool has_zero_points = false;

  // Makes blocks no longer than their axis. If `fills`, codes of 0 follow so that they divide it.
  void FitBlocks(bool fills);
};

// Returns the form of a weight in a model of operator set `opset`. Scales of MXFP8 are FLOAT, which
// ONNX Runtime runs, unless an operator set from 24 on was asked for, which has FLOAT8E8M0.
// `fills_blocks` is for runtimes that take blocks which divide their axis only.
StandardForm StandardFormOf(const WeightJob& job, int64_t opset, int64_t asked_opset,
                            bool fills_blocks);

// Returns the first operator set that has the form of a format. REQUIRES: it is no integer.
int64_t StandardOpset(const formats::FormatSpec& spec);

// Puts codes of 0 behind the axis of codes, as many as the form has. REQUIRES: `codes` holds those
// of the weight.
void FillBlocks(const StandardForm& form, Tensor& codes);

// Returns the bytes of codes, scales and the scale of the tensor, as far as the form has them, and
// fills in the errors of `statistics`. Types and dimensions are the caller's. REQUIRES: `form` is
// that of the job, and not empty. Throws as WeightJob::Pack.
std::vector<Tensor> EncodeStandard(const WeightJob& job, const StandardForm& form, ThreadPool& pool,
                                   WeightStatistics& statistics);

}  // namespace bitpress::weights
