#include "emit/use_native_operators.h"

#include <algorithm>
#include <memory>
#include <set>

#include "base/error.h"
#include "emit/integer_codes.h"
#include "graph/clean_up.h"
#include "weights/integer_weight.h"
#include "weights/native_form.h"
#include "weights/unpack_functions.h"

namespace bitpress::emit {
namespace {

using graph::Model;
using graph::Node;
using graph::Use;

constexpr int64_t kLeastBlock = 16;
constexpr int64_t kLargestMatMulBlock = 256;
// The least block of 2 bits; smaller ones take ONNX Runtime's slow path.
constexpr int64_t kLeastTwoBitBlock = 64;

// Returns the reason why a matrix product cannot be a MatMulNBits, "" if it can.
std::string WhyNotMatMul(const Model& model, const Use& use, int64_t axis,
                         const std::vector<int64_t>& dims) {
  const Node& node = use.node;
  if (use.input_index != 1) return "it is the left matrix of a product";
  const bool is_gemm = IsStandardOp(node, "Gemm");
  const bool is_transposed = is_gemm && node.GetInt("transB", 0) != 0;
  if (axis != (is_transposed ? 1 : 0)) return "its blocks do not run along the sums";
  if (!is_gemm) return "";
  if (node.GetInt("transA", 0) != 0 || node.GetFloat("alpha", 1) != 1) {
    return "Gemm with transA or alpha";
  }
  if (node.num_inputs() < 3 || node.input(2).empty()) return "";
  const graph::ValueInfo bias = model.InfoOf(node.input(2));
  const bool is_vector = bias.has_shape && bias.shape.size() == 1 &&
                         bias.shape[0].value == dims[static_cast<size_t>(1 - axis)];
  return is_vector && node.GetFloat("beta", 1) == 1 ? "" : "Gemm that adds more than a vector";
}

class Rewriter {
 public:
  Rewriter(Model& model, AccuracyLevel level, ThreadPool& pool)
      : model_(model), level_(level), pool_(pool) {}

  NativeOperators Run(const QuantizedWeights& weights) {
    for (const QuantizedWeights::PackedInteger& packed : weights.integers) {
      const std::string why = WhyNot(packed);
      if (why.empty()) {
        Rewrite(packed, weights.step);
      } else {
        result_.omissions.emplace_back(packed.statistics->quantized, why);
      }
    }
    if (result_.num_nodes > 0) {
      RemoveUnusedFunctions();
      graph::RemoveUnused(model_);  // the descriptions of values that are decoded no more
    }
    return std::move(result_);
  }

 private:
  std::string WhyNot(const QuantizedWeights::PackedInteger& packed) const {
    const weights::IntegerLayout layout = packed.weight->Layout();
    const std::vector<int64_t>& dims = packed.weight->source().dims;
    const size_t bits = ElementBits(packed.weight->code_type());
    const std::string& value = packed.statistics->quantized;
    if (bits > 8) return fmt::format("codes of {} bits", bits);
    if (packed.weight->source().type != DataType::kFloat) return "it is FLOAT16";
    if (dims.size() != 2 || !layout.is_per_column) return "it is no matrix in blocks";
    if (layout.block_size < kLeastBlock || (layout.block_size & (layout.block_size - 1)) != 0) {
      return fmt::format("blocks of {}", layout.block_size);
    }
    if (model_.IsOutput(value)) return "it is an output";
    const std::vector<Use> uses = model_.AllUses(value);
    const bool is_table = !uses.empty() && IsStandardOp(uses.front().node, "Gather");
    const int64_t axis = packed.weight->axis();
    for (const Use& use : uses) {
      std::string why =
          IsStandardOp(use.node, "Gather") == is_table ? "" : "a Gather and a product read it";
      if (why.empty()) {
        why = is_table ? WhyNotTable(use, axis, bits, dims)
                       : WhyNotProduct(use, axis, bits, layout.block_size, dims);
      }
      if (!why.empty()) return why;
    }
    return uses.empty() ? "nothing reads it" : "";
  }

  static std::string WhyNotTable(const Use& use, int64_t axis, size_t bits,
                                 const std::vector<int64_t>& dims) {
    if (use.input_index != 0 || use.node.GetInt("axis", 0) != 0 || axis != 1) {
      return "Gather reads it along its blocks";
    }
    const bool is_whole = bits == 4 || dims[1] * static_cast<int64_t>(bits) % 8 == 0;
    return is_whole ? "" : "its rows are no whole bytes";
  }

