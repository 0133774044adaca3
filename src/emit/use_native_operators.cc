#include "emit/use_native_operators.h"

#include <algorithm>
#include <map>
#include <memory>
#include <tuple>

#include "base/error.h"
#include "emit/integer_codes.h"
#include "emit/matrix_products.h"
#include "emit/tied_tables.h"
#include "graph/clean_up.h"
#include "ops/expert_inputs.h"
#include "ops/operator_traits.h"
#include "weights/lookup_nodes.h"
#include "weights/native_form.h"
#include "weights/unpack_functions.h"
#include "weights/widen_codes.h"

namespace bitpress::emit {
namespace {

using graph::Model;
using graph::Node;
using graph::Use;

constexpr int64_t kLargestMatMulBlock = 256;
// The least block of 2 bits; smaller ones take ONNX Runtime's slow path.
constexpr int64_t kLeastTwoBitBlock = 64;

class NativeRewriter {
 public:
  NativeRewriter(Model& model, const plan::TargetProfile& target, AccuracyLevel level,
                 ThreadPool& pool)
      : model_(model), target_(target), level_(level), pool_(pool) {}

  NativeOperators Run(const QuantizedWeights& weights) {
    for (const QuantizedWeights::Packed& packed : weights.packed) {
      const bool is_integer = formats::FindFormat(packed.statistics->format).is_integer();
      if (target_.contributed == plan::CodeReaders::kIntegers && !is_integer) continue;
      const std::vector<Use> uses = model_.AllUses(packed.statistics->quantized);
      if (uses.size() == 1 && ops::TraitsOf(uses.front().node).has_experts()) {
        experts_[uses.front().node.output(0)].emplace(uses.front().input_index, &packed);
        continue;
      }
      const bool is_tied = std::ranges::any_of(
          uses, [&](const Use& use) { return !ProductsBehindTranspose(model_, use).empty(); });
      const std::string why = is_tied ? WhyNotTied(packed, uses) : WhyNot(packed);
      if (why.empty() && is_tied) {
        RewriteTied(packed, uses, weights.step);
      } else if (why.empty()) {
        Rewrite(packed, weights.step);
      } else {
        result_.omissions.emplace_back(packed.statistics->quantized, why);
      }
    }
    for (const auto& [output, parts] : experts_) {
      const Node node = *model_.Producer(output);
      const std::string why = WhyNotExperts(node, parts);
      if (why.empty()) {
        RewriteExperts(node, parts, weights.step);
      } else {
        for (const auto& [input, packed] : parts) {
          result_.omissions.emplace_back(packed->statistics->quantized, why);
        }
      }
    }
    if (result_.num_nodes > 0) {
      RemoveUnusedDecoders(model_);
      graph::RemoveUnused(model_);  // the descriptions of values that are decoded no more
    }
    return std::move(result_);
  }

 private:
  // The packed weights of a mixture of experts by their inputs.
  using Experts = std::map<size_t, const QuantizedWeights::Packed*>;

  // Returns why no QMoE can compute a mixture of experts, "" if one can.
  std::string WhyNotExperts(const Node& node, const Experts& parts) const {
    if (!target_.no_qmoe.empty()) return target_.no_qmoe;
    const weights::NativeWeight& first = parts.begin()->second->native;
    for (const auto& [input, packed] : parts) {
      const weights::NativeWeight& native = packed->native;
      if (!native.why_not.empty()) return native.why_not;
      if (native.num_stacked == 1) return "it is no stack of matrices";
      if (native.is_widened) return fmt::format("{} bits", weights::kNarrowBits);
      if (native.bits != 4 && native.bits != 8) return fmt::format("{} bits", native.bits);
      if (native.block_size > kLargestMatMulBlock) {
        return fmt::format("blocks of {}", native.block_size);
      }
      if (native.dims[1] % native.block_size != 0) {
        return fmt::format("blocks of {} do not divide {}", native.block_size, native.dims[1]);
      }
      if (level_ == AccuracyLevel::kFloat && native.bits != 4) {
        return fmt::format("accuracy level 1 has no kernel of {} bits", native.bits);
      }
      if (std::tie(native.bits, native.block_size, native.has_zero_points) !=
          std::tie(first.bits, first.block_size, first.has_zero_points)) {
        return "its weights have different blocks";
      }
      if (model_.IsOutput(packed->statistics->quantized)) return "it is an output";
    }
    for (size_t number = 0; number < ops::kNumExpertWeights; ++number) {
      const size_t input = ops::InputsOfMoe(number).weight;
      const std::string weight = ops::InputOrNone(node, input);
      if (!weight.empty() && !parts.contains(input)) {
        return fmt::format("its weight '{}' is float", weight);
      }
    }
    return "";
  }

