// Depthwise convolutions of floats and their gradients, for the rule of Conv.
#pragma once

#include "base/thread_pool.h"
#include "gradients/convolution_shape.h"

namespace bitpress::gradients {

// Computes y [images, groups * outputs, ...] from x [images, groups, ...]. `bias` may be null.
// REQUIRES: shape.is_depthwise().
void DepthwiseForward(const ConvolutionShape& shape, const float* x, const float* weights,
                      const float* bias, float* y, ThreadPool& pool);
// Adds the gradients of x and of the weights to what is there. Null: not wanted.
void DepthwiseBackward(const ConvolutionShape& shape, const float* x, const float* weights,
                       const float* output_gradient, float* of_x, float* of_weights,
                       ThreadPool& pool);

}  // namespace bitpress::gradients
