#include "weights/decode_standard.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "formats/format_spec.h"
#include "formats/reference.h"
#include "ops/integer_operators.h"

namespace bitpress::weights {
namespace {

using graph::Model;
using graph::Node;

// Returns the values of all codes of a type of up to 8 bits; empty for other types.
std::vector<float> ValuesOfCodes(DataType type) {
  using formats::ElementType;
  const auto values = [&](const auto& value) {
    std::vector<float> all(size_t{1} << ElementBits(type));
    for (size_t code = 0; code < all.size(); ++code) all[code] = value(static_cast<int>(code));
    return all;
  };
  const auto floats = [&](ElementType element) {
    return values([&](int code) {
      return static_cast<float>(formats::ref::DecodeFloat(static_cast<uint32_t>(code), element));
    });
  };
  switch (type) {
    case DataType::kFloat4E2M1:
      return floats(ElementType::kFloat4E2M1);
    case DataType::kFloat8E4M3FN:
      return floats(ElementType::kFloat8E4M3);
    case DataType::kFloat8E5M2:
      return floats(ElementType::kFloat8E5M2);
    case DataType::kFloat8E8M0:
      return values([](int code) { return code == 255 ? NAN : std::ldexp(1.0F, code - 127); });
    case DataType::kInt8:
      return values([](int code) { return static_cast<float>(static_cast<int8_t>(code)); });
    case DataType::kInt4:
      return values([](int code) { return static_cast<float>(code < 8 ? code : code - 16); });
    default:
      return {};
  }
}

// A constant of floats, or of codes that a table turns into floats.
class Numbers {
 public:
  Numbers(const Model& model, const std::string& name)
      : source_(model.HoldInitializer(name)),
        table_(ValuesOfCodes(source_.type)),
        bits_(ElementBits(source_.type)) {}

  const std::vector<int64_t>& dims() const { return source_.dims; }
  float operator[](size_t i) const {
    if (table_.empty()) return reinterpret_cast<const float*>(source_.bytes.data())[i];
    const size_t bit = i * bits_;
    const auto byte = std::to_integer<size_t>(source_.bytes[bit / 8]);
    return table_[byte >> bit % 8 & ((size_t{1} << bits_) - 1)];
  }

 private:
  graph::HeldInitializer source_;
  std::vector<float> table_;
  size_t bits_;
};

bool IsConstant(const Model& model, const std::string& name) {
  if (!model.IsInitializer(name) || model.IsDeferred(name)) return false;
  const DataType type = model.Initializer(name).type;
  return type == DataType::kFloat || !ValuesOfCodes(type).empty();
}

// Returns whether a node dequantizes constants around a zero point of 0, or of none.
bool ReadsConstants(const Model& model, const Node& node) {
  if (!ops::IsDequantize(node) || !node.domain().empty() || node.num_inputs() < 2) return false;
  const bool is_symmetric = node.num_inputs() < 3 || node.input(2).empty();
  const int64_t type = node.GetInt("output_dtype", 0);
  const bool is_float = type == 0 || type == static_cast<int64_t>(DataType::kFloat);
  return is_symmetric && is_float && IsConstant(model, node.input(0));
}

// A weight, as a DequantizeLinear computes it.
struct Job {
  std::string node;  // for messages
  Numbers codes;
  Numbers scales;
  float tensor_scale = 1;  // of the scales
  int64_t axis = 0;
  int64_t block_size = 0;

  // Returns why the dimensions of the scales do not fit, "" if they do.
  std::string WhyNot() const {
    const std::vector<int64_t>& dims = codes.dims();
    if (NumElements(scales.dims()) == 1) return "";
    const auto at = static_cast<size_t>(axis);
    if (at >= dims.size()) return fmt::format("its axis is {}", axis);
    std::vector<int64_t> expected = block_size > 0 ? dims : std::vector<int64_t>{dims[at]};
    if (block_size > 0) expected[at] = (dims[at] + block_size - 1) / block_size;
    return scales.dims() == expected ? "" : "the dimensions of its scales do not fit its codes";
  }

