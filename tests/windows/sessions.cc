// sessions ONNXRUNTIME LIBRARY MODEL FOLDER THREADS SESSIONS RUNS: runs a model in ONNX Runtime,
// with an operator library ("-": none), in so many sessions at the same time with so many threads
// each. It knows nothing of Bitpress, and runs on Windows and on Linux.
//
// FOLDER/inputs.txt has a line for each input, NAME TYPE BYTES DIMENSION..., and FOLDER/inputs.bin
// their bytes one after another. The outputs are written in the same way. Every run of every
// session must give the same bytes. It prints the shortest run in ms.
#include <onnxruntime_cxx_api.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#ifdef _WIN32
#include <windows.h>
#else
#include <dlfcn.h>
#endif

namespace {

std::filesystem::path ToPath(const std::string& text) {
  return std::u8string(text.begin(), text.end());
}

#ifdef _WIN32
const OrtApiBase* OpenOnnxRuntime(const std::string& path) {
  const HMODULE library = LoadLibraryW(ToPath(path).c_str());
  if (library == nullptr)
    throw std::runtime_error("cannot load " + path + ": error " + std::to_string(GetLastError()));
  return reinterpret_cast<decltype(&OrtGetApiBase)>(
      reinterpret_cast<void*>(GetProcAddress(library, "OrtGetApiBase")))();
}
#else
const OrtApiBase* OpenOnnxRuntime(const std::string& path) {
  void* library = dlopen(path.c_str(), RTLD_NOW);
  if (library == nullptr) throw std::runtime_error(dlerror());
  return reinterpret_cast<decltype(&OrtGetApiBase)>(dlsym(library, "OrtGetApiBase"))();
}
#endif

struct Tensor {
  std::string name;
  int type = 0;
  std::vector<char> bytes;
  std::vector<int64_t> shape;

