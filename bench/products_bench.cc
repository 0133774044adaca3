// Measures matrix products straight from packed blocks (kernels/block_products.h) beside ONNX
// Runtime's products of floats (MatMul) and of blocks (MatMulNBits, accuracy level 4) in the same
// run: microseconds of each, and how many times as fast as ONNX Runtime's floats it is (of_float).
// Then convolutions (convolutions_bench.h).
//
//   bitpress_products_bench [--threads N] [--size K] [--columns N] [--rows 1,16,256] [--seconds S]
//                           [--targets | --target NAME] [--only FORMAT] [--convolutions]
//
// With --convolutions, these alone are measured.
// The formats are weights with rows in the same format, which are quantized here ("mx6"), and with
// rows of floats ("mx6 weights"); with AMX both are summed in the fastest order, too. All are run
// in turn, several times; the least time of each counts. With --targets, each instruction set of
// this processor is measured, and with --target that one alone, as `bitpress doctor` calls it.
#include <algorithm>
#include <cstdio>
#include <functional>
#include <map>
#include <random>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "base/thread_pool.h"
#include "convolutions_bench.h"
#include "formats/reference.h"
#include "graph/model.h"
#include "kernels/block_products.h"
#include "kernels/cpu_target.h"
#include "kernels/fake_quantize.h"
#include "kernels/pack_tensor.h"
#include "race.h"
#include "runtime/session.h"

namespace bitpress {
namespace {

using formats::FormatSpec;

struct Options {
  size_t threads = 1;
  int64_t size = 4096, columns = 0;
  std::vector<int64_t> rows{1, 16, 256};
  double seconds = 0.5;
  bool has_targets = false, has_matrices = true;
  std::string only;    // a format
  std::string target;  // an instruction set
};

Options Parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--targets") {
      options.has_targets = true;
      continue;
    }
    if (word == "--convolutions") {
      options.has_matrices = false;
      continue;
    }
    if (i + 1 == argc) Fail(ErrorCode::kInvalidArgument, "no such option, or no value: {}", word);
    const std::string value = argv[++i];
    if (word == "--only") {
      options.only = value;
    } else if (word == "--target") {
      options.target = value;
      options.has_targets = true;
    } else if (word == "--threads") {
      options.threads = std::stoul(value);
    } else if (word == "--size") {
      options.size = std::stol(value);
    } else if (word == "--columns") {
      options.columns = std::stol(value);
    } else if (word == "--seconds") {
      options.seconds = std::stod(value);
    } else if (word == "--rows") {
      options.rows.clear();
      std::istringstream words(value);
      for (std::string part; std::getline(words, part, ',');) {
        options.rows.push_back(std::stol(part));
      }
    } else {
      Fail(ErrorCode::kInvalidArgument, "no such option: {}", word);
    }
  }
  if (options.columns == 0) options.columns = options.size;
  return options;
}

runtime::Session FloatSession(const Options& options) {
  graph::Model model = ModelOf(fmt::format(R"(<ir_version: 8, opset_import: ["" : 17]>
    g (float[M,{0}] x) => (float[M,{1}] y) <float[1,1] w = {{1}}> {{ y = MatMul(x, w) }})",
                                           options.size, options.columns));
  const auto count = static_cast<size_t>(options.size * options.columns);
  model.SetInitializer("w", FloatTensor({options.size, options.columns}, RandomNormal(count, 2)));
  runtime::SessionOptions session;
  session.num_threads = runtime::SessionThreads(options.threads);
  return runtime::Session::FromMemory(model.Serialize(), session);
}

runtime::Session BlockSession(const Options& options, int bits) {
  graph::Model model = ModelOf(fmt::format(
      R"(<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>
    g (float[M,{0}] x) => (float[M,{1}] y) <uint8[1,1,1] c = {{1}}, float[1] s = {{1}}> {{
      y = com.microsoft.MatMulNBits <K = {0}, N = {1}, accuracy_level = 4, bits = {2},
                                     block_size = 32> (x, c, s) }})",
      options.size, options.columns, bits));
  const int64_t blocks = options.size / 32;
  const auto bytes = static_cast<size_t>(options.columns * options.size * bits / 8);
  Tensor codes{DataType::kUInt8, {options.columns, blocks, 4 * bits}, {}};
  std::mt19937 random(3);
  codes.bytes.resize(bytes);
  for (std::byte& byte : codes.bytes) byte = static_cast<std::byte>(random());
  model.SetInitializer("c", codes);
  const auto num_scales = static_cast<size_t>(options.columns * blocks);
  model.SetInitializer("s", FloatTensor({options.columns * blocks}, RandomNormal(num_scales, 4)));
  runtime::SessionOptions session;
  session.num_threads = runtime::SessionThreads(options.threads);
  return runtime::Session::FromMemory(model.Serialize(), session);
}

