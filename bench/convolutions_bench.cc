#include "convolutions_bench.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "formats/format_spec.h"
#include "formats/packed_tensor.h"
#include "formats/reference.h"
#include "kernels/block_convolutions.h"
#include "kernels/pack_tensor.h"
#include "race.h"
#include "runtime/session.h"

namespace bitpress {
namespace {

using formats::ConvolutionShape;
using formats::WeightBlocks;

struct Layer {
  const char* name;
  int64_t channels, outputs, groups, size, kernel, stride;
};
constexpr Layer kLayers[] = {
    {"first 3x3/2", 3, 32, 1, 224, 3, 2},       {"expand 1x1", 24, 144, 1, 56, 1, 1},
    {"depthwise 3x3", 144, 144, 144, 56, 3, 1}, {"depthwise 3x3/2", 240, 240, 240, 28, 3, 2},
    {"depthwise 5x5", 672, 672, 672, 14, 5, 1}, {"project 1x1", 672, 112, 1, 14, 1, 1},
    {"head 1x1", 320, 1280, 1, 7, 1, 1},        {"ResNet 1x1", 256, 64, 1, 56, 1, 1},
    {"ResNet 3x3", 64, 64, 1, 56, 3, 1},        {"ResNet 3x3/2", 128, 128, 1, 56, 3, 2},
    {"ResNet late 3x3", 512, 512, 1, 7, 3, 1}};

ConvolutionShape ShapeOf(const Layer& layer) {
  ConvolutionShape shape{1, layer.channels, layer.outputs, layer.groups};
  shape.input = {layer.size, layer.size};
  shape.kernel = {layer.kernel, layer.kernel};
  shape.strides = {layer.stride, layer.stride};
  shape.pads_begin = shape.pads_end = {layer.kernel / 2, layer.kernel / 2};
  return shape;
}

runtime::Session FloatSession(const Layer& layer, const std::vector<float>& w, size_t threads) {
  graph::Model model = ModelOf(fmt::format(R"(<ir_version: 8, opset_import: ["" : 17]>
    g (float[1,{0},{1},{1}] x) => (float[1,{2},P,Q] y) <float[1,1,1,1] w = {{1}}> {{
      y = Conv <group = {3}, strides = [{4}, {4}], pads = [{5}, {5}, {5}, {5}]> (x, w) }})",
                                           layer.channels, layer.size, layer.outputs, layer.groups,
                                           layer.stride, layer.kernel / 2));
  model.SetInitializer(
      "w",
      FloatTensor({layer.outputs, layer.channels / layer.groups, layer.kernel, layer.kernel}, w));
  runtime::SessionOptions options;
  options.num_threads = runtime::SessionThreads(threads);
  return runtime::Session::FromMemory(model.Serialize(), options);
}

kernels::ConvolutionWeights WeightsOf(const formats::FormatSpec& spec,
                                      const ConvolutionShape& shape, std::vector<float> w,
                                      ThreadPool& pool) {
  // Blocks run along the channels if there are enough of them, as plans decide it.
  const bool is_along = shape.channels_of_group() >= spec.block_size / 2;
  const int64_t axis =
      is_along ? shape.channels_of_group() : shape.channels_of_group() * shape.positions();
  const int64_t inner = is_along ? shape.positions() : 1;
  formats::ref::FakeQuantize(spec, w, w, shape.outputs, axis, inner);
  formats::PackedTensor packed(formats::SizesOf(spec, shape.outputs, axis, inner));
  kernels::PackTensor(spec, shape.outputs, axis, inner, w, packed.spans(), pool);
  return kernels::ConvolutionWeights(
      {spec, spec}, shape, is_along ? WeightBlocks::kAlongChannels : WeightBlocks::kAlongAll,
      packed.view(), pool);
}

}  // namespace

void RaceConvolutions(size_t threads, const std::string& only, double seconds, ThreadPool& pool) {
  for (const Layer& layer : kLayers) {
    const ConvolutionShape shape = ShapeOf(layer);
    const auto count = [](int64_t a, int64_t b) { return static_cast<size_t>(a * b); };
    const int64_t pixels = layer.size * layer.size;
    const std::vector<float> x = RandomNormal(count(layer.channels, pixels), 1);
    const std::vector<float> w =
        RandomNormal(count(layer.outputs, shape.channels_of_group() * shape.positions()), 2);
    const std::vector<float> bias(static_cast<size_t>(layer.outputs));
    std::vector<float> y(count(layer.outputs, shape.output(0) * shape.output(1)));
    runtime::Session floats = FloatSession(layer, w, threads);
    const std::vector<Tensor> input{FloatTensor({1, layer.channels, layer.size, layer.size}, x)};
    std::vector<Contender> contenders{{"float", [&] { static_cast<void>(floats.Run(input)); }}};
    for (const char* const name :
         {"mxint8", "mx6", "mx9", "mxfp4_e2m1", "bfp16", "mxfp8_e4m3", "bf16"}) {
      if (!only.empty() && only != name) continue;
      const formats::FormatSpec spec = formats::FindFormat(name);
      const auto weights =
          std::make_shared<const kernels::ConvolutionWeights>(WeightsOf(spec, shape, w, pool));
      contenders.push_back(
          {name, [&, weights] {
             kernels::ConvolutionOutput output;
             output.data = y.data();
             output.bias = bias.data();
             kernels::BlockConvolution convolution(*weights, 1, shape.input, x.data(), output);
             pool.ParallelFor(convolution.num_column_tasks(),
                              [&](size_t i) { convolution.RunColumnTask(i); });
             pool.ParallelFor(convolution.num_tasks(), [&](size_t i) { convolution.RunTask(i); });
           }});
    }
    Race(fmt::format("{} {}>{} {}", layer.name, layer.channels, layer.outputs, layer.size),
         contenders, seconds / 5);
  }
}

}  // namespace bitpress
