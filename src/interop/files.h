// The JSON files of other tools, read into decisions and written. decisions.h has the interface.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/format_spec.h"
#include "interop/decisions.h"

namespace bitpress::interop {

// Returns our name of an integer type, such as "int8". Throws Error(kUnsupported) if there is none.
std::string IntegerName(int64_t bits, bool is_signed);
// Returns the row of a format in the table of formats, null if it has none of that name.
const formats::FormatSpec* RowOf(std::string_view format);
// Returns the bits of an integer format, and whether it is signed; nothing for other formats.
struct IntegerBits {
  int64_t bits = 0;
  bool is_signed = false;

  // Returns the code of zero if the codes are symmetric.
  int64_t middle() const { return is_signed ? 0 : int64_t{1} << (bits - 1); }
};
std::optional<IntegerBits> IntegerBitsOf(const std::string& format);

// Returns the scales of blocks that are multiples of those of channels (LPBQ). Empty if the largest
// multiple of a channel is not 16, as it is in weights of ours, or if the sizes do not fit.
std::vector<formats::QParams> ParamsOfMultiples(const Decision::Multiples& multiples);

// AIMET's encodings.
bool IsAimet(const nlohmann::json& file);
Decisions FromAimet(const nlohmann::json& file);
nlohmann::ordered_json ToAimet(const Decisions& decisions, FileKind kind,
                               std::vector<std::string>& notes);

// ONNX Runtime's TensorQuantOverrides: a list for each tensor, of an object, or of one for each
// channel.
bool IsOverrides(const nlohmann::json& file);
Decisions FromOverrides(const nlohmann::json& file);
nlohmann::ordered_json ToOverrides(const Decisions& decisions, std::vector<std::string>& notes);

// NNCF's IgnoredScope, alone or as "ignored_scope" of a configuration of OpenVINO's tools.
bool IsIgnoredScope(const nlohmann::json& file);
Decisions FromIgnoredScope(const nlohmann::json& file);
nlohmann::ordered_json ToIgnoredScope(const Decisions& decisions, std::vector<std::string>& notes);

// The QuantConfig of ONNX Runtime GenAI's model builder, alone or as "quantization" or
// "target_options" of its configuration.
bool IsGenai(const nlohmann::json& file);
Decisions FromGenai(const nlohmann::json& file);
nlohmann::ordered_json ToGenai(const Decisions& decisions, std::vector<std::string>& notes);

// The dictionary of AMD Quark's QConfig.
bool IsQuark(const nlohmann::json& file);
Decisions FromQuark(const nlohmann::json& file);
nlohmann::ordered_json ToQuark(const Decisions& decisions, std::vector<std::string>& notes);

}  // namespace bitpress::interop
