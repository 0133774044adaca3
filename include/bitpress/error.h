// The one exception type of Bitpress. The message says what is wrong, where, what was expected and
// what to do.
#pragma once

#include <stdexcept>
#include <string>

#include "bitpress/export.h"

namespace bitpress {

enum class ErrorCode {
  kInvalidArgument,  // the caller asked for something that cannot be (option, name, shape)
  kInvalidModel,     // the model file is damaged or breaks the ONNX rules
  kUnsupported,      // the input is valid, and Bitpress cannot do it
  kIo,               // a failure of a file or a disk
  kRuntime,          // a failure of ONNX Runtime or of the system
};

class BITPRESS_API Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message);
  Error(const Error&);
  Error& operator=(const Error&);
  ~Error() override;
  ErrorCode code() const { return code_; }

 private:
  ErrorCode code_;
};

}  // namespace bitpress
