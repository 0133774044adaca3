// Checkpoints of Hugging Face in safetensors, float and quantized. Of a quantized layer P there are
//   GPTQ, AutoRound:      P.qweight P.qzeros P.scales P.g_idx, codes packed along the inputs
//   AWQ:                  P.qweight P.qzeros P.scales, packed along the outputs, interleaved
//   compressed-tensors:   P.weight_packed P.weight_scale P.weight_zero_point P.weight_shape, or
//                         P.weight of 8 bits with P.weight_scale
// Which of them follows from names and shapes; config.json tells only what they leave open. The
// layouts are those of AutoGPTQ, AutoAWQ and compressed-tensors, in our own words.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <utility>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/paths.h"
#include "formats/reference.h"
#include "interop/decisions.h"
#include "interop/weights_file.h"

namespace bitpress::interop {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

// A tensor in one of the files.
struct Stored {
  std::string type;  // "I32", "F16", ...
  std::vector<int64_t> dims;
  std::span<const std::byte> bytes;

  int64_t rows() const { return dims.size() == 2 ? dims[0] : 1; }
  int64_t columns() const { return dims.empty() ? 1 : dims.back(); }
};

size_t BytesOf(const std::string& type) {
  if (type == "F64" || type == "I64" || type == "U64") return 8;
  if (type == "F32" || type == "I32" || type == "U32") return 4;
  if (type == "F16" || type == "BF16" || type == "I16" || type == "U16") return 2;
  return 1;
}

uint32_t WordAt(const Stored& words, int64_t i) {
  uint32_t word = 0;
  std::memcpy(&word, words.bytes.data() + static_cast<size_t>(i) * sizeof(word), sizeof(word));
  return word;
}
uint8_t ByteAt(const Stored& bytes, int64_t i) {
  return std::to_integer<uint8_t>(bytes.bytes[static_cast<size_t>(i)]);
}

// Returns code `i` of those that lie one behind the other in every `stride`-th word from `first`
// on, the first in the lowest bits. Codes of 3 bits cross the ends of words.
uint32_t CodeAt(const Stored& words, int64_t first, int64_t stride, int64_t i, int64_t bits) {
  const int64_t bit = i * bits;
  const int64_t at = first + bit / 32 * stride;
  uint64_t word = WordAt(words, at);
  if (bit % 32 + bits > 32) word |= uint64_t{WordAt(words, at + stride)} << 32U;
  return static_cast<uint32_t>(word >> (bit % 32)) & ((1U << bits) - 1);
}

int64_t NumWords(int64_t num_codes, int64_t bits) { return (num_codes * bits + 31) / 32; }

std::vector<float> Floats(const Stored& tensor, const std::string& name) {
  if (tensor.type == "F8_E4M3") {
    std::vector<float> values;
    for (size_t i = 0; i < tensor.bytes.size(); ++i) {
      values.push_back(static_cast<float>(formats::ref::DecodeFloat(
          ByteAt(tensor, static_cast<int64_t>(i)), formats::ElementType::kFloat8E4M3)));
    }
    return values;
  }
  if (tensor.type != "F32" && tensor.type != "F16" && tensor.type != "BF16") {
    Fail(ErrorCode::kUnsupported, "'{}' is of type {}; F32, F16 and BF16 are read", name,
         tensor.type);
  }
  return FloatsOf(tensor.type, tensor.bytes);
}

class SafetensorsFile : public WeightsFile {
 public:
  explicit SafetensorsFile(const fs::path& path) {
    std::vector<fs::path> paths = {path};
    std::error_code ignored;
    if (fs::is_directory(path, ignored)) {
      paths.clear();
      for (const fs::directory_entry& entry : fs::directory_iterator(path)) {
        if (entry.path().extension() == ".safetensors") paths.push_back(entry.path());
      }
      std::ranges::sort(paths);
      if (paths.empty()) {
        Fail(ErrorCode::kInvalidArgument, "'{}' holds no *.safetensors", PathText(path));
      }
    }
    const fs::path config = paths.front().parent_path() / "config.json";
    if (fs::exists(config, ignored)) ReadConfig(config);
    for (const fs::path& each : paths) {
      WithContext(fmt::format("'{}'", PathText(each)), [&] { ReadTable(Map(each)); });
    }
    NamePlaces();
  }

