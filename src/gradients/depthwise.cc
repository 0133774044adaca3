#include "gradients/depthwise.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "kernels/plane_products.h"

namespace bitpress::gradients {
namespace {

// A plane with its padding, taken as one row. Outputs of all positions between strides are computed
// too: position i of that row is where the kernel's first tap reads element i.
struct FlatPlane {
  explicit FlatPlane(const ConvolutionShape& of) : shape(of) {
    width = shape.width + shape.pads[1] + shape.pads[3];
    const size_t height = shape.height + shape.pads[0] + shape.pads[2];
    count = (shape.out_height - 1) * shape.strides[0] * width +
            (shape.out_width - 1) * shape.strides[1] + 1;
    for (size_t tap = 0; tap < shape.num_taps(); ++tap) {
      offsets.push_back(tap / shape.kernel[1] * shape.dilations[0] * width +
                        tap % shape.kernel[1] * shape.dilations[1]);
    }
    reach = offsets.back();
    turned.resize(offsets.size());
    for (size_t tap = 0; tap < offsets.size(); ++tap) turned[tap] = reach - offsets[tap];
    // Vectors read and write beyond the last position.
    padded_size = height * width + kernels::kPlaneStep + reach;
    output_size = count + kernels::kPlaneStep;
  }

  // Writes the plane with zeros around it. `out` is zero where the padding is.
  void Pad(const float* plane, float* out) const {
    for (size_t row = 0; row < shape.height; ++row) {
      std::memcpy(out + (row + shape.pads[0]) * width + shape.pads[1], plane + row * shape.width,
                  shape.width * sizeof(float));
    }
  }
  // Calls run(index among the outputs, index in the flat row).
  template <typename Run>
  void ForOutputs(const Run& run) const {
    for (size_t row = 0; row < shape.out_height; ++row) {
      for (size_t column = 0; column < shape.out_width; ++column) {
        run(row * shape.out_width + column,
            row * shape.strides[0] * width + column * shape.strides[1]);
      }
    }
  }

  const ConvolutionShape& shape;
  size_t width = 0, count = 0, reach = 0;
  size_t padded_size = 0, output_size = 0;
  std::vector<size_t> offsets, turned;  // of the taps; of the taps of the input's gradient
};

}  // namespace

void DepthwiseForward(const ConvolutionShape& shape, const float* x, const float* weights,
                      const float* bias, float* y, ThreadPool& pool) {
  const FlatPlane flat(shape);
  const size_t taps = shape.num_taps();
  pool.ParallelFor(shape.groups, [&](size_t group) {
    std::vector<float> padded(flat.padded_size);
    std::vector<float> output(flat.output_size);
    for (size_t image = 0; image < shape.images; ++image) {
      flat.Pad(x + (image * shape.groups + group) * shape.input_plane(), padded.data());
      for (size_t i = 0; i < shape.outputs; ++i) {
        const size_t channel = group * shape.outputs + i;
        kernels::CorrelatePlane(padded.data(), flat.count, {weights + channel * taps, taps},
                                flat.offsets, bias == nullptr ? 0.0F : bias[channel],
                                output.data());
        float* const to = y + (image * shape.groups * shape.outputs + channel) * shape.positions();
        flat.ForOutputs([&](size_t at, size_t from) { to[at] = output[from]; });
      }
    }
  });
}

void DepthwiseBackward(const ConvolutionShape& shape, const float* x, const float* weights,
                       const float* output_gradient, float* of_x, float* of_weights,
                       ThreadPool& pool) {
  const FlatPlane flat(shape);
  const size_t taps = shape.num_taps();
  pool.ParallelFor(shape.groups, [&](size_t group) {
    std::vector<float> padded(flat.padded_size);
    // The outputs' gradient, behind as many zeros as the kernel reaches.
    std::vector<float> gradient(flat.reach + flat.padded_size + kernels::kPlaneStep);
    std::vector<float> of_padded(flat.padded_size);
    const size_t padded_count = flat.count + flat.reach;
    for (size_t image = 0; image < shape.images; ++image) {
      const size_t plane = (image * shape.groups + group) * shape.input_plane();
      if (of_weights != nullptr) flat.Pad(x + plane, padded.data());
      for (size_t i = 0; i < shape.outputs; ++i) {
        const size_t channel = group * shape.outputs + i;
        const float* const g =
            output_gradient + (image * shape.groups * shape.outputs + channel) * shape.positions();
        flat.ForOutputs([&](size_t at, size_t to) { gradient[flat.reach + to] = g[at]; });
        if (of_weights != nullptr) {
          kernels::AddPlaneProducts(padded.data(), gradient.data() + flat.reach, flat.count,
                                    flat.offsets, of_weights + channel * taps);
        }
        if (of_x == nullptr) continue;
        kernels::CorrelatePlane(gradient.data(), padded_count, {weights + channel * taps, taps},
                                flat.turned, 0, of_padded.data());
        for (size_t row = 0; row < shape.height; ++row) {
          const size_t begin = (row + shape.pads[0]) * flat.width + shape.pads[1];
          float* const to = of_x + plane + row * shape.width;
          // The last rows of the input may have no reader.
          const size_t end = std::min(begin + shape.width, padded_count);
          for (size_t at = begin; at < end; ++at) to[at - begin] += of_padded[at];
        }
      }
    }
  });
}

}  // namespace bitpress::gradients
