#include "emit/products_of_rows.h"

#include <algorithm>
#include <span>

namespace bitpress::emit {

using graph::Node;

std::string ProductsOfRows::Compute(
    const std::string& op_type, std::vector<std::string> inputs, const std::string& output,
    const Node& reader, std::vector<std::pair<std::string, graph::Attribute>> attributes) {
  model_.InsertNode({model_.FreshNodeName(output + "_" + op_type),
                     op_type,
                     "",
                     std::move(inputs),
                     {output},
                     std::move(attributes)},
                    reader);
  return output;
}

std::string ProductsOfRows::Reduce(const std::string& op_type, const std::string& value,
                                   const std::string& output, const Node& reader) {
  constexpr int64_t kFirstAxesInput = 18;  // the operator set that made the axes an input
  std::vector<std::pair<std::string, graph::Attribute>> attributes = {{"keepdims", int64_t{1}}};
  std::vector<std::string> inputs{value};
  const auto imports = model_.OpsetImports();
  const auto standard = imports.find("");
  if (standard != imports.end() && standard->second >= kFirstAxesInput) {
    inputs.push_back(Constant("bitpress_last_axis", DataType::kInt64, {1}, int64_t{-1}));
  } else {
    attributes.emplace_back("axes", std::vector<int64_t>{-1});
  }
  return Compute(op_type, std::move(inputs), output, reader, std::move(attributes));
}

template <typename T>
std::string ProductsOfRows::Constant(const std::string& wanted, DataType type,
                                     std::vector<int64_t> dims, T value) {
  const auto [found, is_new] = constants_.try_emplace(wanted);
  if (is_new) {
    found->second = model_.FreshName(wanted);
    model_.SetInitializer(found->second, type, dims, std::as_bytes(std::span<const T>(&value, 1)));
  }
  return found->second;
}

RowCodes ProductsOfRows::Quantize(const std::string& value, const Node& reader, Node& quantizer) {
  const auto fresh = [&](const char* what) { return model_.FreshName(value + what); };
  const std::string low = Reduce("ReduceMin", value, fresh("_row_low"), reader);
  const std::string high = Reduce("ReduceMax", value, fresh("_row_high"), reader);
  const std::string width = Compute("Sub", {high, low}, fresh("_row_width"), reader);
  const std::string share = Constant("bitpress_code_share", DataType::kFloat, {}, 1.0F / 255);
  // A row of equal elements gets this scale, and code 0.
  const std::string least = Constant("bitpress_least_scale", DataType::kFloat, {}, 1e-30F);
  const std::string exact = Compute("Mul", {width, share}, fresh("_row_exact_scale"), reader);
  const std::string scale = Compute("Max", {exact, least}, fresh("_row_scale"), reader);
  const std::string moved = Compute("Sub", {value, low}, fresh("_row_moved"), reader);
  const std::string scaled = Compute("Div", {moved, scale}, fresh("_row_scaled"), reader);
  const std::string one = Constant("bitpress_one", DataType::kFloat, {}, 1.0F);
  const std::string zero = Constant("bitpress_zero", DataType::kUInt8, {}, uint8_t{0});
  const std::string codes = fresh("_row_codes");
  quantizer = model_.InsertNode(
      {codes + "_quantize", "QuantizeLinear", "", {scaled, one, zero}, {codes}, {}}, reader);
  return {codes, scale, low};
}

void ProductsOfRows::Multiply(const RowCodes& input, const MatrixCodes& weight,
                              const std::string& bias, const std::string& output,
                              const Node& reader) {
  const auto fresh = [&](const char* what) { return model_.FreshName(output + what); };
  std::vector<std::string> operands{input.codes, weight.codes};
  if (!weight.zero_point.empty()) operands.insert(operands.end(), {"", weight.zero_point});
  const std::string integers =
      Compute("MatMulInteger", std::move(operands), fresh("_integers"), reader);
  const std::string floats = Compute("Cast", {integers}, fresh("_unscaled"), reader,
                                     {{"to", static_cast<int64_t>(DataType::kFloat)}});
  const std::string columns = Compute("Mul", {floats, weight.scale}, fresh("_columns"), reader);
  const std::string rows = Compute("Mul", {columns, input.scale}, fresh("_rows"), reader);
  const std::string low = Compute("Mul", {input.low, weight.sums}, fresh("_low"), reader);
  const std::string sum = bias.empty() ? output : fresh("_sum");
  Compute("Add", {rows, low}, sum, reader);
  if (!bias.empty()) Compute("Add", {sum, bias}, output, reader);
}

Tensor SumsAlong(size_t axis, const weights::IntegerWeight& weight,
                 const weights::IntegerWeight::Result& result, ThreadPool& pool) {
  const std::vector<formats::QParams>& params = weight.Params(pool);
  const std::vector<int64_t>& dims = weight.source().dims;
  const auto columns = static_cast<size_t>(dims[1]);
  const bool is_signed = weight.code_type() == DataType::kInt8;
  std::vector<double> sums(static_cast<size_t>(dims[1 - axis]));
  for (size_t i = 0; i < result.codes.bytes.size(); ++i) {
    const auto byte = std::to_integer<uint8_t>(result.codes.bytes[i]);
    const int64_t code = is_signed ? int64_t{static_cast<int8_t>(byte)} : int64_t{byte};
    const formats::QParams& of = params[weight.ParamsIndexOf(i)];
    sums[axis == 0 ? i % columns : i / columns] +=
        static_cast<double>(code - of.zero_point) * double{of.scale};
  }
  Tensor tensor{
      DataType::kFloat, {dims[1 - axis]}, std::vector<std::byte>(sums.size() * sizeof(float))};
  std::ranges::transform(sums, tensor.values<float>().begin(),
                         [](double sum) { return static_cast<float>(sum); });
  return tensor;
}

}  // namespace bitpress::emit