  void RewriteExperts(const Node& node, const Experts& parts, const std::function<void()>& step) {
    const weights::NativeWeight& any = parts.begin()->second->native;
    graph::NodeSpec spec{node.name(), ops::kQMoe, weights::kNativeDomain, {}, {}, {}};
    spec.inputs = {node.input(0), node.input(1)};
    spec.inputs.resize(ops::kBehindExperts);
    for (size_t number = 0; number < ops::kNumExpertWeights; ++number) {
      const ops::ExpertInputs& floats = ops::InputsOfMoe(number);
      const ops::ExpertInputs& codes = ops::InputsOfQMoe(number);
      spec.inputs[codes.bias] = ops::InputOrNone(node, floats.bias);
      const auto part = parts.find(floats.weight);
      if (part == parts.end()) continue;
      const QuantizedWeights::Packed& packed = *part->second;
      RemoveUnpack(packed.statistics->quantized);
      std::vector<std::string> stored = Store(packed, packed.native.Form(/*is_matmul=*/true), step);
      stored.resize(3);  // codes, scales, zero points
      spec.inputs[codes.weight] = stored[0];
      spec.inputs[codes.scales] = stored[1];
      spec.inputs[codes.zero_points] = stored[2];
    }
    while (spec.inputs.back().empty()) spec.inputs.pop_back();
    spec.attributes_of = node;
    spec.attributes = {{"expert_weight_bits", int64_t{any.bits}}, {"block_size", any.block_size}};
    // With the other level, codes of 4 bits meet floats.
    if (level_ == AccuracyLevel::kInt8) {
      spec.attributes.emplace_back("accuracy_level", static_cast<int64_t>(level_));
    }
    Replace(node, std::move(spec));
    ++result_.num_nodes;
  }

  std::string WhyNot(const QuantizedWeights::Packed& packed) const {
    const weights::NativeWeight& native = packed.native;
    const std::string& value = packed.statistics->quantized;
    if (!native.why_not.empty()) return native.why_not;
    if (native.num_stacked > 1) return "it is a stack of matrices";
    if (model_.IsOutput(value)) return "it is an output";
    const std::vector<Use> uses = model_.AllUses(value);
    const bool is_table = !uses.empty() && IsStandardOp(uses.front().node, "Gather");
    for (const Use& use : uses) {
      std::string why =
          IsStandardOp(use.node, "Gather") == is_table ? "" : "a Gather and a product read it";
      if (why.empty()) why = is_table ? WhyNotTable(use, native) : WhyNotProduct(use, native);
      if (!why.empty()) return why;
    }
    return uses.empty() ? "nothing reads it" : "";
  }

  // Returns why a table that is the head, too, has no native form that both can read.
  std::string WhyNotTied(const QuantizedWeights::Packed& packed,
                         const std::vector<Use>& uses) const {
    if (!packed.native.why_not.empty()) return packed.native.why_not;
    if (model_.IsOutput(packed.statistics->quantized)) return "it is an output";
    weights::NativeWeight head = packed.native;
    std::ranges::reverse(head.dims);
    head.axis = 1 - head.axis;
    for (const Use& use : uses) {
      const std::vector<Node> products = ProductsBehindTranspose(model_, use);
      if (products.empty()) {
        const std::string why = IsStandardOp(use.node, "Gather")
                                    ? WhyNotTable(use, packed.native)
                                    : fmt::format("{} reads it", use.node.op_type());
        if (!why.empty()) return why;
      }
      for (const Node& product : products) {
        if (std::string why = WhyNotProduct({product, 1}, head); !why.empty()) return why;
      }
    }
    return "";
  }

