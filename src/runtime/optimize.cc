#include "runtime/optimize.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <fstream>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/paths.h"
#include "base/scratch_folder.h"
#include "base/system_error.h"
#include "graph/clean_up.h"
#include "runtime/observers.h"
#include "runtime/session.h"

namespace bitpress::runtime {
namespace {

namespace fs = std::filesystem;

// The largest model whose initializers stay in one file. A protobuf message ends at 2 GiB, and
// folding constants makes a model larger.
constexpr uintmax_t kMaxInlineBytes = uintmax_t{1} << 30;

// The optimizers that are switched off: those of the basic level that change models with Q and DQ
// (a Relu or Clip fused into the Q after it, Q/DQ pairs moved and doubled, biases quantized), and
// one that renames equal constants.
constexpr const char* kLeftOut =
    "QDQPropagationTransformer;EnsureUniqueDQForNodeUnit;WeightBiasQuantization;"
    "DoubleQDQPairsRemover;ReluQuantRewrite;ClipQuantRewrite;ReluQuantFusion;ClipQuantFusion;"
    "ConstantSharing";

// Returns whether the file holds a reference to external data, the protobuf entry {key: "location",
// value: ...}. Bytes that only look like one cost a second file.
bool RefersToExternalData(const fs::path& model) {
  constexpr std::string_view kEntry = "\x0a\x08location\x12";
  constexpr size_t kChunkBytes = size_t{1} << 20;
  std::ifstream file(SystemPath(model), std::ios::binary);
  std::string window;
  std::string chunk(kChunkBytes, '\0');
  while (file.read(chunk.data(), kChunkBytes) || file.gcount() > 0) {
    window.append(chunk, 0, static_cast<size_t>(file.gcount()));
    if (window.find(kEntry) != std::string::npos) return true;
    window.erase(0, window.size() - std::min(window.size(), kEntry.size() - 1));
  }
  return false;
}

// A guard that removes the files at the end of a scope unless told that they are complete.
struct Unfinished {
  fs::path model;
  fs::path data;
  bool done = false;
  ~Unfinished() {
    if (done) return;
    std::error_code ignored;
    fs::remove(model, ignored);
    if (!data.empty()) fs::remove(data, ignored);
  }
};

// The sink of observers that never run: ProtectHalfCasts puts them into models that are only
// optimized.
struct NoSink : ObserverSink {
  void Observe(const ObservedTensor&, const ParallelTasks&) override {}
};

// Optimizes a file. `options` say how far ONNX Runtime goes and with which operators. The files are
// set here.
void WriteOptimized(const fs::path& model, const fs::path& out, SessionOptions options) {
  std::error_code error;
  if (fs::equivalent(model, out, error)) {
    Fail(ErrorCode::kInvalidArgument, "'{}' cannot be optimized onto itself", PathText(model));
  }
  const uintmax_t num_bytes = fs::file_size(model, error);
  const bool is_large = !error && num_bytes > kMaxInlineBytes;
  const bool is_external = !error && RefersToExternalData(model);
  const fs::path data = WithSuffix(out, ".data");
  if (is_external && fs::exists(data, error)) {
    Fail(ErrorCode::kInvalidArgument,
         "'{}' exists and may belong to '{}'; remove it or choose another output", PathText(data),
         PathText(model));
  }

  Unfinished files{.model = WithSuffix(out, ".partial"), .data = {}};
  if (!std::ofstream(files.model)) {
    Fail(ErrorCode::kIo, "cannot write '{}': {}", PathText(out),
         ErrorText({errno, std::generic_category()}));
  }
  options.num_threads = 1;
  options.optimized_model_path = files.model;
  if (is_large || is_external) {
    files.data = data;
    options.optimized_data_file = PathText(data.filename());
  }
  { const Session session(model, options); }
  fs::rename(files.model, out, error);
  if (error) Fail(ErrorCode::kIo, "cannot write '{}': {}", PathText(out), ErrorText(error));
  files.done = true;
}

}  // namespace

void OptimizeBasic(const std::filesystem::path& model, const std::filesystem::path& out,
                   const std::filesystem::path& operator_library) {
  SessionOptions options;
  options.optimization = Optimization::kBasic;
  options.operator_library = operator_library;
  NoSink sink;
  const ObserverOperators observers(sink);
  options.observers = &observers;
  options.config_entries = {{"optimization.disable_specified_optimizers", kLeftOut}};
  WriteOptimized(model, out, std::move(options));
}

void OptimizeAs(Optimization level, const std::filesystem::path& model,
                const std::filesystem::path& out, const std::filesystem::path& operator_library) {
  SessionOptions options;
  options.optimization = level;
  options.operator_library = operator_library;
  WriteOptimized(model, out, std::move(options));
}

graph::Model LoadOptimized(const std::filesystem::path& model,
                           const std::function<void(const std::filesystem::path& from,
                                                    const std::filesystem::path& to)>& optimize) {
  const ScratchFolder folder;
  const std::filesystem::path optimized = folder.path() / "optimized.onnx";
  optimize(model, optimized);
  return WithContext(fmt::format("'{}' after ONNX Runtime optimized it", PathText(model)), [&] {
    graph::Model loaded = graph::Model::Load(optimized);
    graph::PutInOrder(loaded);
    return loaded;
  });
}

}  // namespace bitpress::runtime