  bool operator==(const Tensor&) const = default;
};

std::vector<Tensor> ReadTensors(const std::string& folder) {
  std::ifstream list(ToPath(folder + "/inputs.txt")),
      data(ToPath(folder + "/inputs.bin"), std::ios::binary);
  std::vector<Tensor> tensors;
  for (std::string line; std::getline(list, line);) {
    std::istringstream words(line);
    Tensor tensor;
    size_t size = 0;
    words >> tensor.name >> tensor.type >> size;
    for (int64_t dimension = 0; words >> dimension;) tensor.shape.push_back(dimension);
    tensor.bytes.resize(size);
    data.read(tensor.bytes.data(), static_cast<std::streamsize>(size));
    if (!data) throw std::runtime_error(folder + "/inputs.bin is too short");
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

void WriteTensors(const std::string& folder, const std::vector<Tensor>& tensors) {
  std::ofstream list(ToPath(folder + "/outputs.txt")),
      data(ToPath(folder + "/outputs.bin"), std::ios::binary);
  for (const Tensor& tensor : tensors) {
    list << tensor.name << ' ' << tensor.type << ' ' << tensor.bytes.size();
    for (int64_t dimension : tensor.shape) list << ' ' << dimension;
    list << '\n';
    data.write(tensor.bytes.data(), static_cast<std::streamsize>(tensor.bytes.size()));
  }
  if (!list || !data) throw std::runtime_error("cannot write the outputs");
}

size_t ElementSize(ONNXTensorElementDataType type) {
  switch (type) {
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT:
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32:
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT32:
      return 4;
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16:
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16:
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_INT16:
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT16:
      return 2;
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64:
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT64:
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE:
      return 8;
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_INT8:
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8:
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_BOOL:
      return 1;
    default:
      throw std::runtime_error("an output has element type " + std::to_string(type));
  }
}

std::vector<Tensor> RunOnce(Ort::Session& session, std::vector<Tensor>& inputs) {
  const Ort::MemoryInfo memory = Ort::MemoryInfo::CreateCpu(OrtDeviceAllocator, OrtMemTypeDefault);
  Ort::AllocatorWithDefaultOptions allocator;
  std::vector<const char*> input_names, output_names;
  std::vector<Ort::Value> values;
  for (Tensor& input : inputs) {
    input_names.push_back(input.name.c_str());
    values.push_back(Ort::Value::CreateTensor(memory, input.bytes.data(), input.bytes.size(),
                                              input.shape.data(), input.shape.size(),
                                              static_cast<ONNXTensorElementDataType>(input.type)));
  }
  std::vector<Ort::AllocatedStringPtr> names;
  for (size_t i = 0; i < session.GetOutputCount(); ++i) {
    names.push_back(session.GetOutputNameAllocated(i, allocator));
    output_names.push_back(names.back().get());
  }
  const std::vector<Ort::Value> found =
      session.Run({}, input_names.data(), values.data(), values.size(), output_names.data(),
                  output_names.size());
  std::vector<Tensor> outputs;
  for (size_t i = 0; i < found.size(); ++i) {
    const Ort::TensorTypeAndShapeInfo info = found[i].GetTensorTypeAndShapeInfo();
    const size_t size = info.GetElementCount() * ElementSize(info.GetElementType());
    const char* bytes = static_cast<const char*>(found[i].GetTensorRawData());
    outputs.push_back({output_names[i],
                       static_cast<int>(info.GetElementType()),
                       {bytes, bytes + size},
                       info.GetShape()});
  }
  return outputs;
}

struct Result {
  std::vector<Tensor> outputs;
  double best_ms = 1e300;
  std::string error;
};

void RunSession(Ort::Env& env, char** argv, std::vector<Tensor> inputs, Result& result) try {
  Ort::SessionOptions options;
  options.SetIntraOpNumThreads(std::stoi(argv[5]));
  options.SetLogSeverityLevel(3);
  if (std::string(argv[2]) != "-") options.RegisterCustomOpsLibrary(ToPath(argv[2]).c_str());
  Ort::Session session(env, ToPath(argv[3]).c_str(), options);
  for (int run = 0; run < std::stoi(argv[7]); ++run) {
    const auto start = std::chrono::steady_clock::now();
    std::vector<Tensor> outputs = RunOnce(session, inputs);
    result.best_ms =
        std::min(result.best_ms,
                 std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
                     .count());
    if (run > 0 && outputs != result.outputs)
      throw std::runtime_error("two runs of a session differ");
    result.outputs = std::move(outputs);
  }
} catch (const std::exception& error) {
  result.error = error.what();
}

int Run(char** argv) {
  const OrtApiBase* base = OpenOnnxRuntime(argv[1]);
  Ort::InitApi(base->GetApi(ORT_API_VERSION));
  Ort::Env env(ORT_LOGGING_LEVEL_ERROR, "sessions");
  const std::vector<Tensor> inputs = ReadTensors(argv[4]);
  std::vector<Result> results(static_cast<size_t>(std::stoi(argv[6])));
  std::vector<std::thread> threads;
  for (Result& result : results)
    threads.emplace_back([&] { RunSession(env, argv, inputs, result); });
  for (std::thread& thread : threads) thread.join();
  for (const Result& result : results) {
    if (!result.error.empty()) throw std::runtime_error(result.error);
    if (result.outputs != results[0].outputs) throw std::runtime_error("two sessions differ");
  }
  WriteTensors(argv[4], results[0].outputs);
  std::printf("ONNX Runtime %s, %zu outputs, %.2f ms\n", base->GetVersionString(),
              results[0].outputs.size(), results[0].best_ms);
  return 0;
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc == 8) return Run(argv);
  std::fprintf(stderr, "usage: sessions ONNXRUNTIME LIBRARY MODEL FOLDER THREADS SESSIONS RUNS\n");
  return 2;
} catch (const std::exception& error) {
  std::fprintf(stderr, "error: %s\n", error.what());
  return 1;
}