kernels::ProductPanels Panels(const FormatSpec& spec, const Options& options, ThreadPool& pool) {
  const int64_t n = options.columns, k = options.size;
  std::vector<float> values = RandomNormal(static_cast<size_t>(n * k), 2);
  const kernels::FakeQuantizer quantizer(spec, n, k, 1);
  quantizer.Run(values.data(), values.data());
  formats::PackedTensor packed(formats::SizesOf(spec, n, k, 1));
  kernels::PackTensor(spec, n, k, 1, values, packed.spans(), pool);
  return kernels::ProductPanels(spec, {n, k, 1, false}, packed.view(), pool);
}

void RaceMatrices(const Options& options, ThreadPool& pool) {
  const int64_t most_rows = *std::ranges::max_element(options.rows);
  const std::vector<float> a = RandomNormal(static_cast<size_t>(most_rows * options.size), 1);
  std::vector<float> quantized(a.size());
  std::vector<float> c(static_cast<size_t>(most_rows * options.columns));
  runtime::Session floats = FloatSession(options);
  runtime::Session four = BlockSession(options, 4), eight = BlockSession(options, 8);
  std::map<std::string, kernels::ProductPanels> panels;
  const auto session = [&](runtime::Session& of) {
    return [&](int64_t rows) {
      const auto count = static_cast<std::ptrdiff_t>(rows * options.size);
      static_cast<void>(
          of.Run({FloatTensor({rows, options.size}, {a.begin(), a.begin() + count})}));
    };
  };
  using ForRows = std::function<void(int64_t rows)>;
  std::vector<std::pair<std::string, ForRows>> all{{"float", session(floats)},
                                                   {"MatMulNBits4", session(four)},
                                                   {"MatMulNBits8", session(eight)}};
  for (const char* const name : {"mxfp4_e2m1", "mx4", "mx6", "mxfp6_e2m3", "mxfp6_e3m2",
                                 "mxfp8_e4m3", "mxfp8_e5m2", "mxint8", "bfp16", "mx9", "bf16"}) {
    if (!options.only.empty() && options.only != name) continue;
    const FormatSpec spec = formats::FindFormat(name);
    const kernels::ProductPanels& matrix =
        panels.emplace(name, Panels(spec, options, pool)).first->second;
    struct Kind {
      const char* words;
      bool is_weight_only;
      formats::SumOrder order;
    };
    for (const Kind& kind : {Kind{"", false, formats::SumOrder::kFixed},
                             Kind{", fastest", false, formats::SumOrder::kFastest},
                             Kind{" weights", true, formats::SumOrder::kFixed},
                             Kind{" weights, fastest", true, formats::SumOrder::kFastest}}) {
      if (kind.order == formats::SumOrder::kFastest && !kernels::HasTiles()) continue;
      const auto run = [&, spec, kind](int64_t rows) {
        const std::optional<FormatSpec> format =
            kind.is_weight_only ? std::nullopt : std::optional(spec);
        const float* left = a.data();
        if (format) {
          const kernels::FakeQuantizer quantizer(*format, rows, options.size, 1);
          pool.ParallelFor(quantizer.num_tasks(),
                           [&](size_t i) { quantizer.RunTask(i, a.data(), quantized.data()); });
          left = quantized.data();
        }
        kernels::BlockProduct product(
            matrix, format, {left, static_cast<size_t>(rows), static_cast<size_t>(options.size)},
            {.data = c.data(), .stride = static_cast<size_t>(options.columns)}, kind.order);
        pool.ParallelFor(product.num_row_tasks(), [&](size_t i) { product.RunRowTask(i); });
        pool.ParallelFor(product.num_tasks(), [&](size_t i) { product.RunTask(i); });
      };
      all.emplace_back(fmt::format("{}{}", name, kind.words), run);
    }
  }
  std::printf("%ld x %ld\n", static_cast<long>(options.size), static_cast<long>(options.columns));
  for (const int64_t rows : options.rows) {
    std::vector<Contender> contenders;
    for (const auto& [name, run] : all) {
      contenders.push_back({name, [&run, rows] { run(rows); }});
    }
    Race(fmt::format("{} rows", rows), contenders, options.seconds);
  }
}

int Main(int argc, char** argv) {
  const Options options = Parse(argc, argv);
  ThreadPool pool(options.threads);
  if (!options.target.empty()) kernels::UseTarget(options.target);  // or it throws
  for (const std::string& target : kernels::SupportedTargets()) {
    if (!options.target.empty() && options.target != target) continue;
    kernels::UseTarget(target);
    for (const bool has_dot : {true, false}) {
      kernels::UseDotProducts(has_dot);
      // Without dot products AMX and AVX3_BF16 are AVX3.
      const bool is_avx3 = kernels::CurrentTarget() != kernels::CurrentVectors();
      if (kernels::HasDotProducts() != has_dot || (is_avx3 && !has_dot)) continue;
      std::printf("%zu threads, %s%s\n", options.threads, target.c_str(),
                  has_dot ? " with dot products of bytes" : "");
      if (options.has_matrices) RaceMatrices(options, pool);
      RaceConvolutions(options.threads, options.only, options.seconds, pool);
      if (!options.has_targets) return 0;
    }
  }
  return 0;
}

}  // namespace
}  // namespace bitpress

int main(int argc, char** argv) {
  try {
    return bitpress::Main(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bitpress_products_bench: error: %s\n", error.what());
    return 1;
  }
}