  FileWeight Read(const std::string& name) const override {
    return WithContext(fmt::format("tensor '{}'", name), [&] {
      const std::string layer = name.substr(0, name.rfind('.'));
      FileWeight weight;
      if (name.ends_with(".qweight")) {
        weight = ReadColumns(layer);
      } else if (name.ends_with(".weight_packed")) {
        weight = ReadPacked(layer);
      } else if (stored_.contains(layer + ".weight_scale") && name.ends_with(".weight")) {
        weight = ReadBytes(layer);
      } else {
        weight = ReadFloats(name);
      }
      MakeSymmetric(weight);
      return weight;
    });
  }

 private:
  void ReadConfig(const fs::path& path) {
    const Json config = Json::parse(ReadFile(path), nullptr, /*allow_exceptions=*/false);
    if (!config.is_object() || !config.contains("quantization_config")) return;
    const Json& quantization = config["quantization_config"];
    if (!quantization.is_object()) return;
    is_symmetric_ = quantization.contains("sym") && quantization["sym"] == true;
    counts_zeros_ = quantization.contains("checkpoint_format") &&
                    quantization["checkpoint_format"] == "gptq_v2";
  }

  void ReadTable(std::shared_ptr<const MappedFile> file) {
    const std::span<const std::byte> all = file->bytes();
    uint64_t size = 0;
    if (all.size() >= sizeof(size)) std::memcpy(&size, all.data(), sizeof(size));
    const auto fail = [](std::string_view why) {
      Fail(ErrorCode::kInvalidArgument, "the safetensors file is damaged: {}", why);
    };
    if (all.size() < sizeof(size) || size > all.size() - sizeof(size)) fail("it ends too early");
    const auto* const text = reinterpret_cast<const char*>(all.data() + sizeof(size));
    const Json table = Json::parse(text, text + size, nullptr, /*allow_exceptions=*/false);
    if (!table.is_object()) fail("its header is no JSON object");
    const std::span<const std::byte> data = all.subspan(sizeof(size) + static_cast<size_t>(size));
    for (const auto& [name, entry] : table.items()) {
      if (name == "__metadata__") continue;
      const bool has_keys = entry.is_object() && entry.contains("dtype") &&
                            entry["dtype"].is_string() && entry.contains("shape") &&
                            entry["shape"].is_array() && entry.contains("data_offsets") &&
                            entry["data_offsets"].is_array() && entry["data_offsets"].size() == 2;
      if (!has_keys) fail("the entry of '" + name + "'");
      Stored tensor;
      tensor.type = entry["dtype"].get<std::string>();
      uint64_t num_elements = 1;
      for (const Json& dim : entry["shape"]) {
        constexpr uint64_t kMost = uint64_t{1} << 40U;
        if (!dim.is_number_unsigned() || dim.get<uint64_t>() > kMost)
          fail("the shape of '" + name + "'");
        tensor.dims.push_back(dim.get<int64_t>());
        num_elements *= dim.get<uint64_t>();
        if (num_elements > kMost) fail("the shape of '" + name + "'");
      }
      const Json& offsets = entry["data_offsets"];
      if (!offsets[0].is_number_unsigned() || !offsets[1].is_number_unsigned()) {
        fail("the place of '" + name + "'");
      }
      const auto begin = offsets[0].get<uint64_t>(), end = offsets[1].get<uint64_t>();
      if (begin > end || end > data.size() || end - begin != num_elements * BytesOf(tensor.type)) {
        fail("the place of '" + name + "'");
      }
      tensor.bytes = data.subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
      stored_[name] = std::move(tensor);
    }
    files_.push_back(std::move(file));
  }

  void NamePlaces() {
    for (const auto& [name, tensor] : stored_) {
      const std::string kind = name.substr(name.rfind('.') + 1);
      const std::optional<TensorPlace> place = PlaceOfName(name);
      const bool is_main =
          kind == "weight" || kind == "bias" || kind == "qweight" || kind == "weight_packed";
      if (is_main && place) {
        tensors_.emplace(*place, name);
      } else if (is_main) {
        others_.push_back(name);
      }
    }
  }

  // Returns a tensor that a layer needs.
  const Stored& Part(const std::string& name, std::string_view type = "") const {
    const auto found = stored_.find(name);
    if (found == stored_.end()) {
      Fail(ErrorCode::kInvalidArgument, "it needs '{}', which the file does not have", name);
    }
    const Stored& part = found->second;
    if ((!type.empty() && part.type != type) || part.dims.empty() || part.dims.size() > 2 ||
        part.bytes.empty()) {
      Fail(ErrorCode::kUnsupported, "'{}' is of type {} with {} dimensions", name, part.type,
           part.dims.size());
    }
    return part;
  }