  // Returns whether the bytes of a product's weight are rows that a lookup can decode alone. Short
  // last blocks are filled up in one form and not in the other.
  bool CanShareBytes(const weights::NativeWeight& native) const {
    return native.dims[1] % native.block_size == 0 &&
           weights::WhyNoLookup(model_, TableOf(native)).empty();
  }

  // Returns what the bytes of a product's weight are to a lookup: rows of unsigned integers.
  static weights::PackedWeight TableOf(const weights::NativeWeight& native) {
    weights::PackedWeight table;
    table.spec = formats::FindFormat(fmt::format("uint{}", native.bits));
    table.shape = native.dims;
    table.view = {native.dims[0], native.dims[1], 1};
    table.integer = weights::PackedWeight::Integer{.block_size = native.block_size,
                                                   .is_per_column = true,
                                                   .zero_point = int64_t{1} << (native.bits - 1),
                                                   .has_zero_points = native.has_zero_points};
    return table;
  }

  // Lets products and lookups read the same initializers if they can. A GatherBlockQuantized would
  // want them in other dimensions, and before ONNX Runtime 1.23 it takes no bytes.
  void RewriteTied(const QuantizedWeights::Packed& packed, const std::vector<Use>& uses,
                   const std::function<void()>& step) {
    const weights::NativeForm form = packed.native.Form(/*is_matmul=*/true);
    const weights::NativeForm table = packed.native.Form(/*is_matmul=*/false);
    const bool is_shared = CanShareBytes(packed.native);
    RemoveUnpack(packed.statistics->quantized);
    const std::vector<std::string> parts = Store(packed, form, step);
    std::vector<std::string> table_parts;
    if (!is_shared) {
      // The product's weight counts for the head then.
      packed.statistics->tied->stored_bytes = packed.statistics->stored_bytes;
      table_parts = Store(packed, table, [] {});
    }
    for (const Use& use : uses) {
      const std::vector<Node> products = ProductsBehindTranspose(model_, use);
      for (const Node& product : products) Replace(product, Product(product, form, parts));
      if (!products.empty()) {
        model_.RemoveNode(use.node);
      } else if (is_shared) {
        weights::ReplaceByLookup(model_, parts, TableOf(packed.native), use.node);
      } else {
        Replace(use.node, Lookup(use.node, table, table_parts));
      }
      result_.num_nodes += std::max<size_t>(products.size(), 1);
    }
  }

  static std::string WhyNotTable(const Use& use, const weights::NativeWeight& native) {
    if (use.input_index != 0 || use.node.GetInt("axis", 0) != 0 || native.axis != 1) {
      return "Gather reads it along its blocks";
    }
    if (native.is_widened) return fmt::format("no lookup has {} bits", weights::kNarrowBits);
    const bool is_whole = native.bits == 4 || native.dims[1] * native.bits % 8 == 0;
    return is_whole ? "" : "its rows are no whole bytes";
  }

  std::string WhyNotProduct(const Use& use, const weights::NativeWeight& native) const {
    if (!IsStandardOp(use.node, "MatMul") && !IsStandardOp(use.node, "Gemm")) {
      return fmt::format("{} reads it", use.node.op_type());
    }
    if (native.block_size > kLargestMatMulBlock) {
      return fmt::format("blocks of {}", native.block_size);
    }
    if (level_ == AccuracyLevel::kFloat && native.bits != 4) {
      return fmt::format("accuracy level 1 is slow at {} bits", native.bits);
    }
    if (native.bits == 2 && native.block_size < kLeastTwoBitBlock) {
      return fmt::format("2 bits in blocks of {} are slow", native.block_size);
    }
    return WhyNoMatrixProduct(model_, use, native.axis, native.dims);
  }

  void Rewrite(const QuantizedWeights::Packed& packed, const std::function<void()>& step) {
    const std::string& value = packed.statistics->quantized;
    const std::vector<Use> uses = model_.AllUses(value);
    const weights::NativeForm form = packed.native.Form(!IsStandardOp(uses.front().node, "Gather"));
    RemoveUnpack(value);
    const std::vector<std::string> parts = Store(packed, form, step);
    for (const Use& use : uses) {
      Replace(use.node,
              form.is_matmul ? Product(use.node, form, parts) : Lookup(use.node, form, parts));
    }
    result_.num_nodes += uses.size();
  }

