#include "report/constants.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "evaluate/outputs.h"
#include "graph/extract.h"
#include "runtime/session.h"
#include "weights/native_form.h"

namespace bitpress::report {
namespace {

using graph::InitializerView;
using graph::Model;
using graph::Node;

template <typename T>
std::vector<double> Widen(const InitializerView& view) {
  const std::span<const T> values = view.values<T>();
  return {values.begin(), values.end()};
}

std::optional<Constant> ReadNative(const Model& model, const Node& node, ThreadPool& pool) {
  const auto form = weights::NativeFormOf(model, node);
  if (!form) return std::nullopt;
  const weights::NativeParts parts = weights::NativePartsOf(model, node);
  const auto bytes = [&](const std::string& part) { return model.Initializer(part).bytes; };
  std::vector<float> floats(static_cast<size_t>(form->num_rows * form->row_length));
  weights::DecodeNative(
      *form, bytes(parts.codes), bytes(parts.scales),
      form->has_zero_points ? bytes(parts.zero_points) : std::span<const std::byte>(), floats,
      pool);
  Constant constant{{form->num_rows, form->row_length}, {floats.begin(), floats.end()}};
  if (form->is_matmul) std::swap(constant.dims[0], constant.dims[1]);
  return constant;
}

// Returns whether a value is computed from constants only; false for values in bodies.
bool IsConstant(const Model& model, const std::string& value) {
  const std::optional<Node> producer = model.Producer(value);
  return producer && !model.Owner(*producer) &&
         graph::Extract(model, {}, std::array{value}).InputNames().empty();
}

}  // namespace

std::optional<Constant> ReadFloats(const Model& model, const std::string& name) {
  if (!model.IsInitializer(name) || model.IsDeferred(name)) return std::nullopt;
  const InitializerView view = model.Initializer(name);
  evaluate::Output output = evaluate::ToOutput(
      {view.type, {view.dims.begin(), view.dims.end()}, {view.bytes.begin(), view.bytes.end()}});
  if (output.values.empty()) return std::nullopt;
  return Constant{std::move(output.dims), std::move(output.values)};
}

std::optional<std::vector<double>> ReadIntegers(const Model& model, const std::string& name) {
  if (!model.IsInitializer(name) || model.IsDeferred(name)) return std::nullopt;
  const InitializerView view = model.Initializer(name);
  switch (view.type) {
    case DataType::kInt8:
      return Widen<int8_t>(view);
    case DataType::kUInt8:
      return Widen<uint8_t>(view);
    case DataType::kInt16:
      return Widen<int16_t>(view);
    case DataType::kUInt16:
      return Widen<uint16_t>(view);
    case DataType::kInt32:
      return Widen<int32_t>(view);
    default:
      return std::nullopt;
  }
}

std::optional<Constant> ReadInput(const Model& model, const Node& node, size_t index,
                                  ThreadPool& pool) {
  if (auto native = ReadNative(model, node, pool)) return native;
  if (index >= node.num_inputs() || node.input(index).empty()) return std::nullopt;
  const std::string& value = node.input(index);
  if (model.IsInitializer(value)) return ReadFloats(model, value);
  if (!IsConstant(model, value)) return std::nullopt;
  runtime::Session session =
      runtime::Session::FromModel(graph::Extract(model, {}, std::array{value}),
                                  {.num_threads = static_cast<int>(pool.num_threads())});
  evaluate::Output output = evaluate::ToOutput(session.Run({}).front());
  if (output.values.empty()) return std::nullopt;
  return Constant{std::move(output.dims), std::move(output.values)};
}

std::optional<Constant> ReadCodes(const Model& model, const std::string& weight,
                                  std::optional<int64_t> axis) {
  for (const char* const suffix : {"_codes", "_quantized"}) {
    auto codes = ReadIntegers(model, weight + suffix);
    const auto scales = ReadFloats(model, weight + "_scale");
    if (!codes || !scales) continue;
    const auto view_dims = model.Initializer(weight + suffix).dims;
    Constant constant{{view_dims.begin(), view_dims.end()}, std::move(*codes)};
    const auto zeros = ReadIntegers(model, weight + "_zero_point");
    const size_t num_scales = scales->values.size();
    size_t inner = constant.values.size();  // elements side by side that share a scale
    const std::span<const int64_t> of_scales(scales->dims);
    const bool is_leading =
        of_scales.size() > 1 && of_scales.size() < constant.dims.size() &&
        std::ranges::equal(of_scales, std::span(constant.dims).first(of_scales.size()));
    if (is_leading) {
      inner /= num_scales;
    } else if (num_scales > 1) {
      const bool fits = axis && *axis >= 0 && std::cmp_less(*axis, constant.dims.size()) &&
                        std::cmp_equal(constant.dims[static_cast<size_t>(*axis)], num_scales);
      if (!fits) return std::nullopt;
      inner = static_cast<size_t>(
          NumElements(std::span(constant.dims).subspan(static_cast<size_t>(*axis) + 1)));
    }
    if (zeros && zeros->size() != 1 && zeros->size() != num_scales) return std::nullopt;
    for (size_t i = 0; i < constant.values.size(); ++i) {
      const size_t slice = i / inner % num_scales;
      const double zero = zeros ? (*zeros)[zeros->size() == 1 ? 0 : slice] : 0;
      constant.values[i] = (constant.values[i] - zero) * scales->values[slice];
    }
    return constant;
  }
  return std::nullopt;
}

}  // namespace bitpress::report
