// Int8 weights that become uint8 with zero point 128: ONNX Runtime's kernels for those are exact on
// every x86 processor, and slower. They are for the few layers that would lose much with int8 codes
// that are right everywhere, such as first convolutions, which read whole images with few channels.
#pragma once

#include "base/thread_pool.h"
#include "graph/model.h"
#include "plan/resolved_plan.h"

namespace bitpress::weights {

// Turns such rows of the plan (IntegerTreatment::may_be_unsigned) to uint8, adds their scales, with
// which the codes are those of int8 plus 128, and lists them in `unsigned_weights`. A row is taken
// where codes that fit are estimated to raise the noise of the layer's outputs by more than 2 dB,
// while the rows taken do less than a tenth of all products with integer weights. The noise is that
// of rounding the weight and, where it was calibrated, the activation. Products are counted as the
// calibration saw them; without one each weight is one. `model` is the float model.
void ChooseUnsignedWeights(plan::ResolvedPlan& resolved, const graph::Model& model,
                           ThreadPool& pool);

}  // namespace bitpress::weights