  FileWeight ReadFloats(const std::string& name) const {
    const Stored& tensor = Part(name);
    FileWeight weight;
    weight.type = tensor.type;
    weight.num_rows = tensor.rows();
    weight.row_length = tensor.columns();
    weight.floats = Floats(tensor, name);
    return weight;
  }

  [[noreturn]] static void FailSizes(const std::string& layer) {
    Fail(ErrorCode::kInvalidArgument, "the sizes of the tensors of '{}' do not fit each other",
         layer);
  }

  // Reads GPTQ's and AWQ's tensors: scales and zero points are [groups, outputs].
  FileWeight ReadColumns(const std::string& layer) const {
    const Stored& codes = Part(layer + ".qweight", "I32");
    const Stored& zeros = Part(layer + ".qzeros", "I32");
    const Stored& scales = Part(layer + ".scales");
    const int64_t outputs = scales.columns(), groups = scales.rows();
    const bool is_awq = codes.columns() != outputs;
    const int64_t bits = zeros.columns() * 32 / outputs;
    const int64_t inputs = is_awq || bits == 0 ? codes.rows() : codes.rows() * 32 / bits;
    const bool is_known = bits == 2 || bits == 3 || bits == 4 || bits == 8;
    if (!is_known || outputs * bits != zeros.columns() * 32 || zeros.rows() != groups ||
        inputs % groups != 0 || (!is_awq && inputs * bits != codes.rows() * 32) ||
        (is_awq && (bits != 4 || codes.columns() * 8 != outputs))) {
      FailSizes(layer);
    }
    const uint32_t mask = (1U << bits) - 1;
    // Place of each of eight neighbouring columns in AWQ's words.
    constexpr std::array<int64_t, 8> kInterleaved = {0, 4, 1, 5, 2, 6, 3, 7};
    const auto column = [&](const Stored& words, int64_t row, int64_t i) {
      const int64_t at = is_awq ? i - i % 8 + kInterleaved[static_cast<size_t>(i % 8)] : i;
      return CodeAt(words, row * words.columns(), 1, at, bits);
    };
    FileWeight weight;
    weight.type = is_awq ? "AWQ" : "GPTQ";
    weight.type += fmt::format(" {} bits", bits);
    weight.format = FormatOf(bits);
    weight.num_rows = outputs;
    weight.row_length = inputs;
    weight.block_size = inputs / groups;
    weight.codes.resize(static_cast<size_t>(outputs * inputs));
    for (int64_t row = 0; row < outputs; ++row) {
      for (int64_t i = 0; i < inputs; ++i) {
        const uint32_t code = is_awq ? column(codes, i, row) : CodeAt(codes, row, outputs, i, bits);
        weight.codes[static_cast<size_t>(row * inputs + i)] = static_cast<int16_t>(code);
      }
    }
    const std::vector<float> all_scales = Floats(scales, layer + ".scales");
    // GPTQ's first format stores zero points less one.
    const uint32_t added = is_awq || counts_zeros_ ? 0 : 1;
    for (int64_t row = 0; row < outputs; ++row) {
      for (int64_t group = 0; group < groups; ++group) {
        weight.scales.push_back(all_scales[static_cast<size_t>(group * outputs + row)]);
        const uint32_t zero = (column(zeros, group, row) + added) & mask;
        weight.zero_points.push_back(static_cast<int16_t>(is_symmetric_ ? 1U << (bits - 1) : zero));
      }
    }
    FollowOrder(layer, weight);
    return weight;
  }