  std::string WhyNotProduct(const Use& use, int64_t axis, size_t bits, int64_t block_size,
                            const std::vector<int64_t>& dims) const {
    if (!IsStandardOp(use.node, "MatMul") && !IsStandardOp(use.node, "Gemm")) {
      return fmt::format("{} reads it", use.node.op_type());
    }
    if (block_size > kLargestMatMulBlock) return fmt::format("blocks of {}", block_size);
    if (level_ == AccuracyLevel::kFloat && bits != 4) {
      return fmt::format("accuracy level 1 is slow at {} bits", bits);
    }
    if (bits == 2 && block_size < kLeastTwoBitBlock) {
      return fmt::format("2 bits in blocks of {} are slow", block_size);
    }
    return WhyNotMatMul(model_, use, axis, dims);
  }

  void Rewrite(const QuantizedWeights::PackedInteger& packed, const std::function<void()>& step) {
    const std::string& value = packed.statistics->quantized;
    const std::vector<Use> uses = model_.AllUses(value);
    const weights::NativeForm form =
        FormOf(*packed.weight, IsStandardOp(uses.front().node, "Gather"));
    RemoveUnpack(value);
    const std::vector<std::string> parts = Store(packed, form, step);
    for (const Use& use : uses) {
      Replace(use.node,
              form.is_matmul ? Product(use.node, form, parts) : Lookup(use.node, form, parts));
    }
    result_.num_nodes += uses.size();
  }

  static weights::NativeForm FormOf(const weights::IntegerWeight& weight, bool is_table) {
    const std::vector<int64_t>& dims = weight.source().dims;
    const auto axis = static_cast<size_t>(weight.axis());
    const weights::IntegerLayout layout = weight.Layout();
    weights::NativeForm form;
    form.is_matmul = !is_table;
    form.bits = static_cast<int>(ElementBits(weight.code_type()));
    form.num_rows = dims[1 - axis];
    form.row_length = dims[axis];
    form.block_size = layout.block_size;
    const int64_t middle = IsSigned(weight) ? 0 : int64_t{1} << (form.bits - 1);
    form.has_zero_points = layout.zero_point != middle;
    return form;
  }

  static bool IsSigned(const weights::IntegerWeight& weight) {
    const DataType type = weight.code_type();
    return type == DataType::kInt2 || type == DataType::kInt4 || type == DataType::kInt8;
  }

  void RemoveUnpack(const std::string& value) {
    Node unpack = *model_.Producer(value);
    std::vector<std::string> parts;
    for (size_t i = 0; i < unpack.num_inputs(); ++i) parts.push_back(unpack.input(i));
    unpack.set_output(0, model_.FreshName(value + "_replaced"));
    model_.RemoveNode(unpack);
    for (const std::string& part : parts) model_.RemoveInitializer(part);
  }

  // The names of codes, scales and, if there are any, zero points.
  std::vector<std::string> Store(const QuantizedWeights::PackedInteger& packed,
                                 const weights::NativeForm& form,
                                 const std::function<void()>& step) {
    const std::string& value = packed.statistics->quantized;
    std::vector<graph::DeferredTensor> tensors{
        {model_.FreshName(value + "_codes"), form.code_type(), form.code_dims()},
        {model_.FreshName(value + "_scales"), DataType::kFloat, form.scale_dims()}};
    if (form.has_zero_points) {
      tensors.push_back(
          {model_.FreshName(value + "_zero_points"), form.code_type(), form.zero_point_dims()});
    }
    std::vector<std::string> names;
    packed.statistics->stored_bytes = 0;
    for (const graph::DeferredTensor& tensor : tensors) {
      names.push_back(tensor.name);
      packed.statistics->stored_bytes += NumBytes(tensor.type, NumElements(tensor.dims));
    }
    model_.DeferInitializers(tensors, [packed, form, step, tensors, &pool = pool_] {
      std::vector<Tensor> produced = Encode(packed, form, pool);
      for (size_t i = 0; i < tensors.size(); ++i) {
        produced[i].type = tensors[i].type;
        produced[i].dims = tensors[i].dims;
      }
      step();
      return produced;
    });
    return names;
  }

