#include "samples.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstring>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "data/stream_source.h"

namespace bitpress::python {
namespace {

using AnyArray = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;

DataType TypeOf(const nb::dlpack::dtype& dtype) {
  const auto is = [&](nb::dlpack::dtype_code code, int bits) {
    return dtype.code == static_cast<uint8_t>(code) && dtype.bits == bits && dtype.lanes == 1;
  };
  using Code = nb::dlpack::dtype_code;
  if (is(Code::Float, 32)) return DataType::kFloat;
  if (is(Code::Float, 16)) return DataType::kFloat16;
  if (is(Code::Float, 64)) return DataType::kDouble;
  if (is(Code::Int, 8)) return DataType::kInt8;
  if (is(Code::Int, 16)) return DataType::kInt16;
  if (is(Code::Int, 32)) return DataType::kInt32;
  if (is(Code::Int, 64)) return DataType::kInt64;
  if (is(Code::UInt, 8)) return DataType::kUInt8;
  if (is(Code::UInt, 16)) return DataType::kUInt16;
  if (is(Code::UInt, 32)) return DataType::kUInt32;
  if (is(Code::UInt, 64)) return DataType::kUInt64;
  if (is(Code::Bool, 8)) return DataType::kBool;
  Fail(ErrorCode::kInvalidArgument, "samples of this element type are not read");
}

// Returns NumPy's name of a type; "" if it has none.
std::string NumpyName(DataType type) {
  switch (type) {
    case DataType::kFloat:
      return "float32";
    case DataType::kDouble:
      return "float64";
    case DataType::kInt8:
    case DataType::kInt16:
    case DataType::kInt32:
    case DataType::kInt64:
    case DataType::kUInt8:
    case DataType::kUInt16:
    case DataType::kUInt32:
    case DataType::kUInt64:
    case DataType::kBool:
    case DataType::kFloat16:
      return ToLower(DataTypeName(type));
    default:
      return "";
  }
}

Tensor CopyOf(const AnyArray& array) {
  Tensor tensor{.type = TypeOf(array.dtype()), .dims = {}, .bytes = {}};
  for (size_t i = 0; i < array.ndim(); ++i) {
    tensor.dims.push_back(static_cast<int64_t>(array.shape(i)));
  }
  const auto* const begin = static_cast<const std::byte*>(array.data());
  if (array.size() > 0) tensor.bytes.assign(begin, begin + array.nbytes());
  return tensor;
}

class PythonStream : public data::SampleStream {
 public:
  PythonStream(nb::handle samples, Work& work, const data::SourceOptions& options)
      : samples_(samples), work_(work), input_names_(options.input_names) {
    for (size_t i = 0; i < input_names_.size(); ++i) {
      const bool is_known = i < options.input_types.size();
      input_types_.push_back(is_known ? NumpyName(options.input_types[i]) : "");
    }
    work_.WithPython([&] {
      num_samples_ = nb::cast<size_t>(samples_.attr("num_samples"));
      has_labels_ = nb::cast<bool>(samples_.attr("has_labels"));
      first_item_ = nb::cast<size_t>(samples_.attr("first_item"));
    });
  }

  std::optional<Item> Next() override {
    return work_.WithPython([&]() -> std::optional<Item> {
      const nb::object item = samples_.attr("next")(input_names_, input_types_);
      if (item.is_none()) return std::nullopt;
      const auto parts = nb::cast<nb::tuple>(item);
      Item result;
      for (const nb::handle array : parts[0]) {
        result.inputs.push_back(CopyOf(nb::cast<AnyArray>(array)));
      }
      result.labels = nb::cast<std::vector<int64_t>>(parts[1]);
      result.why_not = nb::cast<std::string>(parts[2]);
      return result;
    });
  }

  void Rewind() override {
    work_.WithPython([&] { samples_.attr("rewind")(); });
  }

  size_t num_samples() const override { return num_samples_; }
  bool has_labels() const override { return has_labels_; }
  size_t first_item() const override { return first_item_; }

 private:
  nb::handle samples_;
  Work& work_;
  std::vector<std::string> input_names_;
  std::vector<std::string> input_types_;
  size_t num_samples_ = 0;
  bool has_labels_ = false;
  size_t first_item_ = 0;
};

}  // namespace

data::SourceOpener OpenerOf(nb::object samples, Work& work) {
  if (samples.is_none()) return {};
  // The opener is copied while the lock is not held, so it must not count references: it has a
  // handle.
  const nb::handle borrowed = samples;
  return [borrowed, &work](const data::SourceOptions& options) {
    return data::MakeStreamSource(std::make_unique<PythonStream>(borrowed, work, options), options);
  };
}

}  // namespace bitpress::python
