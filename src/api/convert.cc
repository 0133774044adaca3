#include "api/convert.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <utility>

#include "base/error.h"
#include "data/stream_source.h"
#include "plan/rule.h"
#include "tasks/plan.h"

namespace bitpress {

SampleReader::~SampleReader() = default;

namespace api {
namespace {

// The public header repeats the numbers, because it shows nothing of the rooms.
constexpr bool IsSame(ElementType type, DataType known) {
  return static_cast<int32_t>(type) == static_cast<int32_t>(known);
}
static_assert(IsSame(ElementType::kFloat32, DataType::kFloat) &&
              IsSame(ElementType::kUInt8, DataType::kUInt8) &&
              IsSame(ElementType::kInt8, DataType::kInt8) &&
              IsSame(ElementType::kInt32, DataType::kInt32) &&
              IsSame(ElementType::kInt64, DataType::kInt64) &&
              IsSame(ElementType::kBool, DataType::kBool) &&
              IsSame(ElementType::kFloat16, DataType::kFloat16) &&
              IsSame(ElementType::kFloat64, DataType::kDouble));

Tensor CopyOf(const Array& array) {
  Tensor tensor{.type = static_cast<DataType>(array.type), .dims = array.shape, .bytes = {}};
  const size_t element_bytes = ElementBits(tensor.type) / 8;
  if (element_bytes == 0) {
    Fail(ErrorCode::kInvalidArgument, "samples of element type {} are not read",
         DataTypeName(tensor.type));
  }
  const int64_t num_elements = tensor.num_elements();
  if (num_elements > 0 && array.data == nullptr) {
    Fail(ErrorCode::kInvalidArgument, "an array of {} samples has no data", num_elements);
  }
  const auto* const begin = static_cast<const std::byte*>(array.data);
  if (num_elements > 0) {
    tensor.bytes.assign(begin, begin + static_cast<size_t>(num_elements) * element_bytes);
  }
  return tensor;
}

// The caller's reader as samples of the library.
class ReaderStream : public data::SampleStream {
 public:
  explicit ReaderStream(std::unique_ptr<SampleReader> reader) : reader_(std::move(reader)) {
    if (reader_ == nullptr) Fail(ErrorCode::kInvalidArgument, "Samples::reader opened no reader");
  }

  std::optional<Item> Next() override {
    std::vector<Array> arrays;
    if (!reader_->Next(arrays)) return std::nullopt;
    Item item;
    for (const Array& array : arrays) item.inputs.push_back(CopyOf(array));
    return item;
  }

  void Rewind() override { reader_->Rewind(); }
  size_t num_samples() const override { return 0; }
  bool has_labels() const override { return false; }

 private:
  std::unique_ptr<SampleReader> reader_;
};

}  // namespace

plan::QuantConfig ToConfig(const Configuration& configuration) {
  const std::string& name = configuration.name;
  if (name.empty()) {
    Fail(ErrorCode::kInvalidArgument,
         "Configuration::name is empty; it is a preset, a format or a .json file");
  }
  plan::QuantConfig config = tasks::ConfigNamed(name);
  for (const auto& [key, value] : configuration.settings) plan::ApplySetting(config, key, value);
  for (const std::string& rule : configuration.rules) {
    config.rules.push_back(plan::ParseRule(rule));
  }
  return config;
}

data::SampleSpec ToSpec(const Samples& samples) {
  const std::array<bool, 3> kinds{!samples.folder.empty(), !samples.tokens.empty(),
                                  static_cast<bool>(samples.reader)};
  if (std::count(kinds.begin(), kinds.end(), true) > 1) {
    Fail(ErrorCode::kInvalidArgument, "Samples has several of folder, tokens and reader; give one");
  }
  data::SampleSpec spec{.folder = samples.folder,
                        .labels_csv = samples.labels,
                        .image = samples.image,
                        .tokens = samples.tokens,
                        .num_tokens = samples.sequence,
                        .opener = {},
                        .limit = samples.limit,
                        .whole_items = samples.whole_items};
  if (samples.reader) {
    spec.opener = [open = samples.reader](const data::SourceOptions& options) {
      return data::MakeStreamSource(std::make_unique<ReaderStream>(open()), options);
    };
  }
  return spec;
}

}  // namespace api
}  // namespace bitpress
