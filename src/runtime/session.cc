#include "runtime/session.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <exception>
#include <functional>
#include <system_error>

#include "base/error.h"
#include "base/messages.h"
#include "base/paths.h"
#include "base/processors.h"
#include "base/system_error.h"
#include "base/system_files.h"
#include "base/text.h"
#include "graph/model.h"
#include "runtime/observers_internal.h"
#include "runtime/ort_internal.h"
#include "runtime/ort_library.h"

namespace bitpress::runtime {
namespace {

namespace fs = std::filesystem;

GraphOptimizationLevel ToOrtLevel(Optimization optimization) {
  switch (optimization) {
    case Optimization::kNone:
      return ORT_DISABLE_ALL;
    case Optimization::kBasic:
      return ORT_ENABLE_BASIC;
    case Optimization::kExtended:
      return ORT_ENABLE_EXTENDED;
    case Optimization::kAll:
      return ORT_ENABLE_ALL;
  }
  return ORT_ENABLE_ALL;
}

void RegisterLibrary(Ort::SessionOptions& target, const fs::path& library) {
  if (std::error_code ignored; !fs::exists(library, ignored)) {
    Fail(ErrorCode::kIo, "operator library '{}' not found", PathText(library));
  }
  try {
    target.RegisterCustomOpsLibrary(library.c_str());
  } catch (const Ort::Exception& error) {
    Fail(ErrorCode::kRuntime, "operator library '{}' cannot be loaded: {}", PathText(library),
         CleanMessage(error));
  }
}

// Registers our operator library and those of the user. Returns the path of ours, or an empty path
// if there is none.
fs::path RegisterOperators(Ort::SessionOptions& target, const SessionOptions& options) {
  const fs::path ours =
      options.operator_library.empty() ? FindOperatorLibrary() : options.operator_library;
  if (!ours.empty()) RegisterLibrary(target, ours);
  for (const fs::path& library : UsedOperatorLibraries()) RegisterLibrary(target, library);
  return ours;
}

Ort::SessionOptions MakeOptions(const SessionOptions& options) {
  if (options.num_threads < 0) {
    Fail(ErrorCode::kInvalidArgument, "number of threads is {}, expected 0 (all cores) or more",
         options.num_threads);
  }
  Ort::SessionOptions result;
  // ONNX Runtime's own default counts the machine's cores and binds a thread to each, even if this
  // process may use only some of them.
  const int num_threads =
      options.num_threads > 0 ? options.num_threads : static_cast<int>(UsableProcessors());
  result.SetIntraOpNumThreads(num_threads);
  result.SetInterOpNumThreads(1);
  result.SetGraphOptimizationLevel(ToOrtLevel(options.optimization));
  result.SetDeterministicCompute(true);
  // Idle threads would take time from the other model of a comparison, and from photo decoding.
  result.AddConfigEntry("session.force_spinning_stop", "1");
  // ONNX Runtime's flatbuffer format is never read, because it is not checked as strictly.
  result.AddConfigEntry("session.load_model_format", "ONNX");
  result.AddConfigEntry("session.save_model_format", "ONNX");
  if (!options.external_data_folder.empty()) {
    result.AddConfigEntry("session.model_external_initializers_file_folder_path",
                          PathText(options.external_data_folder).c_str());
  }
  if (!options.optimized_model_path.empty()) {
    result.SetOptimizedModelFilePath(options.optimized_model_path.c_str());
    if (!options.optimized_data_file.empty()) {
      result.AddConfigEntry("session.optimized_model_external_initializers_file_name",
                            options.optimized_data_file.c_str());
    }
  }
  if (!options.profile_prefix.empty()) result.EnableProfiling(options.profile_prefix.c_str());
  for (const auto& [key, value] : options.config_entries) {
    result.AddConfigEntry(key.c_str(), value.c_str());
  }
  return result;
}

void CheckReadable(const fs::path& model) {
  std::error_code ignored;
  if (!fs::exists(model, ignored)) {
    Fail(ErrorCode::kIo, "model '{}' not found", PathText(model));
  }
  if (fs::is_directory(model, ignored)) {
    Fail(ErrorCode::kIo, "model '{}' is a folder, expected an .onnx file", PathText(model));
  }
  if (const std::error_code error = WhyUnreadable(model)) {
    Fail(ErrorCode::kIo, "model '{}' cannot be read: {}", PathText(model), ErrorText(error));
  }
}

// Returns "needed by Mystery 'node_7'" for the first node with an operator such as
// "domain:Mystery";
// "" if the model cannot be read.
std::string NeededBy(std::string_view op, const std::function<graph::Model()>& load_graph) {
  try {
    const graph::Model model = load_graph();
    for (const graph::Node& node : model.AllNodes()) {
      if (fmt::format("{}:{}", node.domain(), node.op_type()) == op) {
        return fmt::format(", needed by {}", node.Describe());
      }
    }
  } catch (const Error&) {
  }
  return "";
}

// Returns "BFLOAT16 and INT64", the types of what a node reads, as far as they are known; "" if the
// model cannot be read or has no such node.
std::string TypesReadBy(std::string_view name, const std::function<graph::Model()>& load_graph) {
  std::vector<std::string> types;
  try {
    graph::Model model = load_graph();
    model.InferShapes();
    for (const graph::Node& node : model.AllNodes()) {
      if (node.name() != name) continue;
      for (size_t i = 0; i < node.num_inputs(); ++i) {
        const DataType type = model.InfoOf(node.input(i)).type;
        const std::string word(DataTypeName(type));
        const bool is_new = std::ranges::find(types, word) == types.end();
        if (type != DataType::kUndefined && is_new) types.push_back(word);
      }
    }
  } catch (const Error&) {
  }
  return Join(types, " and ");
}

// Returns what to say of an operator that ONNX Runtime knows, but not for the types of its inputs;
// "" if `message` is no such error. The message is "Could not find an implementation for MatMul(13)
// node with name 'mm'".
std::string MissingKernel(std::string_view message,
                          const std::function<graph::Model()>& load_graph) {
  constexpr std::string_view kBefore = "Could not find an implementation for ";
  constexpr std::string_view kBetween = " node with name '";
  const size_t at = message.find(kBefore);
  if (at == std::string_view::npos) return "";
  const size_t op = at + kBefore.size();
  const size_t between = message.find(kBetween, op);
  const size_t end = message.rfind('\'');
  if (between == std::string_view::npos || end < between + kBetween.size()) return "";
  const std::string_view name =
      message.substr(between + kBetween.size(), end - between - kBetween.size());
  const std::string types = TypesReadBy(name, load_graph);
  if (types.empty()) return "";
  const std::string_view kernel = message.substr(op, between - op);
  return fmt::format(
      "ONNX Runtime {} has no kernel of {} for {}, needed by node '{}': {}", OrtVersion(), kernel,
      types, name,
      kernel.starts_with("DequantizeLinear")
          ? "`bitpress unpack` writes a model with such weights as floats, which runs"
          : "a model of other types, FLOAT or FLOAT16, runs");
}

// Returns LoadError. If an operator is missing, the message also names the node that needs it, and
// says what to do.
Error LoadErrorWithAdvice(const Ort::Exception& error, const fs::path& operators,
                          const std::function<graph::Model()>& load_graph) {
  const Error result = LoadError(error);
  std::string message = result.what();
  const std::string missing = MissingKernel(message, load_graph);
  if (!missing.empty()) return Error(result.code(), missing);
  // The message is "Fatal error: domain:Mystery(-1) is not a registered function/op".
  const size_t statement = message.find(" is not a registered function/op");
  if (statement == std::string::npos) return result;
  const size_t version = message.rfind('(', statement);
  const size_t space = version == std::string::npos ? version : message.rfind(' ', version);
  if (space == std::string::npos) return result;
  const std::string op = message.substr(space + 1, version - space - 1);
  message = fmt::format("there is no operator {}{}", op, NeededBy(op, load_graph));
  if (op.starts_with("com.amd.quark:") || op.starts_with("com.vai.quantize:") ||
      op.starts_with("bitpress:")) {
    message += operators.empty()
                   ? fmt::format("; {} is not beside the program: put it there or name it",
                                 OperatorLibraryName())
                   : fmt::format("; '{}' does not have it", PathText(operators));
  } else if (op.starts_with("com.microsoft:")) {
    message += fmt::format("; ONNX Runtime {} does not have it", OrtVersion());
  } else {
    message +=
        fmt::format("; name the library that has it with {}", OptionName("operator_library"));
  }
  return Error(result.code(), message);
}

ValueDescription Describe(std::string name, const Ort::TypeInfo& info) {
  ValueDescription result;
  result.name = std::move(name);
  if (info.GetONNXType() != ONNX_TYPE_TENSOR) return result;
  const auto tensor = info.GetTensorTypeAndShapeInfo();
  result.type = FromOrtType(tensor.GetElementType());
  result.dims = tensor.GetShape();
  for (int64_t& dim : result.dims) dim = std::max<int64_t>(dim, -1);
  return result;
}

bool FitsDims(const std::vector<int64_t>& known, const std::vector<int64_t>& found) {
  if (known.empty()) return true;
  return std::equal(known.begin(), known.end(), found.begin(), found.end(),
                    [](int64_t a, int64_t b) { return a < 0 || a == b; });
}

std::string FormatDims(const std::vector<int64_t>& dims) {
  std::string text;
  for (const int64_t dim : dims) {
    if (!text.empty()) text += ", ";
    text += dim < 0 ? "?" : std::to_string(dim);
  }
  return "[" + text + "]";
}

void CheckInput(const ValueDescription& expected, const Tensor& found) {
  if (expected.type == DataType::kUndefined || ElementBits(expected.type) == 0) {
    Fail(ErrorCode::kUnsupported,
         "input '{}' is not a tensor of numbers, which samples are: a configuration that needs no "
         "samples quantizes such a model (INT8_DYNAMIC, INT8_WEIGHTS, MX6, ...)",
         expected.name);
  }
  if (found.type != expected.type) {
    Fail(ErrorCode::kInvalidArgument, "input '{}' is {}, expected {}", expected.name,
         DataTypeName(found.type), DataTypeName(expected.type));
  }
  if (!FitsDims(expected.dims, found.dims)) {
    Fail(ErrorCode::kInvalidArgument, "input '{}' has shape {}, expected {}", expected.name,
         FormatDims(found.dims), FormatDims(expected.dims));
  }
  const uint64_t num_bytes = NumBytes(found.type, found.num_elements());
  if (found.bytes.size() != num_bytes) {
    Fail(ErrorCode::kInvalidArgument, "input '{}' holds {} bytes, expected {} for {} of {}",
         expected.name, found.bytes.size(), num_bytes, DataTypeName(found.type),
         FormatDims(found.dims));
  }
}

// Returns a tensor without elements of the wanted type and known dimensions. REQUIRES: `tensor` has
// none, and the same rank.
Tensor EmptyAs(const Tensor& tensor, const ValueDescription& wanted) {
  Tensor empty{.type = wanted.type, .dims = tensor.dims, .bytes = {}};
  for (size_t i = 0; i < wanted.dims.size(); ++i) {
    if (empty.dims[i] > 0 && wanted.dims[i] > 0) empty.dims[i] = wanted.dims[i];
  }
  return empty;
}

// Copies an output. Sequences, maps, absent optional values and strings come without bytes: nothing
// measures them.
Tensor CopyOutput(const Ort::Value& value) {
  Tensor result;
  if (!value || !value.HasValue() || !value.IsTensor()) return result;
  const auto info = value.GetTensorTypeAndShapeInfo();
  result.type = FromOrtType(info.GetElementType());
  result.dims = info.GetShape();
  if (ElementBits(result.type) == 0) return result;
  const auto* const data = static_cast<const std::byte*>(value.GetTensorRawData());
  const uint64_t num_bytes = NumBytes(result.type, result.num_elements());
  if (num_bytes > 0) result.bytes.assign(data, data + num_bytes);
  return result;
}

}  // namespace

int SessionThreads(size_t num_threads) {
  constexpr size_t kMost = 1024;
  if (num_threads > kMost) {
    Fail(ErrorCode::kInvalidArgument, "{} threads are too many, expected 0 (all cores) to {}",
         num_threads, kMost);
  }
  return static_cast<int>(num_threads);
}

struct Session::Impl {
  graph::DetachedModel detached;  // what the session reads while it lives
  std::vector<Ort::Value> constants;
  Ort::Session session{nullptr};
  Ort::MemoryInfo memory{nullptr};
  std::vector<ValueDescription> inputs;
  std::vector<ValueDescription> outputs;
  std::vector<const char*> input_names;   // pointers into `inputs`
  std::vector<const char*> output_names;  // pointers into `outputs`