  void Decode(std::span<float> y, ThreadPool& pool) const {
    const std::vector<int64_t>& dims = codes.dims();
    const auto at = static_cast<size_t>(axis);
    const bool is_single = NumElements(scales.dims()) == 1;
    const int64_t length = is_single ? 1 : dims[at];
    const int64_t inner = is_single ? 1 : NumElements(std::span(dims).subspan(at + 1));
    const int64_t num_blocks = block_size > 0 ? (length + block_size - 1) / block_size : length;
    const auto scale_of = [&](int64_t row, int64_t column) {
      if (is_single) return size_t{0};
      if (block_size == 0) return static_cast<size_t>(row % length);
      return static_cast<size_t>((row / length * num_blocks + row % length / block_size) * inner +
                                 column);
    };
    const int64_t num_rows = static_cast<int64_t>(y.size()) / std::max<int64_t>(inner, 1);
    constexpr int64_t kRows = 256;  // of a task
    pool.ParallelFor(static_cast<size_t>((num_rows + kRows - 1) / kRows), [&](size_t task) {
      const auto first = static_cast<int64_t>(task) * kRows;
      for (int64_t row = first; row < std::min(num_rows, first + kRows); ++row) {
        for (int64_t column = 0; column < inner; ++column) {
          const auto i = static_cast<size_t>(row * inner + column);
          y[i] = codes[i] * (scales[scale_of(row, column)] * tensor_scale);
        }
      }
    });
  }
};

// Returns what a node computes, if ONNX Runtime has no kernel for its types.
std::optional<Job> JobOf(const Model& model, const Node& node) {
  if (!ReadsConstants(model, node)) return std::nullopt;
  std::string scales = node.input(1);
  float tensor_scale = 1;
  const std::optional<Node> inner = model.Producer(scales);
  if (inner) {
    if (!ReadsConstants(model, *inner) || !IsConstant(model, inner->input(1))) return std::nullopt;
    const Numbers factor(model, inner->input(1));
    if (NumElements(factor.dims()) != 1) return std::nullopt;
    scales = inner->input(0);
    tensor_scale = factor[0];
  }
  if (!IsConstant(model, scales)) return std::nullopt;
  const bool is_unknown = model.Initializer(node.input(0)).type == DataType::kFloat4E2M1 ||
                          model.Initializer(scales).type == DataType::kFloat8E8M0;
  if (!is_unknown) return std::nullopt;
  Job job{node.Describe(), Numbers(model, node.input(0)), Numbers(model, scales),
          tensor_scale,    node.GetInt("axis", 1),        node.GetInt("block_size", 0)};
  const auto rank = static_cast<int64_t>(job.codes.dims().size());
  if (job.axis < 0) job.axis += rank;
  if (const std::string why = job.WhyNot(); !why.empty()) {
    Fail(ErrorCode::kInvalidModel, "{}: {}", job.node, why);
  }
  return job;
}

}  // namespace

size_t DecodeStandard(Model& model, ThreadPool& pool, const std::function<void()>& step) {
  std::vector<std::pair<Node, std::shared_ptr<const Job>>> jobs;
  for (const Node& node : model.AllNodes()) {
    if (std::optional<Job> job = JobOf(model, node)) {
      jobs.emplace_back(node, std::make_shared<const Job>(std::move(*job)));
    }
  }
  for (const auto& [node, job] : jobs) {
    const std::string value = node.output(0);
    const std::vector<int64_t> dims = job->codes.dims();
    std::vector<std::string> read{node.input(0), node.input(1)};
    model.ReleaseOutputs(node);
    model.RemoveNode(node);
    model.DeferInitializers({{value, DataType::kFloat, dims}}, [job = job, dims, step, &pool] {
      std::vector<Tensor> tensors(1);
      tensors[0] = {DataType::kFloat, dims,
                    std::vector<std::byte>(NumBytes(DataType::kFloat, NumElements(dims)))};
      job->Decode(tensors[0].values<float>(), pool);
      if (step) step();
      return tensors;
    });
    // Scales that were dequantized themselves leave a node behind.
    for (size_t i = 0; i < read.size(); ++i) {
      if (model.IsRead(read[i])) continue;
      if (model.IsInitializer(read[i])) {
        model.RemoveInitializer(read[i]);
      } else if (const std::optional<Node> producer = model.Producer(read[i])) {
        read.push_back(producer->input(0));
        read.push_back(producer->input(1));
        model.RemoveNode(*producer);
      }
    }
  }
  return jobs.size();
}

}  // namespace bitpress::weights
