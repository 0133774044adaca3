// AIMET's encodings, versions 0.6.1, 1.0.0, 2.0.0 and 2.1.0, which has LPBQ in the words of a
// DequantizeLinear. The first two count the codes of signed types as unsigned ones: value = (code +
// offset) * scale with codes from 0 on.
#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <set>
#include <span>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "formats/format_spec.h"
#include "interop/files.h"
#include "plan/strict_json.h"

namespace bitpress::interop {
namespace {

using formats::QParams;
using nlohmann::json;
using nlohmann::ordered_json;
using plan::Granularity;
using plan::ObjectReader;

// Returns whether the version has the words of QuantizeLinear.
bool IsSecond(FileKind kind) { return kind == FileKind::kAimet200 || kind == FileKind::kAimet210; }

// Appends a note for each key of an object that is none of those which are read.
void NoteUnread(const json& object, std::initializer_list<const char*> known,
                const std::string& where, std::vector<std::string>& notes) {
  const std::vector<std::string> names(known.begin(), known.end());
  for (const auto& [key, value] : object.items()) {
    if (std::ranges::find(names, key) != names.end()) continue;
    notes.push_back(fmt::format("{}'{}' is left out{}", where, key, DidYouMean(key, names)));
  }
}

// Returns whether a type of numbers is one of floats. Throws if it is none of integers either.
bool IsFloat(const std::string& dtype) {
  const std::string word = ToLower(dtype);
  if (word != "int" && word != "float") {
    Fail(ErrorCode::kInvalidArgument, "dtype '{}' is neither INT nor FLOAT", dtype);
  }
  return word == "float";
}

// Returns the zero point that an offset means, which must be a whole number.
int64_t ZeroPoint(double offset, IntegerBits type) {
  if (offset != std::round(offset) || std::abs(offset) > 0x1p53) {
    Fail(ErrorCode::kUnsupported, "offset {}: codes have whole zero points", offset);
  }
  return -static_cast<int64_t>(offset) - (type.is_signed ? int64_t{1} << (type.bits - 1) : 0);
}

// Returns the offset of a zero point.
double OffsetOf(int64_t zero_point, IntegerBits type) {
  const auto half = type.is_signed ? std::ldexp(1.0, static_cast<int>(type.bits) - 1) : 0.0;
  return -static_cast<double>(zero_point) - half;
}

// Returns the format of floats of so many bits; 32 bits are no quantization.
std::string FloatName(int64_t bits) {
  if (bits == 32) return "none";
  if (bits == 16) return "fp16";
  Fail(ErrorCode::kUnsupported, "floats of {} bits are no format here: 16 or 32", bits);
}

void SetParams(const std::vector<double>& scales, const std::vector<int64_t>& zero_points,
               Decision& decision) {
  if (scales.size() != zero_points.size()) {
    Fail(ErrorCode::kInvalidArgument, "it has {} scales and {} zero points", scales.size(),
         zero_points.size());
  }
  for (size_t i = 0; i < scales.size(); ++i) {
    decision.params.push_back({static_cast<float>(scales[i]), zero_points[i]});
  }
}

// Returns zero points as integers.
std::vector<int64_t> WholeNumbers(const std::vector<double>& values) {
  std::vector<int64_t> whole;
  for (const double value : values) {
    if (value != std::round(value) || std::abs(value) > 0x1p53) {
      Fail(ErrorCode::kInvalidArgument, "zero point {} is no whole number", value);
    }
    whole.push_back(static_cast<int64_t>(value));
  }
  return whole;
}

// Reads a tensor of version 0.6.1: a list with an object for each channel, or one.
Decision FromList(const std::string& name, const json& list, std::vector<std::string>& notes) {
  Decision decision{.value = name};
  if (!list.is_array() || list.empty()) {
    Fail(ErrorCode::kInvalidArgument, "its value is no list of encodings");
  }
  std::vector<double> scales;
  std::vector<int64_t> zero_points;
  NoteUnread(list[0], {"bitwidth", "dtype", "is_symmetric", "max", "min", "offset", "scale"},
             fmt::format("'{}': ", name), notes);
  for (const json& item : list) {
    ObjectReader reader(item, "encoding");
    const int64_t bits = reader.Int("bitwidth");
    if (reader.Has("dtype") && IsFloat(reader.String("dtype"))) {
      decision.format = FloatName(bits);
      return decision;
    }
    const std::string symmetric = ToLower(reader.Text("is_symmetric"));
    if (symmetric != "true" && symmetric != "false") {
      Fail(ErrorCode::kInvalidArgument, "is_symmetric is '{}', expected True or False",
           reader.Text("is_symmetric"));
    }
    decision.is_symmetric = symmetric == "true";
    const IntegerBits type{bits, decision.is_symmetric};
    decision.format = IntegerName(type.bits, type.is_signed);
    scales.push_back(reader.Number("scale"));
    zero_points.push_back(ZeroPoint(reader.Number("offset"), type));
  }
  if (list.size() > 1) decision.granularity = Granularity::kPerAxis;
  SetParams(scales, zero_points, decision);
  return decision;
}

// Reads a tensor of version 1.0.0.
Decision FromEncoding(const json& item, std::vector<std::string>& notes) {
  ObjectReader reader(item, "encoding");
  Decision decision{.value = reader.String("name")};
  NoteUnread(item,
             {"name", "enc_type", "dtype", "bw", "is_sym", "scale", "offset", "block_size",
              "compressed_bw", "per_block_int_scale"},
             fmt::format("'{}': ", decision.value), notes);
  const int64_t bits = reader.Int("bw");
  if (IsFloat(reader.String("dtype"))) {
    decision.format = FloatName(bits);
    return decision;
  }
  const IntegerBits type{bits, reader.Bool("is_sym")};
  decision.is_symmetric = type.is_signed;
  decision.format = IntegerName(type.bits, type.is_signed);
  const std::string kind = reader.String("enc_type");
  constexpr std::string_view kKinds[] = {"PER_TENSOR", "PER_CHANNEL", "PER_BLOCK", "LPBQ"};
  if (std::ranges::find(kKinds, kind) == std::end(kKinds)) {
    Fail(ErrorCode::kInvalidArgument, "enc_type '{}' is not one of {}", kind,
         fmt::join(kKinds, ", "));
  }
  if (kind == "PER_CHANNEL") {
    decision.granularity = Granularity::kPerAxis;
  } else if (kind != "PER_TENSOR") {
    decision.granularity = Granularity::kPerBlock;
    decision.block_size = reader.Int("block_size");
    if (kind == "LPBQ") {
      decision.scale_kind = formats::ScaleKind::kLpbq;
      // "bw" are the bits of codes times multiples.
      if (reader.Has("compressed_bw"))
        decision.format = IntegerName(reader.Int("compressed_bw"), type.is_signed);
    }
    notes.push_back(
        fmt::format("'{}': the scales of its blocks ({}) are chosen anew", decision.value, kind));
    return decision;
  }
  std::vector<int64_t> zero_points;
  for (const double offset : reader.Numbers("offset")) {
    zero_points.push_back(ZeroPoint(offset, type));
  }
  SetParams(reader.Numbers("scale"), zero_points, decision);
  if (kind == "PER_TENSOR" && decision.params.size() != 1) {
    Fail(ErrorCode::kInvalidArgument, "enc_type PER_TENSOR has one scale, not {}",
         decision.params.size());
  }
  return decision;
}

// Numbers in lists of lists, in row-major order.
struct Array {
  std::vector<int64_t> dims;
  std::vector<double> values;
};

// Reads an array from `list`. Throws Error(kInvalidArgument) if it is none.
void ReadInto(const json& list, size_t depth, Array& array) {
  constexpr size_t kMostDims = 8;
  if (list.is_number()) {
    if (depth != array.dims.size()) Fail(ErrorCode::kInvalidArgument, "lists of different lengths");
    array.values.push_back(list.get<double>());
    return;
  }
  if (!list.is_array() || depth == kMostDims) {
    Fail(ErrorCode::kInvalidArgument, "the scales of its blocks are no numbers in lists");
  }
  const auto length = static_cast<int64_t>(list.size());
  if (array.values.empty() && depth == array.dims.size()) array.dims.push_back(length);
  if (depth >= array.dims.size() || array.dims[depth] != length) {
    Fail(ErrorCode::kInvalidArgument, "lists of different lengths");
  }
  for (const json& item : list) ReadInto(item, depth + 1, array);
}

Array ArrayOf(const json& list) {
  Array array;
  ReadInto(list, 0, array);
  return array;
}

// Reads scales of blocks that are whole multiples of those of channels. There are none if the
// multiples are not ours.
void ReadMultiples(const json& item, Decision& decision) {
  Decision::Multiples multiples;
  const bool is_nested = item.contains("y_scale");
  const json& scale = is_nested ? item["y_scale"] : item;
  const char* const channels_key = is_nested ? "x_scale" : "per_channel_float_scale";
  const char* const values_key = is_nested ? "x" : "per_block_int_scale";
  if (!scale.contains(channels_key) || !scale.contains(values_key)) return;
  const Array channels = ArrayOf(scale[channels_key]), values = ArrayOf(scale[values_key]);
  for (const double value : channels.values)
    multiples.channels.push_back(static_cast<float>(value));
  for (const double value : values.values) {
    const bool is_multiple = value == std::round(value) && value >= 1 && value <= 16;
    multiples.values.push_back(is_multiple ? static_cast<int64_t>(value) : 0);
  }
  multiples.dims = values.dims;
  // The channels' axis is stated, or it is the one along which there are several scales.
  const auto longest = std::ranges::max_element(channels.dims);
  multiples.channel_axis = is_nested && scale.contains("axis") && scale["axis"].is_number_integer()
                               ? scale["axis"].get<int64_t>()
                               : longest - channels.dims.begin();
  if (multiples.channel_axis < 0) multiples.channel_axis += std::ssize(multiples.dims);
  decision.params = ParamsOfMultiples(multiples);
}

// Reads a tensor of version 2.0.0 or 2.1.0, in the words of QuantizeLinear.
Decision FromQuantizeLinear(const json& item, std::vector<std::string>& notes) {
  ObjectReader reader(item, "encoding");
  Decision decision{.value = reader.String("name"), .format = reader.String("output_dtype")};
  if (decision.format == "float16") decision.format = "fp16";
  if (decision.format == "bfloat16") decision.format = "bf16";
  if (decision.format == "float32") decision.format = "none";
  NoteUnread(item,
             {"name", "output_dtype", "y_scale", "y_zero_point", "axis", "block_size",
              "per_block_int_scale", "per_channel_float_scale"},
             fmt::format("'{}': ", decision.value), notes);
  const std::optional<IntegerBits> type = IntegerBitsOf(decision.format);
  if (!type && decision.format != "none" && RowOf(decision.format) == nullptr) {
    Fail(ErrorCode::kUnsupported, "output_dtype '{}' is no format here", decision.format);
  }
  if (!type) return decision;
  decision.is_symmetric = type->is_signed;
  if (reader.Has("axis")) {
    decision.granularity = Granularity::kPerAxis;
    decision.axis = reader.Int("axis");
  }
  if (reader.Has("block_size") || reader.Has("per_block_int_scale")) {
    decision.granularity = Granularity::kPerBlock;
    decision.block_size = reader.Int("block_size");
    const bool is_lpbq = item.contains("per_block_int_scale") ||
                         (item.contains("y_scale") && item["y_scale"].is_object());
    if (is_lpbq) {
      decision.scale_kind = formats::ScaleKind::kLpbq;
      ReadMultiples(item, decision);
    } else if (item.contains("y_scale")) {
      const std::vector<double> scales = ArrayOf(item["y_scale"]).values;
      std::vector<int64_t> zero_points(scales.size(), 0);
      if (item.contains("y_zero_point")) {
        zero_points = WholeNumbers(ArrayOf(item["y_zero_point"]).values);
        if (zero_points.size() == 1) zero_points.resize(scales.size(), zero_points[0]);
        decision.is_symmetric = std::ranges::all_of(zero_points, [](int64_t z) { return z == 0; });
      }
      SetParams(scales, zero_points, decision);
    }
    if (decision.params.empty()) {
      notes.push_back(
          fmt::format("'{}': the scales of its blocks are chosen anew", decision.value));
    }
    return decision;
  }
  const std::vector<double> scales = reader.Numbers("y_scale");
  std::vector<int64_t> zero_points(scales.size(), 0);
  if (reader.Has("y_zero_point")) {
    zero_points = WholeNumbers(reader.Numbers("y_zero_point"));
    decision.is_symmetric = std::ranges::all_of(zero_points, [](int64_t z) { return z == 0; });
  }
  SetParams(scales, zero_points, decision);
  return decision;
}

// Reads the encodings under a key: an object of names, or a list of objects with names.
void ReadAll(const json& all, bool is_constant, bool is_second, Decisions& decisions) {
  if (!all.is_object() && !all.is_array()) {
    Fail(ErrorCode::kInvalidArgument, "its encodings are neither an object nor a list");
  }
  size_t number = 0;
  std::set<std::string> names;
  const auto add = [&](const std::string& name, const auto& read) {
    const std::string where =
        name.empty() ? fmt::format("encoding {}", number) : fmt::format("tensor '{}'", name);
    ++number;
    if (!name.empty() && !names.insert(name).second) {
      decisions.notes.push_back(
          fmt::format("'{}' has several encodings, and the last one counts", name));
    }
    WithContext(where, [&] {
      decisions.tensors.push_back(read());
      decisions.tensors.back().is_constant = is_constant;
    });
  };
  if (all.is_object()) {
    for (const auto& [name, list] : all.items()) {
      add(name, [&] { return FromList(name, list, decisions.notes); });
    }
    return;
  }
  for (const json& item : all) {
    const bool has_name = item.is_object() && item.contains("name") && item["name"].is_string();
    const std::string name = has_name ? item["name"].get<std::string>() : "";
    add(name, [&] {
      return is_second ? FromQuantizeLinear(item, decisions.notes)
                       : FromEncoding(item, decisions.notes);
    });
  }
}

ordered_json Channels(const Decision& decision, const auto& of) {
  ordered_json values = ordered_json::array();
  for (const QParams& params : decision.params) values.push_back(of(params));
  return values;
}

ordered_json ListOf(const Decision& decision, IntegerBits type) {
  ordered_json list = ordered_json::array();
  for (const QParams& params : decision.params) {
    const double offset = OffsetOf(params.zero_point, type);
    const double last = std::ldexp(1.0, static_cast<int>(type.bits)) - 1;
    list.push_back({{"bitwidth", type.bits},
                    {"dtype", "int"},
                    {"is_symmetric", type.is_signed ? "True" : "False"},
                    {"max", (offset + last) * params.scale},
                    {"min", offset * params.scale},
                    {"offset", static_cast<int64_t>(offset)},
                    {"scale", params.scale}});
  }
  return list;
}

ordered_json EncodingOf(const Decision& decision, IntegerBits type) {
  const bool is_one = decision.granularity == Granularity::kPerTensor;
  return {{"name", decision.value},
          {"enc_type", is_one ? "PER_TENSOR" : "PER_CHANNEL"},
          {"dtype", "INT"},
          {"bw", type.bits},
          {"is_sym", type.is_signed},
          {"scale", Channels(decision, [](const QParams& of) { return of.scale; })},
          {"offset",
           Channels(decision, [&](const QParams& of) { return OffsetOf(of.zero_point, type); })}};
}

ordered_json QuantizeLinearOf(const Decision& decision) {
  ordered_json scales = Channels(decision, [](const QParams& of) { return of.scale; });
  ordered_json zeros = Channels(decision, [](const QParams& of) { return of.zero_point; });
  const bool is_one = decision.granularity == Granularity::kPerTensor;
  ordered_json item = {{"name", decision.value},
                       {"output_dtype", decision.format},
                       {"y_scale", is_one ? scales[0] : scales}};
  const auto is_zero = [](const QParams& of) { return of.zero_point == 0; };
  if (!std::ranges::all_of(decision.params, is_zero)) {
    item["y_zero_point"] = is_one ? zeros[0] : zeros;
  }
  if (!is_one && decision.axis) item["axis"] = *decision.axis;
  return item;
}

// Returns numbers in lists of lists, as an array of these dimensions prints.
template <typename T>
ordered_json Nested(std::span<const T> values, std::span<const int64_t> dims) {
  ordered_json list = ordered_json::array();
  if (dims.size() < 2) {
    for (const T value : values) list.push_back(value);
    return list;
  }
  const size_t length = values.size() / static_cast<size_t>(dims[0]);
  for (int64_t i = 0; i < dims[0]; ++i) {
    list.push_back(
        Nested(values.subspan(static_cast<size_t>(i) * length, length), dims.subspan(1)));
  }
  return list;
}

// Returns what versions 2.0.0 and 2.1.0 say of scales that are multiples of those of channels.
ordered_json LpbqOf(const Decision& decision, FileKind kind) {
  const Decision::Multiples& given = *decision.multiples;
  ordered_json item = {{"name", decision.value}, {"output_dtype", decision.format}};
  const ordered_json multiples = Nested(std::span(given.values), given.dims);
  if (kind == FileKind::kAimet210) {
    item["y_scale"] = {{"x", multiples}, {"x_scale", given.channels}, {"axis", given.channel_axis}};
  } else {
    std::vector<int64_t> dims(given.dims.size(), 1);
    dims[static_cast<size_t>(given.channel_axis)] = static_cast<int64_t>(given.channels.size());
    item["per_channel_float_scale"] = Nested(std::span(given.channels), dims);
    item["per_block_int_scale"] = multiples;
  }
  item["axis"] = decision.axis.value_or(1);
  item["block_size"] = decision.block_size;
  return item;
}

// Returns why the file cannot say a decision; "" if it can.
std::string WhyNot(const Decision& decision, FileKind kind) {
  if (!IntegerBitsOf(decision.format)) return fmt::format("format {}", decision.format);
  if (decision.multiples) {
    if (!IsSecond(kind)) return "scales that are multiples of others (LPBQ): aimet-2.0.0 has them";
    const Decision::Multiples& given = *decision.multiples;
    const int64_t num_positions = NumElements(given.dims) /
                                  given.dims[static_cast<size_t>(given.channel_axis)] /
                                  given.dims[static_cast<size_t>(decision.axis.value_or(1))];
    return num_positions == 1 ? "" : "LPBQ of a kernel with a scale for each of its positions";
  }
  if (decision.params.empty()) return "no scale";
  if (decision.granularity == Granularity::kPerBlock) return "scales of blocks";
  if (IsSecond(kind) && decision.granularity == Granularity::kPerAxis && !decision.axis) {
    return "no axis";
  }
  return "";
}

}  // namespace

bool IsAimet(const json& file) {
  return file.is_object() && (file.contains("param_encodings") ||
                              file.contains("activation_encodings") || file.contains("encodings"));
}

Decisions FromAimet(const json& file) {
  Decisions decisions;
  NoteUnread(file,
             {"version", "encodings", "activation_encodings", "param_encodings", "quantizer_args",
              "producer", "excluded_layers"},
             "", decisions.notes);
  constexpr std::string_view kVersions[] = {"0.6.1", "1.0.0", "2.0.0", "2.1.0"};
  const bool has_version = file.contains("version") && file["version"].is_string();
  if (has_version && std::ranges::find(kVersions, file["version"].get_ref<const std::string&>()) ==
                         std::end(kVersions)) {
    decisions.notes.push_back(fmt::format("version {} is read as one of {}",
                                          file["version"].get_ref<const std::string&>(),
                                          fmt::join(kVersions, ", ")));
  }
  if (file.contains("encodings")) ReadAll(file["encodings"], false, true, decisions);
  if (file.contains("activation_encodings")) {
    ReadAll(file["activation_encodings"], false, false, decisions);
  }
  if (file.contains("param_encodings")) ReadAll(file["param_encodings"], true, false, decisions);
  return decisions;
}

ordered_json ToAimet(const Decisions& decisions, FileKind kind, std::vector<std::string>& notes) {
  const bool is_list = kind != FileKind::kAimet061;
  const ordered_json none = is_list ? ordered_json::array() : ordered_json::object();
  ordered_json activations = none, constants = none;
  for (const Decision& decision : decisions.tensors) {
    if (decision.format == "none") continue;
    if (const std::string why_not = WhyNot(decision, kind); !why_not.empty()) {
      notes.push_back(fmt::format("'{}' is left out: {}", decision.value, why_not));
      continue;
    }
    const IntegerBits type = *IntegerBitsOf(decision.format);
    ordered_json& all = decision.is_constant && !IsSecond(kind) ? constants : activations;
    if (kind == FileKind::kAimet061) all[decision.value] = ListOf(decision, type);
    if (kind == FileKind::kAimet100) all.push_back(EncodingOf(decision, type));
    if (IsSecond(kind)) {
      all.push_back(decision.multiples ? LpbqOf(decision, kind) : QuantizeLinearOf(decision));
    }
  }
  if (IsSecond(kind)) {
    return {{"version", kind == FileKind::kAimet200 ? "2.0.0" : "2.1.0"},
            {"encodings", activations}};
  }
  return {{"version", is_list ? "1.0.0" : "0.6.1"},
          {"activation_encodings", activations},
          {"param_encodings", constants}};
}

}  // namespace bitpress::interop
