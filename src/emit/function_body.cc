#include "emit/function_body.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/error.h"

namespace bitpress::emit {
namespace {

constexpr int64_t kFirstOpsetWithAxesInput = 18;

// Returns the name of a number: "two_to_m126" for a power of two, "number_1p75" for others.
std::string NameOf(double value) {
  if (std::isnan(value)) return "not_a_number";
  if (std::isinf(value)) return "infinity";
  if (std::fabs(value) == std::numeric_limits<float>::max()) {
    return value > 0 ? "largest_float" : "least_float";
  }
  int exponent = 0;
  std::string name = std::frexp(value, &exponent) == 0.5
                         ? fmt::format("two_to_{}", exponent - 1)
                         : fmt::format("number_{}", static_cast<float>(value));
  std::replace(name.begin(), name.end(), '-', 'm');
  std::replace(name.begin(), name.end(), '.', 'p');
  std::erase(name, '+');
  return name;
}

}  // namespace

std::string FunctionBody::Add(std::string op_type, std::string output,
                              std::vector<std::string> inputs, Attributes attributes) {
  output.insert(0, prefix_);
  nodes_.push_back(
      {output, std::move(op_type), "", std::move(inputs), {output}, std::move(attributes)});
  return output;
}

std::string FunctionBody::Constant(const std::string& name, const std::string& attribute,
                                   graph::Attribute value) {
  if (std::find(constants_.begin(), constants_.end(), name) == constants_.end()) {
    constants_.push_back(name);
    nodes_.push_back({name, "Constant", "", {}, {name}, {{attribute, std::move(value)}}});
  }
  return name;
}

std::string FunctionBody::Number(double value) {
  if (number_rank_ == 0) return Scalar(value);
  const float number = static_cast<float>(value);
  Tensor tensor{DataType::kFloat, std::vector<int64_t>(number_rank_, 1), {}};
  tensor.bytes.resize(sizeof(number));
  std::memcpy(tensor.bytes.data(), &number, sizeof(number));
  return Constant(NameOf(value), "value", std::move(tensor));
}

std::string FunctionBody::Scalar(double value) {
  return Constant(NameOf(value) + "_scalar", "value_float", static_cast<float>(value));
}

std::string FunctionBody::Integers(const std::vector<int64_t>& values) {
  std::string name = fmt::format("integers_{}", fmt::join(values, "_"));
  std::replace(name.begin(), name.end(), '-', 'm');
  return Constant(name, "value_ints", values);
}

std::string FunctionBody::IntegerAttribute(const std::string& name) {
  return Constant(name, "value_int",
                  graph::AttributeReference{name, graph::AttributeReference::Type::kInt});
}

std::string FunctionBody::ReduceMax(std::string output, const std::string& input, int64_t axis) {
  if (opset_ < kFirstOpsetWithAxesInput) {
    return Add("ReduceMax", std::move(output), {input},
               {{"axes", std::vector<int64_t>{axis}}, {"keepdims", int64_t{1}}});
  }
  return Add("ReduceMax", std::move(output), {input, Integers({axis})}, {{"keepdims", int64_t{1}}});
}

std::string FunctionBody::Reshape(std::string output, const std::string& input,
                                  const std::string& dims) {
  Attributes attributes;
  if (opset_ >= graph::kFirstOpsetWithAllowZero) attributes.emplace_back("allowzero", int64_t{1});
  return Add("Reshape", std::move(output), {input, dims}, std::move(attributes));
}

}  // namespace bitpress::emit