  // Opens the session that `create` makes. Every failure leaves as Error. `load_graph` reads the
  // same model, for a better message.
  template <typename Create>
  void Load(const SessionOptions& options, const std::function<graph::Model()>& load_graph,
            const Create& create) {
    const Ort::Env& env = OrtEnv();
    fs::path operators;
    try {
      Ort::SessionOptions ort_options = MakeOptions(options);
      operators = RegisterOperators(ort_options, options);
      if (options.observers != nullptr) {
        RegisterObservers(ort_options, *options.observers);
        // The memory planned in a first run would come on top of the memory that the run took.
        ort_options.DisableMemPattern();
      }
      session = create(env, ort_options);
      memory = Ort::MemoryInfo::CreateCpu(OrtArenaAllocator, OrtMemTypeDefault);
      DescribeValues();
    } catch (const Ort::Exception& error) {
      throw LoadErrorWithAdvice(error, operators, load_graph);
    } catch (const Error&) {
      throw;
    } catch (const std::exception& error) {
      Fail(ErrorCode::kRuntime, "{}", error.what());
    }
  }

  // Gives the session the initializers that the message of `detached` lacks. ONNX Runtime takes
  // them twice: its optimizers read the external ones, and kernels read those by name, which would
  // be copies of the external ones otherwise.
  void AddConstants(Ort::SessionOptions& options) {
    if (detached.initializers.empty()) return;
    const auto cpu = Ort::MemoryInfo::CreateCpu(OrtDeviceAllocator, OrtMemTypeDefault);
    std::vector<std::string> names;
    std::vector<Ort::Value> external;
    for (const auto& [name, data] : detached.initializers) {
      const auto value = [&, &held = data] {
        // ONNX Runtime takes void* and does not write to initializers.
        return Ort::Value::CreateTensor(cpu, const_cast<std::byte*>(held.bytes.data()),
                                        held.bytes.size(), held.dims.data(), held.dims.size(),
                                        ToOrtType(held.type));
      };
      options.AddInitializer(name.c_str(), constants.emplace_back(value()));
      names.push_back(name);
      external.push_back(value());
    }
    options.AddExternalInitializers(names, external);
  }

