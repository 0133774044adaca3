// The JSON files of targets/ as texts. cmake/EmbedText.cmake embeds them.
#pragma once

#include <string_view>

namespace bitpress::plan {

extern const std::string_view kAutoTarget;
extern const std::string_view kPortableTarget;
extern const std::string_view kOnnxRuntimeTarget;
extern const std::string_view kBitpressTarget;
extern const std::string_view kGenAiTarget;
extern const std::string_view kWebTarget;
extern const std::string_view kTensorRtTarget;
extern const std::string_view kCudaTarget;
extern const std::string_view kOpenVinoTarget;
extern const std::string_view kQnnTarget;
extern const std::string_view kRyzenAiTarget;
extern const std::string_view kDirectMlTarget;

}  // namespace bitpress::plan