  // Puts columns that lie in groups of another order (act-order) into the order of these. Where
  // groups have different sizes, the weight becomes floats.
  void FollowOrder(const std::string& layer, FileWeight& weight) const {
    for (const char* const name : {".g_idx", ".weight_g_idx"}) {
      if (!stored_.contains(layer + name)) continue;
      const Stored& groups = Part(layer + name, "I32");
      if (groups.columns() != weight.row_length) FailSizes(layer);
      const auto length = static_cast<size_t>(weight.row_length);
      std::vector<int64_t> group_of(length), sizes(static_cast<size_t>(weight.num_blocks()));
      bool is_plain = true, is_set = false;
      for (size_t i = 0; i < length; ++i) {
        const uint32_t group = WordAt(groups, static_cast<int64_t>(i));
        group_of[i] = group;
        is_plain = is_plain && group_of[i] == static_cast<int64_t>(i) / weight.block_size;
        is_set = is_set || group != UINT32_MAX;
      }
      if (is_plain || !is_set) return;
      for (const int64_t group : group_of) {
        if (group >= weight.num_blocks()) FailSizes(layer);
        ++sizes[static_cast<size_t>(group)];
      }
      if (std::ranges::any_of(sizes, [&](int64_t size) { return size != weight.block_size; })) {
        return DecodeGroups(group_of, weight);
      }
      weight.order.resize(length);
      std::iota(weight.order.begin(), weight.order.end(), int64_t{0});
      std::ranges::stable_sort(weight.order, {},
                               [&](int64_t input) { return group_of[static_cast<size_t>(input)]; });
      const std::vector<int16_t> codes = weight.codes;
      for (size_t at = 0; at < codes.size(); ++at) {
        const auto input = static_cast<size_t>(weight.order[at % length]);
        weight.codes[at] = codes[at - at % length + input];
      }
      return;
    }
  }

  // Makes floats of the codes of a weight, with the group of each column.
  static void DecodeGroups(const std::vector<int64_t>& group_of, FileWeight& weight) {
    const size_t length = group_of.size();
    weight.floats.resize(weight.codes.size());
    for (size_t at = 0; at < weight.codes.size(); ++at) {
      const size_t block = at / length * static_cast<size_t>(weight.num_blocks()) +
                           static_cast<size_t>(group_of[at % length]);
      const int zero_point = weight.zero_points.empty() ? 0 : weight.zero_points[block];
      weight.floats[at] = static_cast<float>(weight.codes[at] - zero_point) * weight.scales[block];
    }
    weight.why_rounded = "its groups of columns have different sizes (act-order)";
    weight.format = "none";
    weight.codes.clear();
    weight.scales.clear();
    weight.zero_points.clear();
    weight.block_size = 0;
  }

  // Reads the tensors of compressed-tensors: scales are [outputs, groups].
  FileWeight ReadPacked(const std::string& layer) const {
    const Stored& codes = Part(layer + ".weight_packed");
    if (codes.type == "U8") return ReadFourBitFloats(layer, codes);
    const Stored& scales = Part(layer + ".weight_scale");
    const Stored& shape = Part(layer + ".weight_shape", "I64");
    if (codes.type != "I32" || shape.bytes.size() != 2 * sizeof(int64_t)) FailSizes(layer);
    int64_t dims[2] = {};
    std::memcpy(dims, shape.bytes.data(), sizeof(dims));
    FileWeight weight;
    weight.num_rows = dims[0];
    weight.row_length = dims[1];
    const int64_t groups = scales.dims.size() == 2 ? scales.columns() : 1;
    const int64_t bits = dims[1] > 0 ? codes.columns() * 32 / dims[1] : 0;
    if (dims[0] < 1 || dims[0] != codes.rows() || bits < 2 || bits > 8 ||
        NumWords(dims[1], bits) != codes.columns() || dims[1] % groups != 0 ||
        (scales.rows() != dims[0] && scales.bytes.size() / BytesOf(scales.type) != 1)) {
      FailSizes(layer);
    }
    weight.type = fmt::format("compressed-tensors {} bits", bits);
    weight.format = FormatOf(bits);
    weight.block_size = dims[1] / groups;
    for (int64_t row = 0; row < dims[0]; ++row) {
      for (int64_t i = 0; i < dims[1]; ++i) {
        const uint32_t code = CodeAt(codes, row * codes.columns(), 1, i, bits);
        weight.codes.push_back(static_cast<int16_t>(code));
      }
    }
    const std::vector<float> all_scales = Floats(scales, layer + ".weight_scale");
    const std::string zeros_name = layer + ".weight_zero_point";
    const Stored* const zeros = stored_.contains(zeros_name) ? &Part(zeros_name, "I32") : nullptr;
    // Zero points are packed along the outputs.
    if (zeros != nullptr &&
        (zeros->columns() != groups || zeros->rows() != NumWords(dims[0], bits))) {
      FailSizes(layer);
    }
    for (int64_t row = 0; row < dims[0]; ++row) {
      for (int64_t group = 0; group < groups; ++group) {
        weight.scales.push_back(
            all_scales[all_scales.size() == 1 ? 0 : static_cast<size_t>(row * groups + group)]);
        const uint32_t zero =
            zeros != nullptr ? CodeAt(*zeros, group, groups, row, bits) : 1U << (bits - 1);
        weight.zero_points.push_back(static_cast<int16_t>(zero));
      }
    }
    FollowOrder(layer, weight);
    return weight;
  }

