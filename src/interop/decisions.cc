#include "interop/decisions.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/paths.h"
#include "interop/files.h"
#include "plan/strict_json.h"

namespace bitpress::interop {

std::string IntegerName(int64_t bits, bool is_signed) {
  const std::string name = fmt::format("{}int{}", is_signed ? "" : "u", bits);
  if (!IntegerBitsOf(name)) {
    Fail(ErrorCode::kUnsupported, "integers of {} bits are no format here", bits);
  }
  return name;
}

const formats::FormatSpec* RowOf(std::string_view format) {
  const std::span<const formats::FormatSpec> rows = formats::AllFormats();
  const auto row = std::ranges::find(rows, format, &formats::FormatSpec::name);
  return row == rows.end() ? nullptr : &*row;
}

std::optional<IntegerBits> IntegerBitsOf(const std::string& format) {
  const formats::FormatSpec* const row = RowOf(format);
  if (row == nullptr || !row->is_integer()) return std::nullopt;
  return IntegerBits{row->element_bits, formats::IntegerRange(row->element_type).quant_min < 0};
}

Decisions ReadDecisions(const std::filesystem::path& path) {
  if (path.extension() == ".onnx") {
    Decisions decisions = DecisionsOf(graph::Model::Load(path));
    if (!decisions.tensors.empty()) return decisions;
    Fail(ErrorCode::kInvalidArgument, "'{}' holds no quantizers whose decisions could be read{}{}",
         PathText(path), decisions.notes.empty() ? "" : ": ", fmt::join(decisions.notes, "; "));
  }
  return WithContext(fmt::format("'{}'", PathText(path)), [&] {
    const nlohmann::json file = plan::ParseJson(ReadFile(path));
    if (IsAimet(file)) return FromAimet(file);
    if (IsOverrides(file)) return FromOverrides(file);
    Fail(ErrorCode::kInvalidArgument,
         "it holds neither encodings of AIMET (param_encodings, activation_encodings or encodings) "
         "nor ONNX Runtime's TensorQuantOverrides (a list of objects for each tensor), and is no "
         ".onnx file");
  });
}

Decisions DecisionsOf(const plan::QuantPlan& plan) {
  Decisions decisions;
  for (const plan::TensorPlan& row : plan.tensors) {
    if (!row.is_quantized()) continue;
    Decision decision{.value = row.value,
                      .uses = row.uses,
                      .is_constant = row.role != plan::Role::kActivation,
                      .format = row.format,
                      .axis = row.axis};
    if (row.integer) {
      decision.granularity = row.integer->granularity;
      decision.block_size = row.integer->block_size;
      decision.is_symmetric = row.integer->is_symmetric;
      if (row.integer->params) decision.params = {*row.integer->params};
      const auto shared =
          std::ranges::find(plan.tensors, row.integer->shares, &plan::TensorPlan::value);
      if (!row.integer->shares.empty() && shared != plan.tensors.end() && shared->integer &&
          shared->integer->params) {
        decision.params = {*shared->integer->params};
      }
      if (!row.integer->channel_params.empty()) decision.params = row.integer->channel_params;
    }
    decisions.tensors.push_back(std::move(decision));
  }
  return decisions;
}

std::string Write(const Decisions& decisions, FileKind kind, std::vector<std::string>& notes) {
  const nlohmann::ordered_json file = kind == FileKind::kOverrides
                                          ? ToOverrides(decisions, notes)
                                          : ToAimet(decisions, kind, notes);
  return file.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace bitpress::interop
