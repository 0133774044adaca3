// ONNX Runtime's C++ API for the files of this room. Including this header does not open the
// library. The first call to OrtEnv does.
#pragma once

#include <onnxruntime_cxx_api.h>

#include "base/error.h"
#include "base/tensor.h"

namespace bitpress::runtime {

// Returns the one environment of the process, and opens the library for it. It lives until the
// program ends, because sessions and custom operators refer to it from threads whose end we do not
// see. Throws as OrtVersion.
const Ort::Env& OrtEnv();

// Translate element types. ONNX Runtime's numbers are ONNX's only up to 23; the newest three
// differ.
ONNXTensorElementDataType ToOrtType(DataType type);
DataType FromOrtType(ONNXTensorElementDataType type);  // kUndefined for an unknown number

// Returns the error of a failed load: missing files are kIo, unreadable ones kInvalidModel, all
// else kRuntime. The message is ONNX Runtime's without its source positions.
Error LoadError(const Ort::Exception& error);
// Returns ONNX Runtime's message without its source positions.
std::string CleanMessage(const Ort::Exception& error);

}  // namespace bitpress::runtime
