// Measures the speed of packing quantized weights into bytes and back: elements a second, and the
// share of the speed of a copy of the same float32 array in the same run (of_copy). It does so for
// every format, along a contiguous and a strided axis, on one thread. It checks first that the
// values come back.
#include <benchmark/benchmark.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/thread_pool.h"
#include "formats/format_spec.h"
#include "formats/packed_tensor.h"
#include "kernels/fake_quantize.h"
#include "kernels/pack_tensor.h"

namespace bitpress {
namespace {

struct Shape {
  const char* name;
  int64_t outer, axis, inner;
  size_t count() const { return static_cast<size_t>(outer * axis * inner); }
};
constexpr Shape kShapes[] = {
    {"1024x4096 contiguous", 1024, 4096, 1},  // weights of a linear layer, [out, in]
    {"4096x1024 strided", 1, 4096, 1024},     // weights of a MatMul, [in, out]
    {"1024x1000 short blocks", 1024, 1000, 1},
};

std::vector<float> Weights(const formats::FormatSpec& spec, const Shape& shape) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0.0f, 0.05f);
  std::vector<float> weights(shape.count());
  for (float& weight : weights) weight = normal(random);
  kernels::FakeQuantizer(spec, shape.outer, shape.axis, shape.inner)
      .Run(weights.data(), weights.data());
  return weights;
}

double copy_speed = 0;

template <class Work>
double RunTimed(benchmark::State& state, size_t count, const Work& work) {
  const auto start = std::chrono::steady_clock::now();
  for (auto _ : state) {
    work();
    benchmark::ClobberMemory();
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  const double elements = static_cast<double>(count) * static_cast<double>(state.iterations());
  state.counters["elements/s"] = benchmark::Counter(elements, benchmark::Counter::kIsRate);
  if (copy_speed > 0) state.counters["of_copy"] = elements / seconds.count() / copy_speed;
  return elements / seconds.count();
}

void BenchCopy(benchmark::State& state, const Shape& shape) {
  const std::vector<float> x(shape.count(), 1.0f);
  std::vector<float> y(x.size());
  copy_speed = 0;
  copy_speed =
      RunTimed(state, x.size(), [&] { std::memcpy(y.data(), x.data(), x.size() * sizeof(float)); });
}

void BenchPacking(benchmark::State& state, const formats::FormatSpec& spec, const Shape& shape,
                  bool unpack) {
  ThreadPool pool(1);
  const std::vector<float> y = Weights(spec, shape);
  std::vector<float> back(y.size());
  formats::PackedTensor packed(formats::SizesOf(spec, shape.outer, shape.axis, shape.inner));
  const auto pack = [&] {
    kernels::PackTensor(spec, shape.outer, shape.axis, shape.inner, y, packed.spans(), pool);
  };
  const auto unpack_back = [&] {
    kernels::UnpackTensor(spec, shape.outer, shape.axis, shape.inner, packed.view(), back, pool);
  };
  pack();
  unpack_back();
  if (std::memcmp(y.data(), back.data(), y.size() * sizeof(float)) != 0) {
    Fail(ErrorCode::kRuntime, "{}: values do not come back", spec.name);
  }
  if (unpack) {
    RunTimed(state, y.size(), unpack_back);
  } else {
    RunTimed(state, y.size(), pack);
  }
}

void RegisterAll() {
  std::vector<formats::FormatSpec> specs;
  for (const formats::FormatSpec& row : formats::AllFormats()) {
    if (!row.is_integer()) specs.push_back(row);
  }
  specs.push_back(formats::FindFormat("bfp(bits=13, block=32)"));
  specs.push_back(formats::FindFormat("bfp(bits=20, block=32)"));
  for (const Shape& shape : kShapes) {
    benchmark::RegisterBenchmark(fmt::format("copy/{}", shape.name).c_str(),
                                 [=](benchmark::State& state) { BenchCopy(state, shape); })
        ->UseRealTime();
    for (const bool unpack : {false, true}) {
      for (const formats::FormatSpec& spec : specs) {
        benchmark::RegisterBenchmark(
            fmt::format("{}/{}/{}", unpack ? "unpack" : "pack", spec.name, shape.name).c_str(),
            [=](benchmark::State& state) { BenchPacking(state, spec, shape, unpack); })
            ->UseRealTime();
      }
    }
  }
}

}  // namespace
}  // namespace bitpress

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  try {
    bitpress::RegisterAll();
    benchmark::RunSpecifiedBenchmarks();
  } catch (const bitpress::Error& error) {
    std::fprintf(stderr, "bitpress_packing_bench: error: %s\n", error.what());
    return 1;
  }
  return 0;
}