  // Reads FLOAT4E2M1 with scales that are powers of two (MXFP4), or FLOAT8E4M3 with one divisor for
  // all (NVFP4). Codes count halves.
  FileWeight ReadFourBitFloats(const std::string& layer, const Stored& codes) const {
    const Stored& scales = Part(layer + ".weight_scale");
    FileWeight weight;
    weight.num_rows = codes.rows();
    weight.row_length = codes.columns() * 2;
    const bool is_mxfp4 = scales.type == "U8" || scales.type == "F8_E8M0";
    weight.type = is_mxfp4 ? "MXFP4" : "NVFP4";
    weight.format = is_mxfp4 ? "mxfp4_e2m1" : "int8";
    weight.block_size = is_mxfp4 ? 32 : 16;
    if (weight.row_length % weight.block_size != 0 || scales.rows() != weight.num_rows ||
        scales.columns() != weight.num_blocks() || (!is_mxfp4 && scales.type != "F8_E4M3")) {
      FailSizes(layer);
    }
    for (int64_t i = 0; i < weight.num_rows * weight.row_length; ++i) {
      weight.codes.push_back(kE2M1Halves[ByteAt(codes, i / 2) >> (i % 2 * 4) & 15U]);
    }
    if (is_mxfp4) {
      for (int64_t i = 0; i < scales.rows() * scales.columns(); ++i) {
        weight.scales.push_back(std::ldexp(1.0F, ByteAt(scales, i) - 128));
      }
      return weight;
    }
    const std::string divisor_name = layer + ".weight_global_scale";
    const std::vector<float> divisor = Floats(Part(divisor_name), divisor_name);
    for (const float scale : Floats(scales, layer + ".weight_scale")) {
      weight.scales.push_back(scale / divisor.front() / 2);
    }
    return weight;
  }

  // Reads codes of 8 bits with a scale for each output, or one.
  FileWeight ReadBytes(const std::string& layer) const {
    const Stored& codes = Part(layer + ".weight", "I8");
    const Stored& scales = Part(layer + ".weight_scale");
    FileWeight weight;
    weight.type = "compressed-tensors 8 bits";
    weight.format = "int8";
    weight.num_rows = codes.rows();
    weight.row_length = weight.block_size = codes.columns();
    const std::vector<float> all = Floats(scales, layer + ".weight_scale");
    if (all.size() != 1 && all.size() != static_cast<size_t>(weight.num_rows)) FailSizes(layer);
    for (int64_t row = 0; row < weight.num_rows; ++row) {
      weight.scales.push_back(all[all.size() == 1 ? 0 : static_cast<size_t>(row)]);
    }
    for (int64_t i = 0; i < weight.num_rows * weight.row_length; ++i) {
      weight.codes.push_back(static_cast<int8_t>(ByteAt(codes, i)));
    }
    return weight;
  }

  // Returns the format that holds codes of so many bits in blocks: the narrowest one that products
  // compute from in blocks of every size.
  static std::string FormatOf(int64_t bits) {
    return IntegerName(bits > 4 ? 8 : bits == 3 ? 3 : 4, /*is_signed=*/false);
  }

  // Writes unsigned codes with one zero point for all as signed ones without it, where these fit.
  static void MakeSymmetric(FileWeight& weight) {
    if (weight.zero_points.empty() || weight.codes.empty()) return;
    const int16_t zero = weight.zero_points.front();
    const int middle = 1 << (IntegerBitsOf(weight.format)->bits - 1);
    const auto [least, most] = std::ranges::minmax(weight.codes);
    if (least - zero < -middle || most - zero >= middle ||
        std::ranges::any_of(weight.zero_points, [&](int16_t each) { return each != zero; })) {
      return;
    }
    weight.format = IntegerName(IntegerBitsOf(weight.format)->bits, /*is_signed=*/true);
    weight.zero_points.clear();
    for (int16_t& code : weight.codes) code = static_cast<int16_t>(code - zero);
  }

  std::vector<std::shared_ptr<const MappedFile>> files_;
  std::map<std::string, Stored> stored_;
  bool is_symmetric_ = false;  // zero points are the middle, whatever is stored
  bool counts_zeros_ = false;  // zero points are stored as they are
};

}  // namespace

std::unique_ptr<WeightsFile> OpenSafetensors(const fs::path& path) {
  return std::make_unique<SafetensorsFile>(path);
}

}  // namespace bitpress::interop
