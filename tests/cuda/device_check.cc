// Runs all kernels on a real GPU, compares their results with the scalar reference and the vector
// kernels bit for bit, and prints how many GB/s they move beside a copy on the device:
//
//   build/cuda_device_check [--small] [--few] [--time-only] [FIGURES.json]
//
// --small: smaller tensors, for a driver that only pretends to have a GPU; --few: only some
// formats, for tools that look at each access; --time-only: no comparison. It needs the driver
// alone. Exit code: 0 all equal, 1 not, 77 there is no GPU.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "cuda/driver.h"
#include "cuda/launch.h"
#include "cuda/test_cases.h"
#include "device.h"
#include "kernels/extended_codes.h"
#include "kernels/fake_quantize.h"

namespace bitpress::cuda {
namespace {

using formats::FormatSpec;
using Clock = std::chrono::steady_clock;

// With --small, sizes are divided by this.
size_t shrinks = 1;
// Of the formats, one of so many is compared.
size_t stride_of_formats = 1;

double Seconds(Clock::time_point since) {
  return std::chrono::duration<double>(Clock::now() - since).count();
}

// Runs function(i) for i < count on all processors.
void InParallel(size_t count, const std::function<void(size_t)>& function) {
  std::atomic<size_t> next = 0;
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < std::max(1u, std::thread::hardware_concurrency()); ++t) {
    threads.emplace_back([&] {
      for (size_t i = next++; i < count; i = next++) function(i);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

void* Pointer(Device::Address address) { return reinterpret_cast<void*>(address); }

// What was compared so far.
struct Tally {
  std::mutex mutex;
  uint64_t values = 0, cases = 0, wrong_cases = 0;

  void Add(const std::string& what, std::span<const uint8_t> expected,
           std::span<const uint8_t> found, size_t width) {
    const std::lock_guard lock(mutex);
    ++cases;
    values += expected.size() / width;
    if (std::ranges::equal(expected, found)) return;
    const auto at =
        static_cast<size_t>(std::ranges::mismatch(expected, found).in1 - expected.begin()) / width;
    uint32_t a = 0, b = 0;
    std::memcpy(&a, expected.data() + at * width, width);
    std::memcpy(&b, found.data() + at * width, width);
    if (++wrong_cases <= 20)
      fmt::print("WRONG {}: element {} is {:#x} instead of {:#x}\n", what, at, b, a);
  }
};

template <class T>
std::span<const uint8_t> BytesOf(const std::vector<T>& values) {
  return {reinterpret_cast<const uint8_t*>(values.data()), values.size() * sizeof(T)};
}

// Memory of the device with a margin that no kernel may touch.
class Buffer {
 public:
  Buffer(Device& device, size_t bytes)
      : device_(device), bytes_(bytes), address_(device.Allocate(bytes + kMargin)) {
    device_.Fill(address_, 0xA5, bytes + kMargin);
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() { device_.Free(address_); }
  Device::Address at(size_t offset = 0) const { return address_ + offset; }
  bool IsMarginUntouched() const {
    std::vector<uint8_t> margin(kMargin);
    device_.ToHost(margin.data(), address_ + bytes_, kMargin);
    return std::ranges::all_of(margin, [](uint8_t byte) { return byte == 0xA5; });
  }

 private:
  static constexpr size_t kMargin = 1024;
  Device& device_;
  size_t bytes_;
  Device::Address address_;
};

// One tensor of one format: its values, and what they must become.
template <class T>
struct Case {
  FormatSpec spec;
  Shape shape;
  bool in_place = false;
  size_t misalignment = 0;  // elements
  std::vector<T> x, expected;

  std::string Describe() const {
    return fmt::format("{} float{} shape [{}, {}, {}]{}{}", cases::Describe(spec), sizeof(T) * 8,
                       shape.outer, shape.length, shape.inner, in_place ? " in place" : "",
                       misalignment != 0 ? " misaligned" : "");
  }
};

template <class T>
Case<T> MakeCase(const FormatSpec& spec, const Shape& shape, uint32_t seed) {
  std::mt19937 random(seed);
  Case<T> made{spec, shape, random() % 2 == 0, random() % 4 == 0 ? 1u : 0u, {}, {}};
  const auto count = static_cast<size_t>(shape.outer * shape.length * shape.inner);
  std::vector<float> values = cases::Values(count, random() % 2 == 0, random);
  if constexpr (sizeof(T) == 4) {
    made.x.resize(count);
    std::memcpy(made.x.data(), values.data(), count * 4);
    made.expected = cases::Expected(spec, shape, values);
  } else {
    made.x = cases::Halves(values);
    kernels::HalfToFloat(made.x, values.data());
    formats::ref::FakeQuantize(spec, values, values, shape.outer, shape.length, shape.inner);
    made.expected.resize(count);
    kernels::FloatToHalf(values, made.expected.data());
  }
  return made;
}

template <class T>
void RunCase(Device& device, const Case<T>& of, void* stream, Tally& tally) {
  const size_t bytes = of.x.size() * sizeof(T), offset = of.misalignment * sizeof(T);
  const Buffer input(device, bytes + offset), output(device, bytes + offset);
  device.ToDevice(input.at(offset), of.x.data(), bytes);
  const Buffer& to = of.in_place ? input : output;
  const Launch launch = PlanFakeQuantize(of.spec, of.shape, sizeof(T) == 2,
                                         Pointer(input.at(offset)), Pointer(to.at(offset)));
  device.Synchronize(nullptr);
  Driver::Get().Run(launch, stream);
  device.Synchronize(stream);
  std::vector<T> found(of.x.size());
  device.ToHost(found.data(), to.at(offset), bytes);
  tally.Add(of.Describe(), BytesOf(of.expected), BytesOf(found), sizeof(T));
  if (!input.IsMarginUntouched() || !output.IsMarginUntouched())
    tally.Add(of.Describe() + ", margin", {}, BytesOf(found), sizeof(T));
}

// Every option of every format in many shapes, against the scalar reference.
void CompareFormats(Device& device, Tally& tally) {
  const std::vector<FormatSpec> specs = cases::AllSpecs();
  std::vector<Shape> shapes = cases::SomeShapes();
  for (const Shape& shape : cases::ManyShapes()) shapes.push_back(shape);
  shapes.push_back({7, 3000, 1});
  shapes.push_back({3, 96, 333});
  void* const stream = device.NewStream();
  for (size_t s = 0; s < specs.size(); s += stride_of_formats) {
    std::vector<Case<uint32_t>> floats(shapes.size());
    std::vector<Case<uint16_t>> halves(shapes.size());
    InParallel(shapes.size() * 2, [&](size_t i) {
      const auto seed = static_cast<uint32_t>(s * 1000 + i);
      if (i < shapes.size()) {
        floats[i] = MakeCase<uint32_t>(specs[s], shapes[i], seed);
      } else {
        halves[i - shapes.size()] = MakeCase<uint16_t>(specs[s], shapes[i - shapes.size()], seed);
      }
    });
    for (const auto& of : floats) RunCase(device, of, stream, tally);
    for (const auto& of : halves) RunCase(device, of, stream, tally);
  }
}

// Large tensors against the vector kernels of the CPU, which equal the reference.
void CompareLarge(Device& device, Tally& tally) {
  std::vector<FormatSpec> specs;
  for (const FormatSpec& row : formats::AllFormats()) {
    if (row.is_float() || row.has_exponent_scales()) specs.push_back(row);
  }
  for (FormatSpec& spec : cases::QuarkSpecs()) {
    if (spec.scale_choice != formats::ScaleChoice::kMse) specs.push_back(std::move(spec));
  }
  std::vector<float> values((size_t{1} << 24) / std::min<size_t>(shrinks, 64));
  constexpr size_t kPieces = 64;
  InParallel(kPieces, [&](size_t piece) {
    std::mt19937 random(static_cast<uint32_t>(piece));
    const size_t size = values.size() / kPieces;
    const std::vector<float> part = cases::Values(size, piece % 4 == 0, random);
    std::ranges::copy(part, values.begin() + static_cast<std::ptrdiff_t>(piece * size));
  });
  const auto rows = static_cast<int64_t>(values.size() / 4096);
  const size_t bytes = values.size() * sizeof(float);
  const Buffer input(device, bytes), output(device, bytes);
  device.ToDevice(input.at(), values.data(), bytes);
  std::vector<float> expected(values.size()), found(values.size());
  for (const FormatSpec& spec : specs) {
    for (const Shape& shape : {Shape{rows, 4096, 1}, Shape{16, 1024, rows / 4}}) {
      const kernels::FakeQuantizer quantizer(spec, shape.outer, shape.length, shape.inner);
      InParallel(quantizer.num_tasks(),
                 [&](size_t task) { quantizer.RunTask(task, values.data(), expected.data()); });
      Driver::Get().Run(
          PlanFakeQuantize(spec, shape, false, Pointer(input.at()), Pointer(output.at())), nullptr);
      device.ToHost(found.data(), output.at(), bytes);
      tally.Add(cases::Describe(spec) + fmt::format(" large, inner {}", shape.inner),
                BytesOf(expected), BytesOf(found), 4);
    }
  }
}

// Codes with scales and zero points of one type.
template <class CodeType>
void CompareCodes(Device& device, Code code, Tally& tally) {
  std::mt19937 random(static_cast<uint32_t>(code));
  const auto any_code = [&] {
    const auto draw = static_cast<uint32_t>(random());
    CodeType made;
    std::memcpy(&made, &draw, sizeof made);
    return made;
  };
  struct Layout {
    size_t outer, num_scales, inner;
  };
  for (const Layout& of : {Layout{1, 1, 100003}, Layout{3, 64, 49}, Layout{20, 33, 1},
                           Layout{1, 7, 10000}, Layout{1, 1, 1 << 20}}) {
    std::vector<float> scales(of.num_scales);
    std::vector<CodeType> zeros(of.num_scales), codes(of.outer * of.num_scales * of.inner),
        expected_codes(codes.size()), found_codes(codes.size());
    for (size_t i = 0; i < of.num_scales; ++i) {
      scales[i] =
          std::ldexp(static_cast<float>(1 + random() % 1000), static_cast<int>(random() % 20) - 20);
      zeros[i] = random() % 3 == 0 ? CodeType{} : any_code();
    }
    for (CodeType& made : codes) made = any_code();
    const std::vector<float> x = cases::Values(codes.size(), true, random);
    std::vector<float> expected(x.size()), found(x.size());
    for (size_t run = 0; run < of.outer * of.num_scales; ++run) {
      const size_t begin = run * of.inner, i = run % of.num_scales;
      kernels::QuantizeExtended(x.data() + begin, expected_codes.data() + begin, of.inner,
                                scales[i], zeros[i]);
      kernels::DequantizeExtended(codes.data() + begin, expected.data() + begin, of.inner,
                                  scales[i], zeros[i]);
    }
    const Buffer input(device, x.size() * 4), output(device, x.size() * 4),
        device_scales(device, scales.size() * 4),
        device_zeros(device, zeros.size() * sizeof(CodeType));
    device.ToDevice(device_scales.at(), scales.data(), scales.size() * 4);
    device.ToDevice(device_zeros.at(), zeros.data(), zeros.size() * sizeof(CodeType));
    LinearTensors tensors{Pointer(input.at()),
                          Pointer(output.at()),
                          static_cast<const float*>(Pointer(device_scales.at())),
                          Pointer(device_zeros.at()),
                          static_cast<int64_t>(x.size()),
                          static_cast<int64_t>(of.inner),
                          static_cast<int64_t>(of.num_scales),
                          code};
    const std::string what = fmt::format("code {} layout {}x{}x{}", static_cast<int>(code),
                                         of.outer, of.num_scales, of.inner);
    device.ToDevice(input.at(), x.data(), x.size() * 4);
    Driver::Get().Run(PlanQuantize(tensors, false), nullptr);
    device.ToHost(found_codes.data(), output.at(), codes.size() * sizeof(CodeType));
    tally.Add("quantize " + what, BytesOf(expected_codes), BytesOf(found_codes), sizeof(CodeType));
    device.ToDevice(input.at(), codes.data(), codes.size() * sizeof(CodeType));
    Driver::Get().Run(PlanDequantize(tensors), nullptr);
    device.ToHost(found.data(), output.at(), found.size() * 4);
    tally.Add("dequantize " + what, BytesOf(expected), BytesOf(found), 4);
  }
}

// Threads with streams of their own at once.
void CompareStreams(Device& device, Tally& tally) {
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      device.Use();
      void* const stream = device.NewStream();
      const FormatSpec spec = formats::FindFormat(t % 2 == 0 ? "mxfp8_e4m3" : "mx6");
      for (uint32_t round = 0; round < (shrinks > 1 ? 4u : 40u); ++round) {
        const Shape shape = round % 2 == 0 ? Shape{64, 512, 1} : Shape{4, 96, 77};
        RunCase(device, MakeCase<uint32_t>(spec, shape, 100 * t + round), stream, tally);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

struct Timed {
  std::string what;
  double gigabytes_per_second, milliseconds;
};

// Times launches on large tensors, and a copy of the same bytes.
std::vector<Timed> TimeKernels(Device& device) {
  // 1 GiB of float32: several times any cache.
  const size_t count = (size_t{1} << 28) / shrinks;
  const Buffer input(device, count * 4), halves(device, count * 2), output(device, count * 4);
  {
    std::vector<float> piece(std::min(count, size_t{1} << 20));
    std::mt19937 random(5);
    std::normal_distribution<float> normal;
    for (float& x : piece) x = normal(random);
    std::vector<uint16_t> half(piece.size());
    kernels::FloatToHalf(piece, half.data());
    for (size_t at = 0; at < count; at += piece.size()) {
      device.ToDevice(input.at(at * 4), piece.data(), piece.size() * 4);
      device.ToDevice(halves.at(at * 2), half.data(), half.size() * 2);
    }
  }
  void* const stream = device.NewStream();
  void* const begin = device.NewEvent();
  void* const end = device.NewEvent();
  std::vector<Timed> rows;
  const auto time = [&](const std::string& what, double bytes, const std::function<void()>& run) {
    const int runs = shrinks > 1 ? 1 : 10;
    for (int i = 0; i < 3 && runs > 1; ++i) run();
    device.Record(begin, stream);
    for (int i = 0; i < runs; ++i) run();
    device.Record(end, stream);
    const double each = static_cast<double>(device.Milliseconds(begin, end)) / runs;
    rows.push_back({what, bytes / each / 1e6, each});
    fmt::print("{:58} {:8.1f} GB/s {:8.3f} ms\n", what, rows.back().gigabytes_per_second, each);
    std::fflush(stdout);
  };
  time("copy on the device, 1 GiB", 8.0 * static_cast<double>(count),
       [&] { device.CopyInside(output.at(), input.at(), count * 4, stream); });
  struct Layout {
    const char* name;
    Shape shape;
  };
  const std::vector<Layout> layouts = {{"last axis", {65536, 4096, 1}},
                                       {"axis 1 of [64, 1024, 64, 64]", {64, 1024, 4096}},
                                       {"axis 1 of [2048, 1024, 7, 7]", {2048, 1024, 49}},
                                       {"last axis of 1000", {262144, 1000, 1}}};
  const auto run_format = [&](const FormatSpec& spec, const Layout& layout, bool is_half) {
    Shape shape = layout.shape;
    shape.outer = std::max<int64_t>(1, shape.outer / static_cast<int64_t>(shrinks));
    const int64_t elements = shape.outer * shape.length * shape.inner;
    if (elements > static_cast<int64_t>(count)) return;  // with --small
    const Launch launch = PlanFakeQuantize(
        spec, shape, is_half, Pointer(is_half ? halves.at() : input.at()), Pointer(output.at()));
    time(fmt::format("{} {} {}{}", spec.name, is_half ? "f16" : "f32", layout.name,
                     spec.scale_choice == formats::ScaleChoice::kMse ? ", mse" : ""),
         static_cast<double>(elements) * (is_half ? 4 : 8),
         [&] { Driver::Get().Run(launch, stream); });
  };
  for (const char* name :
       {"mxint8", "mxfp8_e4m3", "mxfp6_e3m2", "mxfp4_e2m1", "nvfp4", "bfp16", "mx6", "mx9"}) {
    for (const Layout& layout : layouts) {
      for (const bool is_half : {false, true})
        run_format(formats::FindFormat(name), layout, is_half);
    }
  }
  FormatSpec mse = formats::FindFormat("mxfp4_e2m1");
  mse.scale_choice = formats::ScaleChoice::kMse;
  run_format(mse, layouts[0], false);
  run_format(mse, layouts[1], false);
  FormatSpec quark = QuarkSpec(formats::QuarkMxAttributes{"int8", 32, 0});
  quark.name = "Quark's int8, half away from zero";
  run_format(quark, layouts[0], false);
  quark = QuarkSpec(formats::QuarkMxAttributes{"fp8_e4m3", 32, 2});
  quark.name = "Quark's fp8_e4m3";
  run_format(quark, layouts[0], false);
  run_format(formats::FindFormat("bfp(bits=16, block=300)"), layouts[0], false);
  for (const char* name : {"fp16", "bf16", "fp8_e4m3"})
    run_format(formats::FindFormat(name), layouts[0], false);
  run_format(formats::FindFormat("bf16"), layouts[0], true);
  const Buffer scales(device, 4096), zeros(device, 4096);
  const std::vector<float> ones(1024, 0.05f);
  device.ToDevice(scales.at(), ones.data(), 4096);
  device.Fill(zeros.at(), 0, 4096);
  for (const Code code : {kInt8, kInt16, kBFloat16}) {
    for (const int64_t num_scales : {1, 1024}) {
      const LinearTensors tensors{Pointer(input.at()),
                                  Pointer(output.at()),
                                  static_cast<const float*>(Pointer(scales.at())),
                                  Pointer(zeros.at()),
                                  static_cast<int64_t>(count),
                                  4096,
                                  num_scales,
                                  code};
      const double width = code == kInt8 ? 1 : 2;
      const std::string what = fmt::format("code {}, {} scales",
                                           code == kInt8    ? "int8"
                                           : code == kInt16 ? "int16"
                                                            : "bfloat16",
                                           num_scales);
      time("quantize to " + what, (4 + width) * static_cast<double>(count),
           [&] { Driver::Get().Run(PlanQuantize(tensors, false), stream); });
      time("dequantize from " + what, (4 + width) * static_cast<double>(count),
           [&] { Driver::Get().Run(PlanDequantize(tensors), stream); });
    }
  }
  // Small tensors show what a launch costs.
  const Launch small = PlanFakeQuantize(formats::FindFormat("mxfp8_e4m3"), {16, 1024, 1}, false,
                                        Pointer(input.at()), Pointer(output.at()));
  time("mxfp8_e4m3 f32 of 16384 values", 8.0 * 16384, [&] { Driver::Get().Run(small, stream); });
  time("copy on the device, 1 GiB, again", 8.0 * static_cast<double>(count),
       [&] { device.CopyInside(output.at(), input.at(), count * 4, stream); });
  device.Synchronize(stream);
  return rows;
}

void WriteFigures(const char* path, Device& device, const Tally& tally,
                  const std::vector<Timed>& rows) {
  std::FILE* const file = std::fopen(path, "w");
  if (file == nullptr) throw std::runtime_error(std::string("cannot write ") + path);
  fmt::print(file,
             "{{\"device\": \"{}\", \"cuda\": {}, \"cases\": {}, \"values\": {}, \"wrong_cases\": "
             "{}, \"rows\": [",
             device.name(), device.version(), tally.cases, tally.values, tally.wrong_cases);
  for (size_t i = 0; i < rows.size(); ++i) {
    fmt::print(file, "{}\n  {{\"what\": \"{}\", \"gb_per_s\": {:.1f}, \"ms\": {:.4f}}}",
               i == 0 ? "" : ",", rows[i].what, rows[i].gigabytes_per_second, rows[i].milliseconds);
  }
  fmt::print(file, "\n]}}\n");
  std::fclose(file);
}

int Main(std::vector<std::string> arguments) {
  if (std::erase(arguments, "--small") > 0) shrinks = 1024, stride_of_formats = 2;
  if (std::erase(arguments, "--few") > 0) stride_of_formats = 23;
  const bool compares = std::erase(arguments, "--time-only") == 0;
  std::unique_ptr<Device> device;
  try {
    device = std::make_unique<Device>();
  } catch (const std::runtime_error& error) {
    fmt::print("skipped: {}\n", error.what());
    return 77;
  }
  const auto start = Clock::now();
  fmt::print("{}, compute capability {}.{}, {} multiprocessors, driver for CUDA {}.{}\n",
             device->name(), device->Attribute(75), device->Attribute(76), device->Attribute(16),
             device->version() / 1000, device->version() % 1000 / 10);
  Driver::Get();
  fmt::print("the driver compiled the kernels in {:.2f} s\n", Seconds(start));
  Tally tally;
  const auto step = [&](const char* what, const std::function<void()>& run) {
    if (!compares) return;
    const auto begin = Clock::now();
    const uint64_t before = tally.values;
    run();
    fmt::print("{}: {} values in {:.1f} s, {} of {} cases wrong so far\n", what,
               tally.values - before, Seconds(begin), tally.wrong_cases, tally.cases);
    std::fflush(stdout);
  };
  step("block formats in many shapes", [&] { CompareFormats(*device, tally); });
  step("codes with scales", [&] {
    CompareCodes<uint8_t>(*device, kUInt8, tally);
    CompareCodes<int8_t>(*device, kInt8, tally);
    CompareCodes<uint16_t>(*device, kUInt16, tally);
    CompareCodes<int16_t>(*device, kInt16, tally);
    CompareCodes<uint32_t>(*device, kUInt32, tally);
    CompareCodes<int32_t>(*device, kInt32, tally);
    CompareCodes<kernels::Half>(*device, kHalf, tally);
    CompareCodes<kernels::BFloat16>(*device, kBFloat16, tally);
  });
  step("eight threads with streams", [&] { CompareStreams(*device, tally); });
  step("large tensors", [&] { CompareLarge(*device, tally); });
  const std::vector<Timed> rows = TimeKernels(*device);
  if (!arguments.empty()) WriteFigures(arguments[0].c_str(), *device, tally, rows);
  fmt::print("{} values in {} cases, {} cases wrong, {:.1f} s\n", tally.values, tally.cases,
             tally.wrong_cases, Seconds(start));
  return tally.wrong_cases == 0 ? 0 : 1;
}

}  // namespace
}  // namespace bitpress::cuda

int main(int argc, char** argv) {
  try {
    return bitpress::cuda::Main({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    fmt::print("FAILED: {}\n", error.what());
    return 1;
  }
}
