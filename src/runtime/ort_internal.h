// ONNX Runtime's C++ API for the files of this room. Including it does not open the library; the
// first call to OrtEnv does.
#pragma once

#include <onnxruntime_cxx_api.h>

#include "base/error.h"
#include "base/tensor.h"

namespace bitpress::runtime {

// The one environment of the process; opens the library. It lives until the program ends: sessions
// and custom operators refer to it from threads whose end we do not see. Throws as OrtVersion.
const Ort::Env& OrtEnv();

// ONNX Runtime's numbers of element types are ONNX's only up to 23; the newest three differ.
ONNXTensorElementDataType ToOrtType(DataType type);
DataType FromOrtType(ONNXTensorElementDataType type);  // kUndefined for a number not known here

// The error of a failed load: missing files are kIo, unreadable ones kInvalidModel, all else
// kRuntime. The message is ONNX Runtime's without its source positions.
Error LoadError(const Ort::Exception& error);
std::string CleanMessage(const Ort::Exception& error);

}  // namespace bitpress::runtime