  void DescribeValues() {
    Ort::AllocatorWithDefaultOptions allocator;
    for (size_t i = 0; i < session.GetInputCount(); ++i) {
      inputs.push_back(
          Describe(session.GetInputNameAllocated(i, allocator).get(), session.GetInputTypeInfo(i)));
    }
    for (size_t i = 0; i < session.GetOutputCount(); ++i) {
      outputs.push_back(Describe(session.GetOutputNameAllocated(i, allocator).get(),
                                 session.GetOutputTypeInfo(i)));
    }
    for (const ValueDescription& input : inputs) input_names.push_back(input.name.c_str());
    for (const ValueDescription& output : outputs) output_names.push_back(output.name.c_str());
  }
};

Session::Session(const std::filesystem::path& model, const SessionOptions& options) : Session() {
  CheckReadable(model);
  WithContext(PathText(model), [&] {
    impl_->Load(
        options, [&] { return graph::Model::Load(model); },
        [&](const Ort::Env& env, const Ort::SessionOptions& ort_options) {
          return Ort::Session(env, model.c_str(), ort_options);
        });
  });
}

Session::Session() {
  // Without ONNX Runtime there would be nothing that could release Impl's members.
  OrtEnv();
  impl_ = std::make_unique<Impl>();
}

Session Session::FromModel(const graph::Model& model, const SessionOptions& options) {
  Session result;
  Impl& impl = *result.impl_;
  impl.detached = model.Detach();
  impl.Load(
      options, [&] { return model.Clone(); },
      [&](const Ort::Env& env, Ort::SessionOptions& ort_options) {
        impl.AddConstants(ort_options);
        const std::string& message = impl.detached.message;
        return Ort::Session(env, message.data(), message.size(), ort_options);
      });
  impl.detached.message = {};
  // Kernels that arrange weights anew have done so. The others read the pages again.
  for (const auto& [name, data] : impl.detached.initializers) data.Release();
  return result;
}

Session Session::FromMemory(std::string_view model_bytes, const SessionOptions& options) {
  Session result;
  result.impl_->Load(
      options,
      [&] {
        const fs::path& folder = options.external_data_folder;
        return graph::Model::Parse(model_bytes, folder.empty() ? "." : folder);
      },
      [&](const Ort::Env& env, const Ort::SessionOptions& ort_options) {
        return Ort::Session(env, model_bytes.data(), model_bytes.size(), ort_options);
      });
  return result;
}

Session::~Session() = default;
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;

const std::vector<ValueDescription>& Session::inputs() const { return impl_->inputs; }
const std::vector<ValueDescription>& Session::outputs() const { return impl_->outputs; }

std::vector<Tensor> Session::Run(const std::vector<Tensor>& inputs) {
  Impl& impl = *impl_;
  if (inputs.size() != impl.inputs.size()) {
    Fail(ErrorCode::kInvalidArgument, "the model has {} inputs, but {} were given",
         impl.inputs.size(), inputs.size());
  }
  std::deque<Tensor> empty;
  std::vector<const Tensor*> taken;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const ValueDescription& wanted = impl.inputs[i];
    const bool may_change = inputs[i].bytes.empty() && inputs[i].num_elements() == 0 &&
                            inputs[i].type != wanted.type &&
                            inputs[i].dims.size() == wanted.dims.size();
    taken.push_back(may_change ? &empty.emplace_back(EmptyAs(inputs[i], wanted)) : &inputs[i]);
    CheckInput(wanted, *taken.back());
  }
  try {
    // An empty vector has no address, but ONNX Runtime wants one.
    static constexpr std::byte kNothing{};
    std::vector<Ort::Value> values;
    for (const Tensor* const input : taken) {
      // ONNX Runtime takes void* and does not write to inputs.
      void* const data =
          const_cast<std::byte*>(input->bytes.empty() ? &kNothing : input->bytes.data());
      values.push_back(Ort::Value::CreateTensor(impl.memory, data, input->bytes.size(),
                                                input->dims.data(), input->dims.size(),
                                                ToOrtType(input->type)));
    }
    const std::vector<Ort::Value> results =
        impl.session.Run(Ort::RunOptions(), impl.input_names.data(), values.data(), values.size(),
                         impl.output_names.data(), impl.output_names.size());
    std::vector<Tensor> outputs;
    for (const Ort::Value& result : results) outputs.push_back(CopyOutput(result));
    return outputs;
  } catch (const Ort::Exception& error) {
    Fail(ErrorCode::kRuntime, "ONNX Runtime cannot run the model: {}", CleanMessage(error));
  }
}

std::filesystem::path Session::EndProfile() {
  try {
    Ort::AllocatorWithDefaultOptions allocator;
    return impl_->session.EndProfilingAllocated(allocator).get();
  } catch (const Ort::Exception& error) {
    Fail(ErrorCode::kRuntime, "ONNX Runtime cannot write its profile: {}", CleanMessage(error));
  }
}

}  // namespace bitpress::runtime