  void RemoveUnpack(const std::string& value) {
    const Node unpack = *model_.Producer(value);
    std::vector<std::string> parts;
    for (size_t i = 0; i < unpack.num_inputs(); ++i) parts.push_back(unpack.input(i));
    model_.ReleaseOutputs(unpack);
    model_.RemoveNode(unpack);
    for (const std::string& part : parts) model_.RemoveInitializer(part);
  }

  // The names of codes, scales and, if there are any, zero points.
  std::vector<std::string> Store(const QuantizedWeights::Packed& packed,
                                 const weights::NativeForm& form,
                                 const std::function<void()>& step) {
    const std::string& value = packed.statistics->quantized;
    // A stack of matrices lies in three dimensions, as a QMoE reads it.
    const int64_t num_stacked = packed.native.num_stacked;
    const auto stacked = [&](std::vector<int64_t> dims) -> std::vector<int64_t> {
      if (num_stacked == 1) return dims;
      return {num_stacked, form.num_rows / num_stacked, NumElements(dims) / form.num_rows};
    };
    std::vector<graph::DeferredTensor> tensors{
        {model_.FreshName(value + "_codes"), form.code_type(), stacked(form.stored_dims())},
        {model_.FreshName(value + "_scales"), DataType::kFloat, stacked(form.scale_dims())}};
    if (form.has_zero_points) {
      tensors.push_back({model_.FreshName(value + "_zero_points"), form.code_type(),
                         stacked(form.zero_point_dims())});
    }
    std::vector<std::string> names;
    packed.statistics->stored_bytes = 0;
    for (const graph::DeferredTensor& tensor : tensors) {
      names.push_back(tensor.name);
      packed.statistics->stored_bytes += NumBytes(tensor.type, NumElements(tensor.dims));
    }
    model_.DeferInitializers(tensors, [packed, form, step, tensors, &pool = pool_] {
      std::vector<Tensor> produced = packed.native.encode(form, pool, *packed.statistics);
      for (size_t i = 0; i < tensors.size(); ++i) {
        produced[i].type = tensors[i].type;
        produced[i].dims = tensors[i].dims;
      }
      step();
      return produced;
    });
    if (form.is_widened) names.front() = Widen(names.front(), value, form);
    return names;
  }

  // Inserts the node that widens codes in front of everything. Returns the name of what it gives.
  std::string Widen(const std::string& codes, const std::string& value,
                    const weights::NativeForm& form) {
    const graph::FunctionSpec function = weights::WidenerFunction(form.has_zero_points);
    const std::string wide = model_.FreshName(value + "_wide_codes");
    model_.SetOpsetImport(function.domain, 1);
    model_.SetFunction(function);
    model_.InsertNode({model_.FreshNodeName(wide),
                       function.name,
                       function.domain,
                       {codes},
                       {wide},
                       {{"shape", form.code_dims()}}},
                      model_.Nodes().front());
    graph::ValueInfo info{.type = form.code_type(), .has_shape = true, .shape = {}};
    for (const int64_t dim : form.code_dims()) info.shape.push_back({dim, ""});
    model_.SetInfo(wide, info);
    return wide;
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

  void Replace(const Node& node, graph::NodeSpec spec) {
    const std::string output = node.output(0);
    graph::ValueInfo info = model_.InfoOf(output);
    // Behind operators of other domains nobody knows the type, but these give floats.
    info.type = DataType::kFloat;
    model_.SetOpsetImport(weights::kNativeDomain, 1);
    model_.Replace(node, std::move(spec));
    if (!model_.IsOutput(output)) model_.SetInfo(output, info);
  }

  Model& model_;
  const plan::TargetProfile& target_;
  AccuracyLevel level_;
  ThreadPool& pool_;
  std::map<std::string, Experts> experts_;  // by the outputs of their nodes
  NativeOperators result_;
};

}  // namespace

NativeOperators UseNativeOperators(Model& model, const QuantizedWeights& weights,
                                   const plan::TargetProfile& target, AccuracyLevel level,
                                   ThreadPool& pool) {
  return NativeRewriter(model, target, level, pool).Run(weights);
}

}  // namespace bitpress::emit
