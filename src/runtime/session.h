// A model in ONNX Runtime. Opens the runtime library at first use (see ort_library.h), registers
// our operator library, and turns every failure into bitpress::Error. A Session may be used from
// one thread at a time; it runs on its own threads, and gives the same results for any number of
// them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/tensor.h"

namespace bitpress::runtime {

enum class Optimization {
  kNone,
  kBasic,     // constant folding and redundant nodes, nothing that depends on the machine
  kExtended,  // also fused operators, but no layout of this machine
  kAll,       // fusions and layouts of this machine
};

class ObserverOperators;

// Returns a caller's number of threads as SessionOptions have it. Throws Error(kInvalidArgument) if
// there are more than 1024, which no processor has and a wrong sign makes.
int SessionThreads(size_t num_threads);

struct SessionOptions {
  int num_threads = 0;  // intra-op threads; 0: one for each core this process may use
  Optimization optimization = Optimization::kAll;
  // libbitpress_ops.so; empty: the one that FindOperatorLibrary finds, if any.
  std::filesystem::path operator_library = {};
  // Of a model in memory: the folder of its external data. Empty: it has none.
  std::filesystem::path external_data_folder = {};
  // Where ONNX Runtime writes the model it made by optimizing, if not empty; see optimize.h.
  std::filesystem::path optimized_model_path = {};
  // Where it puts the initializers of that model, a file name beside it; empty: inside it.
  std::string optimized_data_file = {};
  // Registers the observer nodes; see observers.h. Must outlive the session.
  const ObserverOperators* observers = nullptr;
  // Further "session configuration entries" of ONNX Runtime.
  std::vector<std::pair<std::string, std::string>> config_entries = {};
};

struct ValueDescription {
  std::string name;
  DataType type = DataType::kUndefined;
  std::vector<int64_t> dims;  // -1: symbolic or unknown; empty: a scalar or unknown rank
};

class Session {
 public:
  // From a file (external data beside it). Throws Error(kIo) if it is missing, Error(kInvalidModel)
  // if it cannot be read, Error(kRuntime) with ONNX Runtime's message (which names the node) if it
  // does not load.
  explicit Session(const std::filesystem::path& model, const SessionOptions& options = {});
  // From a serialized model in memory; the bytes are not needed afterwards. Not a constructor,
  // because a std::string could be meant as a path.
  static Session FromMemory(std::string_view model_bytes, const SessionOptions& options = {});
  ~Session();
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;

  const std::vector<ValueDescription>& inputs() const;
  const std::vector<ValueDescription>& outputs() const;

  // Runs the model: `inputs[i]` is the value of inputs()[i]; the result has one tensor for each of
  // outputs(). The input tensors are not copied. Throws Error(kInvalidArgument) when type or known
  // dimensions do not fit, naming the input, Error(kRuntime) if ONNX Runtime fails.
  std::vector<Tensor> Run(const std::vector<Tensor>& inputs);

 private:
  struct Impl;
  Session();
  std::unique_ptr<Impl> impl_;
};

}  // namespace bitpress::runtime
