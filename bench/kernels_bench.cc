// Measures the speed of the quantize-dequantize kernels: elements and bytes a second, and the share
// of the speed of a copy of the same array in the same run (of_copy). It does so for each format,
// shape, number of threads and instruction set. The formats come from their table, the shapes from
// shapes.txt. Each kernel's result is checked against the reference before it is timed.
//
// Without options, the first shape runs with every instruction set and the others with the best
// one. With --targets, every shape runs with every instruction set. Google Benchmark's own options
// work too. A --benchmark_filter should let `copy` through, as in '(copy|mx6)/1x256'.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <map>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/thread_pool.h"
#include "formats/float_bits.h"
#include "formats/format_spec.h"
#include "formats/reference.h"
#include "kernels/cpu_target.h"
#include "kernels/fake_quantize.h"

namespace bitpress {
namespace {

struct Shape {
  int64_t outer, axis, inner;
  std::string name() const { return fmt::format("{}x{}x{}", outer, axis, inner); }
  size_t count() const { return static_cast<size_t>(outer * axis * inner); }
};

std::vector<Shape> ReadShapes() {
  std::ifstream file(BITPRESS_BENCH_SHAPES);
  std::vector<Shape> shapes;
  for (std::string line; std::getline(file, line);) {
    Shape shape{};
    std::istringstream fields(line);
    if (line.starts_with('#') || !(fields >> shape.outer >> shape.axis >> shape.inner)) continue;
    shapes.push_back(shape);
  }
  return shapes;
}

// Returns numbers such as activations are after a clipped linear unit: half of them are zeros, the
// others have a few different exponents.
std::vector<float> Activations(size_t count) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0.0f, 2.0f);
  std::vector<float> values(count);
  for (float& value : values) value = std::clamp(normal(random), 0.0f, 6.0f);
  return values;
}

void CheckEqualsReference(const formats::FormatSpec& spec, const Shape& shape) {
  // One slice of the outer dimension is enough to know that the kernel does the work.
  const Shape slice = {1, shape.axis, std::min<int64_t>(shape.inner, 100)};
  const std::vector<float> x = Activations(slice.count());
  std::vector<float> expected(x.size()), found(x.size());
  formats::ref::FakeQuantize(spec, x, expected, slice.outer, slice.axis, slice.inner);
  kernels::FakeQuantizer(spec, slice.outer, slice.axis, slice.inner).Run(x.data(), found.data());
  if (std::memcmp(expected.data(), found.data(), x.size() * sizeof(float)) != 0) {
    Fail(ErrorCode::kRuntime, "{} differs from the reference", spec.name);
  }
}

// Returns the speeds of the copy in elements a second, by shape and number of threads.
std::map<std::pair<std::string, size_t>, double>& CopySpeeds() {
  static std::map<std::pair<std::string, size_t>, double> speeds;
  return speeds;
}

void SetCounters(benchmark::State& state, size_t count) {
  const double elements = static_cast<double>(count) * static_cast<double>(state.iterations());
  state.counters["elements/s"] = benchmark::Counter(elements, benchmark::Counter::kIsRate);
  // Each element is read once and written once.
  state.counters["bytes/s"] = benchmark::Counter(
      elements * 2 * sizeof(float), benchmark::Counter::kIsRate, benchmark::Counter::kIs1000);
}

