// Int8 weights that become uint8 with zero point 128: ONNX Runtime's kernels for those are exact on
// every x86 processor, and slower. They are for the few layers that would lose much with int8 codes
// that are right everywhere, such as first convolutions, which read whole images with few channels.
#pragma once

#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "formats/qparams.h"
#include "graph/model.h"
#include "plan/channel_codes.h"
#include "plan/qparams_table.h"
#include "plan/quant_plan.h"

namespace bitpress::weights {

struct UnsignedWeight {
  std::string value;
  std::vector<formats::QParams> params;  // with which its codes are those of int8, plus 128
  double saved_db = 0;  // by which the noise of its layer's outputs would have grown
};

// Turns such rows of the plan (IntegerTreatment::may_be_unsigned) to uint8 and returns them, those
// that save most first. A row is taken where codes that fit are estimated to raise the noise of the
// layer's outputs by more than 2 dB, while the rows taken do less than a tenth of all products with
// integer weights. The noise is that of rounding the weight and, where it was calibrated, the
// activation. Products are counted as the calibration saw them; without one each weight is one.
// `model` is the float model, `params` and `channels` are those of its activations.
std::vector<UnsignedWeight> ChooseUnsignedWeights(plan::QuantPlan& plan, const graph::Model& model,
                                                  const plan::QParamsTable& params,
                                                  const plan::ChannelCodesTable& channels,
                                                  ThreadPool& pool);

}  // namespace bitpress::weights
