#include "weights/native_form.h"

#include <cstring>

#include "base/check.h"
#include "base/error.h"
#include "ops/quantizer_nodes.h"
#include "weights/widen_codes.h"

namespace bitpress::weights {
namespace {

constexpr size_t kScales = 2;
constexpr size_t kZeroPoints = 3;
constexpr size_t kOrder = 4;  // input of MatMulNBits: the group of each column

int64_t RoundUp(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }

bool HasInput(const graph::Node& node, size_t i) {
  return i < node.num_inputs() && !node.input(i).empty();
}

// Returns the bits of code `i` as a number without sign.
int64_t CodeAt(std::span<const std::byte> bytes, int bits, size_t i) {
  return formats::CodeAt({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}, bits, i);
}

// Returns the two's complement number that `code` has in its lowest bits.
int64_t SignExtend(int64_t code, int bits) {
  return code >= int64_t{1} << (bits - 1) ? code - (int64_t{1} << bits) : code;
}

[[noreturn]] void FailAttribute(const char* name, int64_t value) {
  Fail(ErrorCode::kInvalidModel, "attribute '{}' is {}", name, value);
}

// Throws if an input has another number of bytes. Models have both [N * blocks] and [N, blocks] for
// MatMulNBits, so that dimensions do not count.
void CheckBytes(const graph::Model& model, const std::string& name, const char* what,
                uint64_t expected) {
  const graph::InitializerView found = model.Initializer(name);
  if (found.bytes.size() != expected) {
    Fail(ErrorCode::kInvalidModel, "its {} '{}' take {} bytes, expected {}", what, name,
         found.bytes.size(), expected);
  }
}

// Returns whether the inputs that hold the weight are constants of types that are decoded here.
bool IsDecodable(const graph::Model& model, const graph::Node& node, const NativeParts& parts,
                 bool is_matmul) {
  if (is_matmul && HasInput(node, kOrder)) return false;
  for (const std::string& part : parts.names()) {
    if (part.empty() || !model.IsInitializer(part)) return false;
  }
  const auto type = [&](const std::string& part) { return model.Initializer(part).type; };
  const DataType codes = type(parts.codes);
  const bool is_nibble = codes == DataType::kInt4 || codes == DataType::kUInt4;
  if (codes != DataType::kUInt8 && (is_matmul || !is_nibble)) return false;
  if (!parts.zero_points.empty() && type(parts.zero_points) != codes) return false;
  return type(parts.scales) == DataType::kFloat;
}

// Returns whether the codes in front of a node are widened for it as this room does that. Throws
// if they are, but do not fit.
bool IsWidened(const graph::Node& widener, const NativeForm& form) {
  if (!form.is_matmul || form.bits != kWideBits || widener.num_inputs() != 1) return false;
  if (widener.op_type() != WidenerName(form.has_zero_points)) return false;
  if (widener.GetInts("shape") != form.code_dims()) {
    Fail(ErrorCode::kInvalidModel, "attribute 'shape' of {} is [{}], expected [{}]",
         widener.Describe(), fmt::join(widener.GetInts("shape"), ", "),
         fmt::join(form.code_dims(), ", "));
  }
  return true;
}

NativeForm MatMulFormOf(const graph::Node& node) {
  NativeForm form;
  form.num_rows = node.GetInt("N", 0);
  form.row_length = node.GetInt("K", 0);
  if (form.num_rows < 1) FailAttribute("N", form.num_rows);
  if (form.row_length < 1) FailAttribute("K", form.row_length);
  return form;
}

// Returns the form of a table. Tables of other ranks and axes are left to ONNX Runtime.
std::optional<NativeForm> TableFormOf(const graph::Model& model, const graph::Node& node) {
  const graph::InitializerView codes = model.Initializer(node.input(0));
  const int64_t quantize_axis = node.GetInt("quantize_axis", 1);
  const bool is_plain = codes.dims.size() == 2 && node.GetInt("gather_axis", 0) == 0 &&
                        (quantize_axis == 1 || quantize_axis == -1);
  if (!is_plain || NumElements(codes.dims) == 0) return std::nullopt;
  NativeForm form;
  form.is_matmul = false;
  form.num_rows = codes.dims[0];
  form.row_length = codes.dims[1];
  return form;
}

}  // namespace

DataType NativeForm::code_type() const {
  if (is_matmul || bits != 4) return DataType::kUInt8;
  return has_zero_points ? DataType::kUInt4 : DataType::kInt4;
}

std::vector<int64_t> NativeForm::code_dims() const {
  if (is_matmul) return {num_rows, num_blocks(), block_size * bits / 8};
  return {num_rows, bits == 4 ? row_length : row_length * bits / 8};
}

std::vector<int64_t> NativeForm::scale_dims() const {
  if (is_matmul) return {num_rows * num_blocks()};
  return {num_rows, num_blocks()};
}

std::vector<int64_t> NativeForm::zero_point_dims() const {
  if (code_type() != DataType::kUInt8) return {num_rows, num_blocks()};
  const int64_t row_bytes = zero_point_stride() * bits / 8;
  if (is_matmul) return {num_rows * row_bytes};
  return {num_rows, row_bytes};
}

int64_t NativeForm::code_stride() const {
  return is_matmul ? num_blocks() * block_size : row_length;
}

int64_t NativeForm::zero_point_stride() const {
  // Types of 4 bits run on from row to row.
  return code_type() == DataType::kUInt8 ? RoundUp(num_blocks(), 8 / bits) : num_blocks();
}

int64_t NativeForm::middle() const {
  return code_type() == DataType::kUInt8 ? int64_t{1} << (stored_bits() - 1) : 0;
}

std::vector<int64_t> NativeForm::stored_dims() const {
  if (!is_widened) return code_dims();
  const formats::PackGroup group = formats::PackGroupOf(kNarrowBits);
  const auto num_codes = static_cast<size_t>(num_rows * code_stride());
  const auto row = static_cast<int64_t>(group.num_bytes);
  return {static_cast<int64_t>(formats::PackedBytes(num_codes, kNarrowBits)) / row, row};
}

std::string NativeForm::format() const {
  return fmt::format("{}int{}", has_zero_points ? "u" : "", stored_bits());
}

std::vector<std::string> NativeParts::names() const {
  std::vector<std::string> names{codes, scales};
  if (!zero_points.empty()) names.push_back(zero_points);
  return names;
}

NativeParts NativePartsOf(const graph::Model& model, const graph::Node& node) {
  NativeParts parts;
  const size_t codes = node.op_type() == kMatMulNBits ? 1 : 0;
  if (HasInput(node, codes)) parts.codes = node.input(codes);
  if (const auto widener = ops::WidenerOf(model, parts.codes)) {
    parts.widened = parts.codes;
    parts.codes = widener->num_inputs() > 0 ? widener->input(0) : "";
  }
  if (HasInput(node, kScales)) parts.scales = node.input(kScales);
  if (HasInput(node, kZeroPoints)) parts.zero_points = node.input(kZeroPoints);
  return parts;
}

std::optional<NativeForm> NativeFormOf(const graph::Model& model, const graph::Node& node) {
  const bool is_matmul = node.op_type() == kMatMulNBits;
  if (node.domain() != kNativeDomain || (!is_matmul && node.op_type() != kGatherBlockQuantized)) {
    return std::nullopt;
  }
  return WithContext(node.Describe(), [&]() -> std::optional<NativeForm> {
    const NativeParts parts = NativePartsOf(model, node);
    if (!IsDecodable(model, node, parts, is_matmul)) return std::nullopt;
    std::optional<NativeForm> form = is_matmul ? MatMulFormOf(node) : TableFormOf(model, node);
    if (!form) return std::nullopt;
    const DataType type = model.Initializer(parts.codes).type;
    form->has_zero_points = HasInput(node, kZeroPoints);
    const int64_t bits = node.GetInt("bits", 4);
    if (bits != 2 && bits != 4 && bits != 8) FailAttribute("bits", bits);
    form->bits = static_cast<int>(bits);
    form->block_size = node.GetInt("block_size", is_matmul ? 0 : 128);
    constexpr int64_t kMostInBlock = int64_t{1} << 16;
    if (form->block_size < 16 || form->block_size > kMostInBlock ||
        (form->block_size & (form->block_size - 1)) != 0) {
      FailAttribute("block_size", form->block_size);
    }
    if (!is_matmul && type == DataType::kUInt8) form->row_length *= 8 / form->bits;
    // Other writers choose other types for the same numbers.
    if (form->code_type() != type) return std::nullopt;
    NumElements(form->code_dims());  // throws if a product of sizes overflows
    if (!parts.widened.empty()) {
      form->is_widened = IsWidened(*ops::WidenerOf(model, parts.widened), *form);
      if (!form->is_widened) return std::nullopt;
    }
    const auto check = [&](const std::string& part, const char* what, DataType part_type,
                           const std::vector<int64_t>& dims) {
      CheckBytes(model, part, what, NumBytes(part_type, NumElements(dims)));
    };
    check(parts.codes, "codes", type, form->stored_dims());
    check(parts.scales, "scales", DataType::kFloat, form->scale_dims());
    if (form->has_zero_points) {
      check(parts.zero_points, "zero points", type, form->zero_point_dims());
    }
    return form;
  });
}

std::vector<ExpertsForm> ExpertsFormsOf(const graph::Model& model, const graph::Node& node) {
  if (node.domain() != kNativeDomain || node.op_type() != ops::kQMoe) return {};
  if (node.GetString("quant_type", "int") != "int" || node.GetInt("weights_prepacked", -1) == 1) {
    return {};
  }
  if (HasInput(node, ops::InputsOfQMoe(2).weight)) return {};
  for (size_t input = ops::kBehindExperts; input < node.num_inputs(); ++input) {
    if (HasInput(node, input)) return {};
  }
  return WithContext(node.Describe(), [&]() -> std::vector<ExpertsForm> {
    std::vector<ExpertsForm> forms;
    for (size_t number = 0; number < 2; ++number) {
      ExpertsForm found{.inputs = ops::InputsOfQMoe(number)};
      ops::ExpertInputs& inputs = found.inputs;
      if (!HasInput(node, inputs.zero_points)) inputs.zero_points = 0;
      for (const size_t input : {inputs.weight, inputs.scales, inputs.zero_points}) {
        const bool is_scale = input == inputs.scales;
        if (input == 0) continue;  // no zero points
        if (!HasInput(node, input) || !model.IsInitializer(node.input(input))) return {};
        const DataType type = model.Initializer(node.input(input)).type;
        if (type != (is_scale ? DataType::kFloat : DataType::kUInt8)) return {};
      }
      const graph::InitializerView codes = model.Initializer(node.input(inputs.weight));
      if (codes.dims.size() != 3 || NumElements(codes.dims) == 0) return {};
      NativeForm& form = found.form;
      const int64_t bits = ops::ExpertBits(node, number);
      if (bits != 2 && bits != 4 && bits != 8) FailAttribute("expert_weight_bits", bits);
      form.bits = static_cast<int>(bits);
      form.num_stacked = codes.dims[0];
      form.num_rows = codes.dims[0] * codes.dims[1];
      form.row_length = codes.dims[2] * 8 / bits;
      form.has_zero_points = inputs.zero_points != 0;
      form.block_size = node.GetInt("block_size", 0);
      if (form.block_size == 0) form.block_size = form.row_length;  // a scale for each row
      if (form.block_size < 1 || form.row_length % form.block_size != 0) {
        FailAttribute("block_size", form.block_size);
      }
      CheckBytes(model, node.input(inputs.scales), "scales",
                 NumBytes(DataType::kFloat, NumElements(form.scale_dims())));
      if (form.has_zero_points) {
        CheckBytes(model, node.input(inputs.zero_points), "zero points",
                   NumBytes(DataType::kUInt8, NumElements(form.zero_point_dims())));
      }
      forms.push_back(found);
    }
    return forms;
  });
}

void DecodeNative(const NativeForm& form, std::span<const std::byte> codes,
                  std::span<const std::byte> scales, std::span<const std::byte> zero_points,
                  std::span<float> y, ThreadPool& pool) {
  BITPRESS_DCHECK(y.size() == static_cast<size_t>(form.num_rows * form.row_length));
  const bool is_signed = form.code_type() == DataType::kInt4;
  const bool is_turned = form.is_matmul && form.num_stacked == 0;
  const auto num_rows = static_cast<size_t>(form.num_rows);
  const auto length = static_cast<size_t>(form.row_length);
  const auto block_size = static_cast<size_t>(form.block_size);
  const auto num_blocks = static_cast<size_t>(form.num_blocks());
  pool.ParallelFor(num_rows, [&](size_t row) {
    for (size_t i = 0; i < length; ++i) {
      const size_t block = i / block_size;
      float scale = 0;
      std::memcpy(&scale, scales.data() + (row * num_blocks + block) * sizeof(scale),
                  sizeof(scale));
      const int64_t zero_point =
          form.has_zero_points ? CodeAt(zero_points, form.bits,
                                        row * static_cast<size_t>(form.zero_point_stride()) + block)
                               : form.middle();
      const int64_t bits =
          CodeAt(codes, form.stored_bits(), row * static_cast<size_t>(form.code_stride()) + i);
      const int64_t code = is_signed ? SignExtend(bits, form.bits) : bits;
      y[is_turned ? i * num_rows + row : row * length + i] =
          static_cast<float>(code - zero_point) * scale;
    }
  });
}

}  // namespace bitpress::weights
