// A model in ONNX Runtime. Opens the runtime library at first use (see ort_library.h), registers our operator library, and
// turns every failure into bitpress::Error. A Session may be used from one thread at a time; it runs on its own threads.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/tensor.h"

namespace bitpress::runtime {

enum class Optimization {
  kNone,
  kBasic,  // constant folding and redundant nodes, nothing that depends on the machine
  kAll,    // fusions and layouts of this machine
};

struct SessionOptions {
  int num_threads = 0;   // intra-op threads; 0: one per core
  Optimization optimization = Optimization::kAll;
  // libbitpress_ops.so; empty: the one beside the running program, if it is there.
  std::filesystem::path operator_library;
  // Where to write the optimized model (ONNX Runtime's own export), if not empty. See graph::Prepare.
  std::filesystem::path optimized_model_path;
};

struct ValueDescription {
  std::string name;
  DataType type = DataType::kUndefined;
  std::vector<int64_t> dims;   // -1: symbolic or unknown
};

class Session {
 public:
  // From a file (external data beside it). Throws Error(kIo) if it is missing, Error(kInvalidModel) if it cannot be read,
  // Error(kRuntime) with ONNX Runtime's message (which names the node) if it does not load.
  explicit Session(const std::filesystem::path& model, const SessionOptions& options = {});
  // From memory.
  Session(std::string_view model_bytes, const SessionOptions& options);
  ~Session();
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;

  const std::vector<ValueDescription>& inputs() const;
  const std::vector<ValueDescription>& outputs() const;

  // Runs the model: `inputs[i]` is the value of inputs()[i]; the result has one tensor for each of outputs(). The input
  // tensors are not copied. Throws Error(kInvalidArgument) when type or known dimensions do not fit, naming the input,
  // Error(kRuntime) if ONNX Runtime fails.
  std::vector<Tensor> Run(const std::vector<Tensor>& inputs);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace bitpress::runtime
