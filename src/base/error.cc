#include "base/error.h"

namespace bitpress {

std::string_view ErrorCodeName(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
      return "invalid_argument";
    case ErrorCode::kInvalidModel:
      return "invalid_model";
    case ErrorCode::kUnsupported:
      return "unsupported";
    case ErrorCode::kIo:
      return "io";
    case ErrorCode::kRuntime:
      return "runtime";
  }
  return "unknown";
}

}  // namespace bitpress
