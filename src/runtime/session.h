// A model in ONNX Runtime, ready to run. For example:
//
//   Session session("model.onnx");
//   const std::vector<Tensor> outputs = session.Run({input});
//
// It opens the runtime library at first use (see ort_library.h), registers our operator library,
// and turns every failure into bitpress::Error. One thread at a time may use a Session. It runs on
// its own threads, and gives the same results for any number of them.
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

namespace bitpress::graph {
class Model;
}

namespace bitpress::runtime {

enum class Optimization {
  kNone,
  kBasic,     // constant folding and redundant nodes, nothing that depends on the machine
  kExtended,  // kBasic and fused operators, but no layout of this machine
  kAll,       // kExtended and layouts of this machine
};

class ObserverOperators;

// Returns a caller's number of threads as SessionOptions has it. Throws Error(kInvalidArgument) for
// more than 1024 threads: no processor has so many, and a wrong sign gives such numbers.
int SessionThreads(size_t num_threads);

struct SessionOptions {
  int num_threads = 0;  // intra-op threads; 0: UsableProcessors
  Optimization optimization = Optimization::kAll;
  // The path of libbitpress_ops.so. Empty: the one that FindOperatorLibrary finds, if any.
  // Libraries of the user (UseOperatorLibrary) are registered besides.
  std::filesystem::path operator_library = {};
  // The folder of the external data of a model in memory. Empty: it has none.
  std::filesystem::path external_data_folder = {};
  // The file to which ONNX Runtime writes the optimized model; see optimize.h. Empty: none.
  std::filesystem::path optimized_model_path = {};
  // The path of the profile of the first runs, without its end; see EndProfile. Empty: there is
  // none.
  std::filesystem::path profile_prefix = {};
  // The name of a file beside that model for its initializers. Empty: they stay inside it.
  std::string optimized_data_file = {};
  // The observer nodes to register; see observers.h. They must outlive the session.
  const ObserverOperators* observers = nullptr;
  // More "session configuration entries" of ONNX Runtime.
  std::vector<std::pair<std::string, std::string>> config_entries = {};
};

// An input or output of a model.
struct ValueDescription {
  std::string name;
  DataType type = DataType::kUndefined;
  std::vector<int64_t> dims;  // -1: symbolic or unknown; empty: a scalar or unknown rank
};

class Session {
 public:
  // Opens a model in memory, whose large initializers are not copied: they stay alive as long as
  // the session. `model` is not needed afterwards. Throws as the constructor.
  static Session FromModel(const graph::Model& model, const SessionOptions& options = {});
  // Loads a file, with external data beside it. Throws Error(kIo) if it is missing,
  // Error(kInvalidModel) if it cannot be read, Error(kRuntime) with ONNX Runtime's message (which
  // names the node) if it does not load.
  explicit Session(const std::filesystem::path& model, const SessionOptions& options = {});
  // Loads a serialized model in memory, whose bytes are not needed afterwards. This is no
  // constructor, because a std::string could be meant as a path.
  static Session FromMemory(std::string_view model_bytes, const SessionOptions& options = {});
  ~Session();
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;

  const std::vector<ValueDescription>& inputs() const;
  const std::vector<ValueDescription>& outputs() const;

  // Runs the model. `inputs[i]` is the value of inputs()[i], and the result has one tensor for each
  // of outputs(). What is no tensor of numbers is one without bytes: kString for strings,
  // kUndefined for sequences, maps and optional values. The input tensors are not copied. A tensor
  // without elements holds no values, so that it may be of another type, and of another size along
  // a dimension that the model fixes: an empty cache fits the model with the same cache in codes.
  // Throws Error(kInvalidArgument) naming the input if type or known dimensions do not fit,
  // Error(kRuntime) if ONNX Runtime fails.
  std::vector<Tensor> Run(const std::vector<Tensor>& inputs);

  // Ends the profile of the runs so far, and returns its file: a JSON array of events as Chrome
  // traces have them, with the shapes that each operator met. REQUIRES: options.profile_prefix was
  // given. Throws Error(kRuntime).
  std::filesystem::path EndProfile();

 private:
  struct Impl;
  Session();
  std::unique_ptr<Impl> impl_;
};

}  // namespace bitpress::runtime