  // The bytes of the three parts.
  static std::vector<Tensor> Encode(const QuantizedWeights::PackedInteger& packed,
                                    const weights::NativeForm& form, ThreadPool& pool) {
    const weights::IntegerWeight& weight = *packed.weight;
    const std::vector<int32_t> codes = weight.Codes(pool, *packed.statistics);
    const std::vector<formats::QParams>& params = weight.Params(pool);
    const bool is_row_major = weight.axis() == 1;
    const auto at = [&](int64_t row, int64_t i, int64_t length) {
      return static_cast<size_t>(is_row_major ? row * length + i : i * form.num_rows + row);
    };
    const auto param = [&](int64_t row, int64_t block) -> const formats::QParams& {
      return params[at(row, block, form.num_blocks())];
    };
    // Codes count from 0, or, without zero points, around the middle.
    const int64_t offset = IsSigned(weight) ? int64_t{1} << (form.bits - 1) : 0;
    const auto code = [&](int64_t row, int64_t i) {
      const int64_t number = codes[at(row, i, form.row_length)];
      if (form.has_zero_points) return number + offset;
      return number - param(row, i / form.block_size).zero_point + form.middle();
    };
    std::vector<Tensor> tensors(3);
    tensors[0].bytes =
        weights::PackRows(form.bits, form.num_rows, form.row_length, form.code_stride(), code);
    tensors[1].bytes.resize(params.size() * sizeof(float));
    for (int64_t row = 0; row < form.num_rows; ++row) {
      for (int64_t block = 0; block < form.num_blocks(); ++block) {
        tensors[1].values<float>()[static_cast<size_t>(row * form.num_blocks() + block)] =
            param(row, block).scale;
      }
    }
    if (form.has_zero_points) {
      tensors[2].bytes = weights::PackRows(
          form.bits, form.num_rows, form.num_blocks(), form.zero_point_stride(),
          [&](int64_t row, int64_t block) { return param(row, block).zero_point + offset; });
    }
    tensors.resize(form.has_zero_points ? 3 : 2);
    return tensors;
  }

  graph::NodeSpec Product(const Node& node, const weights::NativeForm& form,
                          const std::vector<std::string>& parts) const {
    graph::NodeSpec spec{
        node.name(), weights::kMatMulNBits, weights::kNativeDomain, {node.input(0)}, {}, {}};
    spec.inputs.insert(spec.inputs.end(), parts.begin(), parts.end());
    if (node.num_inputs() > 2 && !node.input(2).empty()) {
      constexpr size_t kBias = 5;
      spec.inputs.resize(kBias);
      spec.inputs.push_back(node.input(2));
    }
    spec.attributes = {{"K", form.row_length},
                       {"N", form.num_rows},
                       {"accuracy_level", static_cast<int64_t>(level_)},
                       {"bits", int64_t{form.bits}},
                       {"block_size", form.block_size}};
    return spec;
  }

  static graph::NodeSpec Lookup(const Node& node, const weights::NativeForm& form,
                                const std::vector<std::string>& parts) {
    graph::NodeSpec spec{
        node.name(), weights::kGatherBlockQuantized, weights::kNativeDomain, {}, {}, {}};
    spec.inputs = {parts[0], node.input(1), parts[1]};
    if (form.has_zero_points) spec.inputs.push_back(parts[2]);
    spec.attributes = {{"block_size", form.block_size},
                       {"gather_axis", int64_t{0}},
                       {"quantize_axis", int64_t{1}}};
    // ONNX Runtime before 1.23 does not know the attribute; types of 4 bits say it themselves.
    if (form.code_type() == DataType::kUInt8) {
      spec.attributes.emplace_back("bits", int64_t{form.bits});
    }
    return spec;
  }

  // Replaces a node by a new one with the same output.
  void Replace(Node node, graph::NodeSpec spec) {
    const std::string output = node.output(0);
    graph::ValueInfo info = model_.InfoOf(output);
    // Behind operators of other domains nobody knows the type, but these give floats.
    info.type = DataType::kFloat;
    node.set_output(0, model_.FreshName(output + "_replaced"));
    spec.outputs = {output};
    model_.SetOpsetImport(weights::kNativeDomain, 1);
    model_.InsertNode(spec, node);
    model_.RemoveNode(node);
    if (!model_.IsOutput(output)) model_.SetInfo(output, info);
  }

  void RemoveUnusedFunctions() {
    std::set<std::string> used;
    for (const Node& node : model_.AllNodes()) {
      if (node.domain() == "bitpress") used.insert(node.op_type());
    }
    for (const auto& [domain, name] : model_.Functions()) {
      if (domain == "bitpress" && name.starts_with(weights::kUnpackPrefix) &&
          !used.contains(name)) {
        model_.RemoveFunction(domain, name);
      }
    }
  }

  Model& model_;
  AccuracyLevel level_;
  ThreadPool& pool_;
  NativeOperators result_;
};

}  // namespace

NativeOperators UseNativeOperators(Model& model, const QuantizedWeights& weights,
                                   AccuracyLevel level, ThreadPool& pool) {
  return Rewriter(model, level, pool).Run(weights);
}

}  // namespace bitpress::emit
