#include "interop/decisions.h"

#include <algorithm>
#include <map>
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

namespace {

// The JSON files that are read, the ones with the most telling keys first.
struct JsonKind {
  bool (*is_one)(const nlohmann::json& file);
  Decisions (*read)(const nlohmann::json& file);
  std::string_view about;
};
constexpr JsonKind kJsonKinds[] = {
    {IsAimet, FromAimet, "encodings of AIMET (param_encodings, activation_encodings or encodings)"},
    {IsQuark, FromQuark, "a configuration of AMD Quark (global_config)"},
    {IsGenai, FromGenai, "one of ONNX Runtime GenAI (weights, moe, io_dtype)"},
    {IsIgnoredScope, FromIgnoredScope, "an ignored scope of NNCF (names, patterns, types)"},
    {IsOverrides, FromOverrides,
     "ONNX Runtime's TensorQuantOverrides (a list of objects for each tensor)"}};

}  // namespace

Decisions ReadDecisions(const std::filesystem::path& path) {
  if (path.extension() == ".onnx") {
    Decisions decisions = DecisionsOf(graph::Model::Load(path));
    if (!decisions.tensors.empty()) return decisions;
    Fail(ErrorCode::kInvalidArgument, "'{}' holds no quantizers whose decisions could be read{}{}",
         PathText(path), decisions.notes.empty() ? "" : ": ", fmt::join(decisions.notes, "; "));
  }
  return WithContext(fmt::format("'{}'", PathText(path)), [&] {
    const nlohmann::json file = plan::ParseJson(ReadFile(path));
    std::vector<std::string_view> abouts;
    for (const JsonKind& kind : kJsonKinds) {
      abouts.push_back(kind.about);
      if (!kind.is_one(file)) continue;
      Decisions decisions = kind.read(file);
      for (const plan::Rule& rule : decisions.rules) plan::CheckRule(rule);
      return decisions;
    }
    Fail(ErrorCode::kInvalidArgument,
         "it is no .onnx file, and holds neither {}: docs/plan.md has the files that are read",
         fmt::join(abouts, ", nor "));
  });
}

namespace {

// Returns the operators that are float: those whose weight is, and of those without a weight the
// ones that read nothing quantized. Neighbours may have quantized what a float operator reads.
std::vector<Decisions::FloatNode> FloatNodesOf(const plan::QuantPlan& plan) {
  struct Reads {
    bool weight = false;
    bool quantized_weight = false;
    bool quantized = false;
  };
  std::vector<Decisions::FloatNode> nodes;
  std::map<std::string, Reads> reads;
  for (const plan::TensorPlan& row : plan.tensors) {
    for (const plan::TensorUse& use : row.uses) {
      const auto [at, is_new] = reads.try_emplace(use.node);
      if (is_new) nodes.push_back({use.node, use.op_type});
      at->second.quantized |= row.is_quantized();
      if (row.role != plan::Role::kWeight) continue;
      at->second.weight = true;
      at->second.quantized_weight |= row.is_quantized();
    }
  }
  for (Decisions::FloatNode& node : nodes) node.has_weight = reads.at(node.name).weight;
  std::erase_if(nodes, [&](const Decisions::FloatNode& node) {
    const Reads& its = reads.at(node.name);
    return its.weight ? its.quantized_weight : its.quantized;
  });
  return nodes;
}

}  // namespace

std::vector<formats::QParams> ParamsOfMultiples(const Decision::Multiples& multiples) {
  constexpr int64_t kMost = 16;
  const auto axis = static_cast<size_t>(multiples.channel_axis);
  const size_t num_channels = multiples.channels.size();
  const bool fits = axis < multiples.dims.size() && num_channels > 0 &&
                    multiples.dims[axis] == static_cast<int64_t>(num_channels) &&
                    NumElements(multiples.dims) == static_cast<int64_t>(multiples.values.size());
  if (!fits) return {};
  const auto stride = static_cast<size_t>(NumElements(std::span(multiples.dims).subspan(axis + 1)));
  std::vector<formats::QParams> params;
  std::vector<int64_t> largest(num_channels);
  for (size_t i = 0; i < multiples.values.size(); ++i) {
    const size_t channel = i / stride % num_channels;
    const int64_t multiple = multiples.values[i];
    if (multiple < 1 || multiple > kMost) return {};
    largest[channel] = std::max(largest[channel], multiple);
    params.push_back({static_cast<float>(multiple) * multiples.channels[channel], 0});
  }
  return std::ranges::all_of(largest, [](int64_t of_channel) { return of_channel == kMost; })
             ? params
             : std::vector<formats::QParams>();
}

Decisions DecisionsOf(const plan::QuantPlan& plan) {
  Decisions decisions;
  decisions.float_nodes = FloatNodesOf(plan);
  decisions.request = plan.config;
  decisions.request.equalize = plan.rewrites.equalization.has_value();
  if (plan.rewrites.equalization) decisions.request.equalization = *plan.rewrites.equalization;
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
      decision.is_dynamic = row.is_dynamic();
      decision.range = row.integer->range;
      decision.scale_kind = row.integer->scale_kind;
      if (row.integer->params) decision.params = {*row.integer->params};
      const auto shared =
          std::ranges::find(plan.tensors, row.integer->shares, &plan::TensorPlan::value);
      if (!row.integer->shares.empty() && shared != plan.tensors.end() && shared->integer) {
        decision.range = shared->integer->range;
        if (shared->integer->params) decision.params = {*shared->integer->params};
      }
      if (!row.integer->channel_params.empty()) decision.params = row.integer->channel_params;
    }
    decisions.tensors.push_back(std::move(decision));
  }
  return decisions;
}

std::string Write(const Decisions& decisions, FileKind kind, std::vector<std::string>& notes) {
  const auto file = [&]() -> nlohmann::ordered_json {
    switch (kind) {
      case FileKind::kOverrides:
        return ToOverrides(decisions, notes);
      case FileKind::kNncf:
        return ToIgnoredScope(decisions, notes);
      case FileKind::kGenai:
        return ToGenai(decisions, notes);
      case FileKind::kQuark:
        return ToQuark(decisions, notes);
      default:
        return ToAimet(decisions, kind, notes);
    }
  };
  return file().dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace bitpress::interop