// Runs the work repeatedly and returns its speed in elements a second.
template <class Work>
double RunTimed(benchmark::State& state, size_t num_threads, size_t num_tasks, size_t count,
                const Work& work) {
  ThreadPool pool(num_threads);
  const auto start = std::chrono::steady_clock::now();
  for (auto _ : state) {
    if (num_threads == 1) {
      for (size_t task = 0; task < num_tasks; ++task) work(task);
    } else {
      pool.ParallelFor(num_tasks, work);
    }
    benchmark::ClobberMemory();
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  SetCounters(state, count);
  return static_cast<double>(count) * static_cast<double>(state.iterations()) / seconds.count();
}

void BenchCopy(benchmark::State& state, const Shape& shape, size_t num_threads) {
  const std::vector<float> x = Activations(shape.count());
  std::vector<float> y(x.size());
  constexpr size_t kChunk = 1 << 14;
  const size_t num_tasks = (x.size() + kChunk - 1) / kChunk;
  const auto copy = [&](size_t task) {
    const size_t begin = num_threads == 1 ? 0 : task * kChunk;
    const size_t size = num_threads == 1 ? x.size() : std::min(kChunk, x.size() - begin);
    std::memcpy(y.data() + begin, x.data() + begin, size * sizeof(float));
  };
  CopySpeeds()[{shape.name(), num_threads}] =
      RunTimed(state, num_threads, num_threads == 1 ? 1 : num_tasks, x.size(), copy);
}

void BenchFakeQuantize(benchmark::State& state, const formats::FormatSpec& spec, const Shape& shape,
                       size_t num_threads, const std::string& target) {
  kernels::UseTarget(target);
  CheckEqualsReference(spec, shape);
  const std::vector<float> x = Activations(shape.count());
  std::vector<float> y(x.size());
  const kernels::FakeQuantizer quantizer(spec, shape.outer, shape.axis, shape.inner);
  const double speed = RunTimed(state, num_threads, quantizer.num_tasks(), x.size(),
                                [&](size_t task) { quantizer.RunTask(task, x.data(), y.data()); });
  const auto copy = CopySpeeds().find({shape.name(), num_threads});
  if (copy != CopySpeeds().end()) state.counters["of_copy"] = speed / copy->second;
  state.SetLabel(std::string(kernels::LastRun().kernel));
  kernels::UseTarget("");
}

void RegisterAll(bool all_targets) {
  std::vector<std::string> supported = kernels::SupportedTargets();
  // Their quantizers are those of AVX3.
  std::erase_if(supported,
                [](const std::string& name) { return name == "AMX" || name == "AVX3_BF16"; });
  std::vector<formats::FormatSpec> specs;
  for (const formats::FormatSpec& row : formats::AllFormats()) {
    if (row.is_integer()) continue;
    specs.push_back(row);
    if (!row.is_blocked()) continue;
    specs.back().scale_choice = formats::ScaleChoice::kCeil;
  }
  std::vector<size_t> thread_counts = {1};
  if (const size_t all = std::thread::hardware_concurrency(); all > 1) thread_counts.push_back(all);
  bool is_first = true;
  for (const Shape& shape : ReadShapes()) {
    const std::string size = shape.name();
    const size_t num_targets = is_first || all_targets ? supported.size() : 1;
    is_first = false;
    for (const size_t threads : thread_counts) {
      benchmark::RegisterBenchmark(
          fmt::format("copy/{}/threads:{}", size, threads).c_str(),
          [=](benchmark::State& state) { BenchCopy(state, shape, threads); })
          ->UseRealTime();
      for (const formats::FormatSpec& spec : specs) {
        for (size_t i = 0; i < num_targets; ++i) {
          const std::string& target = supported[i];
          benchmark::RegisterBenchmark(
              fmt::format("{}/{}/threads:{}/{}", spec.name, size, threads, target).c_str(),
              [=](benchmark::State& state) {
                BenchFakeQuantize(state, spec, shape, threads, target);
              })
              ->UseRealTime();
        }
      }
    }
  }
}

}  // namespace
}  // namespace bitpress

int main(int argc, char** argv) {
  bool all_targets = false;
  for (int i = 1; i < argc; ++i) {
    if (std::string(argv[i]) != "--targets") continue;
    all_targets = true;
    std::rotate(argv + i, argv + i + 1, argv + argc);
    --argc;
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  try {
    bitpress::RegisterAll(all_targets);
    benchmark::RunSpecifiedBenchmarks();
  } catch (const bitpress::Error& error) {
    std::fprintf(stderr, "bitpress_bench: error: %s\n", error.what());
    return 1;
  }
  return 0;
}
